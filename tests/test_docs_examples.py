"""The Python examples of pages that need neither Spark nor a long run."""

import re
from pathlib import Path

import pytest

DOCS = Path(__file__).parent.parent / "docs"


@pytest.mark.parametrize("page", ["mqtt.md", "campaigns.md"])
def test_the_examples_of_a_page_run(page: str) -> None:
    examples = re.findall(r"```python\n(.*?)```", (DOCS / page).read_text(), re.DOTALL)

    assert examples
    for code in examples:
        exec(compile(code, page, "exec"), {})  # noqa: S102 - our own text
