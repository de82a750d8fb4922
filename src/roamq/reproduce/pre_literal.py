"""[PRE] Fig. 3 as it is printed, beside ours: what do our two further messages buy? And what does hysteresis save?

The paper assumes "that no events are duplicated and lost" and leaves open how. `literal` runs its two algorithms with
the three messages that they have.
"""

from statistics import fmean
from typing import Final

from roamq.models.paired import Estimate, difference, interval, ratio
from roamq.pipeline.jobs import Job
from roamq.pipeline.prehandoff import prehandoff_metrics
from roamq.report.exhibits import Cell, Table
from roamq.reproduce.evidence import Evidence, Seeds
from roamq.reproduce.judging import Judgement, Wanted
from roamq.reproduce.pre import jobs_of, size
from roamq.reproduce.registry import Outcome, claim

SAID: Final = {"three, as printed": "true", "five, ours": "false"}
"""Messages that set a virtual consumer up -> `scheme.literal`."""

DELAYS_S: Final = ("0.02", "1.0")
"""Of a link: that of the scenario, and one so long that much is under way when a client moves."""

NONE: Final = Wanted(at_most=1e-9, widest=1.0)
"""No lost or repeated event, in percent, which must be known to one."""


def literal_jobs(quick: bool) -> list[Job]:
    return [
        job for delay_s in DELAYS_S for literal in SAID.values() for job in _jobs(literal, delay_s, quick)
    ]


def _jobs(literal: str, delay_s: str, quick: bool) -> list[Job]:
    chosen = size(quick)
    overrides = {
        "scheme.literal": literal,
        "link.delay_s": delay_s,
        "records.level": "all",
        "duration_s": str(chosen.duration_s / 2),
    }
    return jobs_of("prehandoff", "prehandoff", chosen.seeds, overrides)


@claim("PRE-literal", jobs=literal_jobs)
def algorithms_as_printed(evidence: Evidence) -> Outcome:
    """ "We assume that events are delivered in FIFO order [...] and that no events are duplicated and lost": of what
    Fig. 3 prints, and of ours."""
    metrics = ["loss_pct", "duplication_pct", "waiting_delay_s_mean"]
    found = {
        (told, delay_s): Seeds(evidence.per_seed(_jobs(literal, delay_s, evidence.quick), metrics))
        for told, literal in SAID.items()
        for delay_s in DELAYS_S
    }

    def worst(metric: str) -> dict[str, Estimate]:
        """Per number of messages, over the delay of links at which it is larger."""
        return {
            f"messages={told.partition(',')[0]}": max(
                (interval([*found[told, delay_s].of("prehandoff", metric).values()]) for delay_s in DELAYS_S),
                key=lambda measured: measured.mean,
            )
            for told in SAID
        }

    judgement = Judgement()
    judgement.says("no events are lost (%)", worst("loss_pct"), NONE)
    judgement.says("no events are duplicated (%)", worst("duplication_pct"), NONE)
    rows: list[list[Cell]] = [
        [
            told,
            delay_s,
            *(str(interval([*seeds.of("prehandoff", metric).values()])) for metric in metrics),
        ]
        for (told, delay_s), seeds in found.items()
    ]
    lost, repeated = (worst(metric)["messages=three"].mean for metric in metrics[:2])
    return judgement.outcome(
        f"as printed, {lost:.2g}% of the events are lost and {repeated:.2g}% repeated at worst; ours loses and repeats "
        f"{worst('loss_pct')['messages=five'].mean:.2g}% and {worst('duplication_pct')['messages=five'].mean:.2g}%",
        tables=[
            Table(
                title="Fig. 3 as printed beside ours",
                columns=[
                    "messages of a set-up",
                    "delay of a link, s",
                    "lost, %",
                    "repeated, %",
                    "delay to the first message that waited, s",
                ],
                rows=rows,
                note="As printed, a client gets all that its virtual consumer stored, read before or not.",
            )
        ],
    )


def hysteresis_jobs(quick: bool) -> list[Job]:
    return [job for kept_s in size(quick).hysteresis_s for job in _kept_jobs(kept_s, quick)]


def _kept_jobs(kept_s: float, quick: bool) -> list[Job]:
    chosen = size(quick)
    overrides = {
        "scheme.choose": "border",
        **({"scheme.hysteresis_s": str(kept_s)} if kept_s else {}),
        "duration_s": str(chosen.duration_s),
    }
    return jobs_of("prehandoff", "prehandoff", chosen.seeds, overrides)


SHOWN: Final = {
    "hit_pct": "hit rate, %",
    "ping_pong_pct": "handoffs back within a minute, %",
    "again_pct": "requests for what was cancelled within a minute, %",
    "virtual_consumers_per_handoff": "virtual consumers",
    "virtual_consumer_s_per_handoff": "lifetime, s",
    "control_hops_per_handoff": "control hops",
}


@claim("PRE-ping-pong", jobs=hysteresis_jobs)
def ping_pong_without_and_with_hysteresis(evidence: Evidence) -> Outcome:
    """ "Unless pre-handoff is cancelled, it may lead to ping-pong situation": whether cancelling at once does harm, and
    what keeping a virtual consumer for a while would save."""
    kept = size(evidence.quick).hysteresis_s
    values: dict[tuple[float, str], dict[int, float]] = {}
    for kept_s in kept:
        for row in evidence.rows(prehandoff_metrics, _kept_jobs(kept_s, evidence.quick)):
            if row["value"] is not None:
                values.setdefault((kept_s, row["metric"]), {})[row["seed"]] = row["value"]

    judgement = Judgement()
    longest = kept[-1]
    judgement.says(
        "cancelling at once misses no client that a virtual consumer kept longer would find (percentage points)",
        difference(values[longest, "hit_pct"], values[0.0, "hit_pct"]),
        at_least=-0.5,
        at_most=0.5,
    )
    rows: list[list[Cell]] = [
        [f"{kept_s:g}", *(round(fmean(values[kept_s, metric].values()), 2) for metric in SHOWN)]
        for kept_s in kept
    ]
    saved = ratio(
        values[longest, "virtual_consumers_per_handoff"], values[0.0, "virtual_consumers_per_handoff"]
    )
    longer = ratio(
        values[longest, "virtual_consumer_s_per_handoff"], values[0.0, "virtual_consumer_s_per_handoff"]
    )
    return judgement.outcome(
        f"{fmean(values[0.0, 'ping_pong_pct'].values()):.1f}% of handoffs go back within a minute; "
        f"{fmean(values[0.0, 'again_pct'].values()):.1f}% of requests repeat one that was just cancelled; keeping "
        f"virtual consumers for {longest:g} s makes {saved.mean:.0%} of them, for {longer.mean:.2g} times as long",
        tables=[
            Table(
                title="Hysteresis: how long a virtual consumer is kept after its client has left the border",
                columns=["kept for, s", *SHOWN.values()],
                rows=rows,
                note="Numbers per handoff, unless they say otherwise.",
            )
        ],
    )
