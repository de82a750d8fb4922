"""The registry of claims: what the papers say, and the code that checks it.

`published.py` lists every claim. A module of this package named after a paper (`dis.py`, `pro.py`, ...)
implements claims of that paper and is found by import; a claim that nobody implements stays `not run`:

    @claim("DIS-F3", jobs=commute_jobs)
    def average_overhead_in_commute(evidence: Evidence) -> Outcome:
        rows = evidence.per_seed(commute_jobs(evidence.quick), ["overhead"])
        ...
        judgement = Judgement()
        judgement.says("logging is below standard", ratio(logging, standard), below=1.0)
        return judgement.outcome("0.79 at 800", figures=[figure])

`jobs(quick)` declares the runs a claim needs. Those of all requested claims go into one campaign, and claims
that ask for the same run share it. A claim without jobs computes from models alone and starts no Spark.
`beyond()` declares runs that are not the paper's: larger ones, and those that tell why a result differs.
`evidence.beyond` says whether they were made.
"""

import enum
import importlib
import pkgutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from roamq.core.errors import ConfigError
from roamq.pipeline.jobs import Job
from roamq.report.exhibits import Figure, Film, Table
from roamq.reproduce.evidence import Evidence
from roamq.reproduce.published import PUBLISHED, Published


class Verdict(enum.StrEnum):
    """What became of a claim; `judging.py` says when."""

    REPRODUCED = "reproduced"
    """All sentences hold, for every setting that the paper allows."""
    DEPENDS = "depends"
    """They hold for some of these settings; the reason names the parameter that decides."""
    DIFFERS = "differs"
    """They hold together for none."""
    UNDECIDED = "undecided"
    """The intervals do not tell."""
    NOT_RUN = "not run"
    ERROR = "error"
    """The check itself failed: a bug, which the exit code reports."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """The result of checking a claim."""

    verdict: Verdict
    ours: str = ""
    """Our value, in the units and the form of the published one."""
    why: str = ""
    """The sentences that decided, with their numbers; for `not run` the reason."""
    figures: Sequence[Figure] = ()
    tables: Sequence[Table] = ()
    films: Sequence[Film] = ()


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

    @property
    def command(self) -> str:
        """What makes its runs again and judges it."""
        return f"roamq reproduce {self.id}"


_implemented: dict[str, Claim] = {}
_published = {published.id: published for published in PUBLISHED}


def claim(
    claim_id: str,
    *,
    jobs: Jobs | None = None,
    beyond: Callable[[], Sequence[Job]] | None = None,
    quick: bool = True,
) -> Callable[[Check], Check]:
    """Register a check. `quick=False`: too long for `--quick`, which leaves it undecided."""
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
    """The claims that `names` select: ids (`PRO-T2`), papers (`DIS`) or beginnings of ids; all without names."""
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
