"""Draw the state diagram in docs/pro.md from the table of legal moves."""

from pathlib import Path

from roamq.schemes.proactive_states import diagram

DOCUMENT = Path(__file__).parents[1] / "docs" / "pro.md"


def redrawn(document: str) -> str:
    """The document with its diagram drawn anew."""
    before, fence, rest = document.partition("```mermaid\n")
    _, end, after = rest.partition("\n```")
    assert fence and end, "the document has no mermaid diagram"
    return f"{before}{fence}{diagram()}{end}{after}"


if __name__ == "__main__":
    DOCUMENT.write_text(redrawn(DOCUMENT.read_text()))
