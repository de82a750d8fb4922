"""[DIS] section 5.2: all sentences at once, in every model of what the paper leaves open (`dis_open`)."""

from collections.abc import Mapping, Sequence

from roamq.pipeline.jobs import Job
from roamq.report.exhibits import Cell, Table
from roamq.reproduce.dis import (
    commute_jobs,
    pervasive_jobs,
    said_of_figure_3,
    said_of_figure_4,
    said_of_figure_9,
)
from roamq.reproduce.dis_open import ALL, Counted, Model, Said, about_standard, feasible, judged
from roamq.reproduce.dis_parts import (
    Covered,
    cover_jobs,
    said_of_commute_shares,
    said_of_covering,
    said_of_shares,
    share_jobs,
)
from roamq.reproduce.dis_random import (
    figure_6_jobs,
    locality_jobs,
    log_size_jobs,
    said_of_figure_6,
    said_of_figure_7,
    said_of_figure_8,
)
from roamq.reproduce.dis_timeline import Timeline, said_of_figure_5, timeline_jobs
from roamq.reproduce.evidence import Evidence
from roamq.reproduce.judging import Holds
from roamq.reproduce.registry import Outcome, claim
from roamq.reproduce.settings import decides

EVERYTHING = Model._fields
SHOWN = 30
"""How many models the table of scores shows, the best first."""


def all_jobs(quick: bool) -> list[Job]:
    return [*_jobs_in_models(quick), *cover_jobs(quick), *timeline_jobs(quick)]


def _jobs_in_models(quick: bool) -> list[Job]:
    """Those that sentences are measured by which a model may change."""
    return [
        job
        for jobs in (
            commute_jobs,
            figure_6_jobs,
            locality_jobs,
            log_size_jobs,
            pervasive_jobs,
            share_jobs,
        )
        for job in jobs(quick)
    ]


def all_said(counted: Counted, evidence: Evidence) -> list[Said]:
    return [
        *said_of_figure_5(Timeline(evidence)),
        *said_of_commute_shares(evidence),
        *said_of_covering(Covered(evidence)),
        *_in_models(counted),
    ]


def _in_models(counted: Counted) -> list[Said]:
    """What a model of what the paper leaves open may change."""
    return [
        said
        for figure in (
            said_of_figure_3,
            said_of_figure_4,
            said_of_figure_6,
            said_of_figure_7,
            said_of_figure_8,
            said_of_figure_9,
            said_of_shares,
        )
        for said in figure(counted)
    ]


@claim("DIS-open", jobs=all_jobs, quick=False)
def all_sentences_in_every_model(evidence: Evidence) -> Outcome:
    """Which models fit the fitted figures, and in which of these the held-out sentences hold together."""
    counted = Counted(evidence, _jobs_in_models(evidence.quick))
    said = all_said(counted, evidence)
    counted_said = sum(not sentence.fitted for sentence in said)
    found = {
        sentence.text: {
            s: sentence.wanted.judge(m, comparisons=1 if sentence.fitted else counted_said)
            for s, m in sentence.over(ALL).items()
        }
        for sentence in said
    }
    fits = feasible(about_standard(counted))
    judgement = judged(counted, said)
    best = max(score(said, found, model) for model in ALL)
    return judgement.outcome(
        f"{len(fits)} of {len(ALL)} models fit the {sum(s.fitted for s in said)} fitted figures; the best model "
        f"meets {best[1]} of {counted_said} held-out sentences",
        note=decides({m.setting(EVERYTHING): "fits" if m in fits else "rejected" for m in ALL}),
        tables=[scores(said, found, fits)],
    )


def score(
    said: Sequence[Said], found: Mapping[str, Mapping[str, Holds]], model: Model
) -> tuple[bool, int, int]:
    """Whether no fitted sentence rejects the model; how many held-out sentences hold in it, and, less, do not."""
    judged = [(s.fitted, found[s.text][model.setting(s.uses)]) for s in said]
    held_out = [holds for fitted, holds in judged if not fitted]
    return (
        all(holds is not Holds.NO for fitted, holds in judged if fitted),
        held_out.count(Holds.YES),
        -held_out.count(Holds.NO),
    )


def scores(said: Sequence[Said], found: Mapping[str, Mapping[str, Holds]], fits: Sequence[Model]) -> Table:
    """The models, the best first; feasible ones before the others."""
    ranked = sorted(ALL, key=lambda model: score(said, found, model), reverse=True)
    rows: list[list[Cell]] = []
    for model in ranked[:SHOWN]:
        _, holding, failing = score(said, found, model)
        failed = [s.text for s in said if found[s.text][model.setting(s.uses)] is Holds.NO]
        rows.append(
            [
                model.setting(EVERYTHING),
                "fits" if model in fits else "rejected",
                holding,
                -failing,
                "; ".join(failed),
            ]
        )
    return Table(
        title=f"The best {min(SHOWN, len(ALL))} of {len(ALL)} models of what the paper leaves open",
        columns=["model", "fitted figures", "held out: hold", "do not hold", "which do not hold"],
        rows=rows,
        note="Sentences that are neither are undecided.",
    )
