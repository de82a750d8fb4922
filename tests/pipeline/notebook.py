"""Run the example notebook: `python -m tests.pipeline.notebook`, with `--write` to keep what it printed in it.

The cells are plain Python without magic, so they are executed one after the other in one namespace: no kernel, and none
of the twenty packages that one needs.
"""

import contextlib
import io
import json
import sys
from pathlib import Path
from typing import Any

NOTEBOOK = Path(__file__).parent.parent.parent / "examples" / "trace-to-ranking.ipynb"


def run_cells(notebook: dict[str, Any]) -> dict[str, Any]:
    """Execute the code cells in order, put what they print into their outputs, and return the names they defined."""
    names: dict[str, Any] = {"__name__": "__main__"}
    count = 0
    for cell in notebook["cells"]:
        if cell["cell_type"] != "code":
            continue
        count += 1
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(compile("".join(cell["source"]), f"cell {count}", "exec"), names)  # noqa: S102 - our own notebook
        cell["execution_count"] = count
        cell["outputs"] = []
        if text := printed.getvalue():
            cell["outputs"] = [
                {"name": "stdout", "output_type": "stream", "text": text.splitlines(keepends=True)}
            ]
    return names


def main() -> None:
    notebook = json.loads(NOTEBOOK.read_text(encoding="utf-8"))
    names = run_cells(notebook)
    if "--write" in sys.argv:
        text = json.dumps(notebook, indent=1, ensure_ascii=False)
        NOTEBOOK.write_text(text + "\n", encoding="utf-8")
    best = names["prediction"].where("set_size = 1").agg({"hit_rate": "max"}).first()[0]
    told = {
        "session": type(names["spark"]).__module__,
        "refused": names["trace"].quarantine().count(),
        "moves": names["moves"].count(),
        "best": best,
        "bound": names["bits"].agg({"predictability": "avg"}).first()[0],
        "ranking": [one.scheme for one in names["ranking"]],
        "troubles": [row.error for row in names["result"].runs if row.status != "ok"],
    }
    names["spark"].stop()
    sys.stdout.write(json.dumps(told) + "\n")


if __name__ == "__main__":
    main()
