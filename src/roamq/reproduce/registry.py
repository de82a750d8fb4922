"""The registry of claims: what the papers say, and the code that checks it.

`published.py` lists every claim. A module of this package named after a paper (`dis.py`, `pro.py`, ...)
implements claims of that paper and is found by import; a claim that nobody implements stays `not run`:

    @claim("DIS-F3", jobs=commute_jobs)
    def average_overhead_in_commute(evidence: Evidence) -> Outcome:
        rows = evidence.summary(commute_jobs(evidence.quick))
        ...
        return Outcome(verdict=Verdict.REPRODUCED, ours="0.79 at 800", figures=[figure])

`jobs(quick)` declares the runs a claim needs. Those of all requested claims go into one campaign, and claims
that ask for the same run share it. A claim without jobs computes from models alone and starts no Spark.
`beyond()` declares runs that are not the paper's: larger ones, and those that tell why a result differs.
`evidence.beyond` says whether they were made.
"""

import enum
import importlib
import pkgutil
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from roamq.core.errors import ConfigError
from roamq.pipeline.jobs import Job
from roamq.pipeline.results import Measured, Transform
from roamq.report.exhibits import Figure, Film, Table
from roamq.reproduce.published import PUBLISHED, Published


class Verdict(enum.StrEnum):
    REPRODUCED = "reproduced"
    DIFFERS = "differs"
    NOT_RUN = "not run"
    ERROR = "error"
    """The check itself broke: a bug, and the exit code says so."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What a claim came to here."""

    verdict: Verdict
    ours: str = ""
    """Our value, in the units and the form of the published one."""
    why: str = ""
    """For `differs` and `not run` the reason; otherwise what the reader should know."""
    figures: Sequence[Figure] = ()
    tables: Sequence[Table] = ()
    films: Sequence[Film] = ()


class Evidence(Protocol):
    """What a claim may look at. Runs were made before the claim is asked."""

    quick: bool
    beyond: bool
    """Whether the runs that go beyond the paper were made."""

    def summary(self, jobs: Iterable[Job], metrics: Sequence[str] | None = None) -> list[Measured]:
        """These runs' metrics over their seeds; all of them, or those named (`roamq.pipeline.metrics`)."""
        ...

    def rows(self, transform: Transform, jobs: Iterable[Job]) -> list[dict[str, Any]]:
        """The few rows of `transform(records, runs)`, a DataFrame -> DataFrame function of the pipeline."""
        ...


Check = Callable[[Evidence], Outcome]
Jobs = Callable[[bool], Sequence[Job]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """A published claim with the code that checks it, if there is any."""

    published: Published
    check: Check | None = None
    jobs: Jobs | None = None
    beyond: Callable[[], Sequence[Job]] | None = None
    quick: bool = True

    @property
    def id(self) -> str:
        return self.published.id

    @property
    def paper(self) -> str:
        return self.published.paper


_implemented: dict[str, Claim] = {}
_published = {published.id: published for published in PUBLISHED}


def claim(
    claim_id: str,
    *,
    jobs: Jobs | None = None,
    beyond: Callable[[], Sequence[Job]] | None = None,
    quick: bool = True,
) -> Callable[[Check], Check]:
    """Register a check. `quick=False`: too long for `--quick`, which then says `not run`."""
    assert claim_id in _published, f"{claim_id} is not in published.py"

    def register(check: Check) -> Check:
        before = _implemented.get(claim_id)
        assert before is None or before.check is None or before.check.__qualname__ == check.__qualname__, (
            f"{claim_id} has two checks"
        )
        _implemented[claim_id] = Claim(
            published=_published[claim_id], check=check, jobs=jobs, beyond=beyond, quick=quick
        )
        return check

    return register


def all_claims() -> list[Claim]:
    """Every claim of the papers, in their order, after importing the modules that implement them."""
    import roamq.reproduce as package

    for module in pkgutil.iter_modules(package.__path__):
        importlib.import_module(f"{package.__name__}.{module.name}")
    return [_implemented.get(published.id, Claim(published=published)) for published in PUBLISHED]


def select(names: Sequence[str]) -> list[Claim]:
    """The claims that `names` mean: ids (`PRO-T2`), papers (`DIS`) or beginnings of ids; all if none."""
    claims = all_claims()
    if not names:
        return claims
    chosen: dict[str, Claim] = {}
    for name in names:
        wanted = name.upper()
        exact = [c for c in claims if wanted in (c.id.upper(), c.paper.upper())]
        found = exact or [c for c in claims if c.id.upper().startswith(wanted)]
        if not found:
            papers = ", ".join(dict.fromkeys(c.paper for c in claims))
            raise ConfigError(
                f"no claim or paper {name!r}; papers: {papers}; `roamq reproduce --list` shows the claims"
            )
        chosen.update((c.id, c) for c in found)
    return list(chosen.values())
