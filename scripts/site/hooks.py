"""What MkDocs does besides rendering: make the reference from the code, and mend links that leave the docs folder."""

import re
import sys
from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files

sys.path.insert(0, str(Path(__file__).parent))
import reference

ROOT = Path(__file__).parent.parent.parent
EXAMPLE = "examples/own-scheme"


def on_files(files: Files, config: MkDocsConfig) -> Files:
    pages = {
        **{f"reference/{name}.md": text for name, text in reference.pages().items()},
        "changelog.md": (ROOT / "CHANGELOG.md").read_text().replace("](docs/", "]("),
        f"{EXAMPLE}.md": _example(),
    }
    for path, text in pages.items():
        files.append(File.generated(config, path, content=text))
    return files


def on_page_markdown(markdown: str, page: Any, config: MkDocsConfig, files: Files) -> str:
    """A link to a file of the repository becomes its name; the example of an own scheme has a page."""
    up = "../" * page.file.src_uri.count("/")

    def mended(match: re.Match[str]) -> str:
        text, target = match.groups()
        if target.rstrip("/").endswith(EXAMPLE):
            return f"[{text}]({up}{EXAMPLE}.md)"
        outside = target.startswith("../" * (page.file.src_uri.count("/") + 1))
        return f"{text}" if outside else match.group(0)

    return re.sub(r"\[([^\]]+)\]\((\.\./[^)\s]+)\)", mended, markdown)


def _example() -> str:
    parts = [
        "# An own scheme, the example\n\nThe package that [Write your own scheme](../own-scheme.md) explains.\n"
    ]
    for path in sorted((ROOT / EXAMPLE).glob("*.*")):
        language = {".py": "python", ".toml": "toml"}.get(path.suffix)
        if language:
            parts.append(f"## `{path.name}`\n\n```{language}\n{path.read_text()}```\n")
    return "\n".join(parts)
