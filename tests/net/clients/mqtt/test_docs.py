"""The example in the documentation runs as it stands."""

import re
from pathlib import Path

DOCUMENT = Path(__file__).parents[4] / "docs" / "mqtt.md"


def test_the_example_runs() -> None:
    (example,) = re.findall(r"```python\n(.*?)```", DOCUMENT.read_text(encoding="utf-8"), re.DOTALL)
    exec(compile(example, str(DOCUMENT), "exec"), {})  # noqa: S102 - it is our own text
