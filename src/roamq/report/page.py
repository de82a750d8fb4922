"""A page: all that a report says, as a value that a run leaves in its folder (`report.json`)."""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from roamq.core.errors import ConfigError
from roamq.report.exhibits import Section, section_from

FILE_NAME = "report.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class ScoreRow:
    """One line of a scorecard."""

    claim: str
    title: str
    published: str
    ours: str
    verdict: str
    why: str = ""
    command: str = ""
    """What to type to judge this claim again."""

    @property
    def reasons(self) -> list[str]:
        """The parts of `why`, to be shown one below the other."""
        return [part for part in self.why.split("; ") if part]


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """A report before it is drawn."""

    title: str
    lead: str = ""
    """A sentence or two under the title."""
    command: str = ""
    """What to type to make it again."""
    facts: Sequence[tuple[str, str]] = ()
    """Key numbers, shown large: (what, value)."""
    scorecard: Sequence[ScoreRow] = ()
    sections: Sequence[Section] = ()
    warnings: Sequence[str] = ()
    """What a reader must know before believing the rest, such as runs that failed."""


def write_page(page: Page, folder: Path) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / FILE_NAME
    path.write_text(json.dumps(asdict(page), indent=1, default=str))
    return path


def read_page(folder: Path) -> Page:
    """The page of a run's folder; raises `ConfigError` where there is none."""
    path = folder / FILE_NAME
    if not path.exists():
        raise ConfigError(
            f"{folder}: no {FILE_NAME} in it; name a folder that `roamq simulate`, `study`, `reproduce` or `demo` wrote"
        )
    try:
        data = json.loads(path.read_text())
        return Page(
            **{
                **data,
                "facts": [tuple(fact) for fact in data["facts"]],
                "scorecard": [ScoreRow(**row) for row in data["scorecard"]],
                "sections": [section_from(section) for section in data["sections"]],
            }
        )
    except (ValueError, KeyError, TypeError) as error:
        raise ConfigError(f"{path}: not a report that this version can read: {error}") from error
