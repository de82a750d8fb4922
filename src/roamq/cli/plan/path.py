"""One path from publisher to subscriber: the question of `roamq plan response-time`, and its solution by the models."""

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Annotated, Final

import msgspec

from roamq.cli.plan.network import NetworkSpec
from roamq.cli.plan.question import about
from roamq.cli.plan.warnings import warned

if TYPE_CHECKING:
    from roamq.models.bursts import SolvedCentre
    from roamq.models.network import EndToEndPath

SCV_LEAST: Final = 0.05
"""The SCV of twenty phases: `roamq.models.phase_type.with_moments` makes no more phases."""

ALIASES: Final = {"t_off": "subscriber_off_s", "t_on": "subscriber_on_s", "demand": "demand_s"}


class ResponseTimeQuestion(msgspec.Struct, kw_only=True):
    rate: Annotated[float, about("Events per second of this publisher for this subscriber.", gt=0)] = 1.0
    publisher_on_s: Annotated[float, about("Publisher's mean connected period.", gt=0)] = 60.0
    publisher_off_s: Annotated[float, about("Publisher's mean disconnected period; 0 = always on.", ge=0)] = (
        0.0
    )
    subscriber_on_s: Annotated[float, about("Subscriber's mean connected period.", gt=0)] = 60.0
    subscriber_off_s: Annotated[
        float, about("Subscriber's mean disconnected period; 0 = always on.", ge=0)
    ] = 0.0
    on_scv: Annotated[float, about("Variability of connected periods; 1 = exponential.", gt=0)] = 1.0
    off_scv: Annotated[float, about("Variability of disconnected periods.", gt=0)] = 1.0
    demand_s: Annotated[float, about("Service time at every centre without one of its own.", gt=0)] = 0.0625
    publisher_demand_s: (
        Annotated[float, about("To transmit one event from the publisher to its broker.", gt=0)] | None
    ) = None
    broker_demand_s: (
        Annotated[float, about("Broker's time per event, and per event sent on.", gt=0)] | None
    ) = None
    subscriber_demand_s: (
        Annotated[float, about("To transmit one event from the broker to the subscriber.", gt=0)] | None
    ) = None
    processing_s: Annotated[float, about("To process one event on the subscriber's device.", gt=0)] | None = (
        None
    )
    other_rate: Annotated[float, about("Events per second of other flows at every broker.", ge=0)] = 0.0
    priority_rate: (
        Annotated[float, about("Also: events per second (alarms) that overtake the others.", gt=0)] | None
    ) = None
    brokers: Annotated[int, about("Brokers on the path.", ge=1, le=64)] = 3
    percentiles: Annotated[list[float], about("Percentiles of the response time.")] = msgspec.field(
        default_factory=lambda: [50.0, 95.0, 99.0]
    )
    ttl_s: (
        Annotated[float, about("Also print the share delivered within this time-to-live.", gt=0)] | None
    ) = None
    loss: (
        Annotated[float, about("Also print the buffers for this share of lost events.", gt=0, lt=1)] | None
    ) = None
    buffer_events: (
        Annotated[int, about("Also print what a buffer of this size loses along the path.", ge=1)] | None
    ) = None
    day_rates: Annotated[list[float], about("Also follow the subscriber through bins of these rates.")] = []
    bin_s: Annotated[float, about("Length of a bin.", gt=0)] = 600.0
    uncertain: Annotated[
        list[str], about("Relative standard errors of estimated values, as subscriber_off_s=0.05.")
    ] = []
    simulate: Annotated[bool, about("Also simulate the path (a few seconds).")] = False
    warehouse: (
        Annotated[str, about("Take learned values from this folder of the pipeline's tables.")] | None
    ) = None
    dataset: Annotated[str, about("Dataset of the warehouse.")] | None = None
    site: Annotated[str, about("Site whose daily rates are taken.")] | None = None
    network: NetworkSpec | None = None


def unused(question: ResponseTimeQuestion) -> dict[str, str]:
    """Returns the fields that the answer does not depend on, each with the reason."""
    if question.network is not None:
        kept = ("network", "percentiles", "ttl_s")
        names = (field.name for field in msgspec.structs.fields(question))
        return {name: "is not used with a [network]" for name in names if name not in kept}
    reasons = {}
    for peer in ("publisher", "subscriber"):
        if getattr(question, f"{peer}_off_s") == 0:
            reasons[f"{peer}_on_s"] = f"is used only with {peer}_off_s"
    if question.publisher_off_s == question.subscriber_off_s == 0:
        reasons |= dict.fromkeys(("on_scv", "off_scv"), "is used only if a peer disconnects")
        reasons["buffer_events"] = "is used only if a peer disconnects"
    if not question.day_rates:
        reasons["bin_s"] = "is used only with day_rates"
    if question.warehouse is None:
        reasons |= dict.fromkeys(("dataset", "site"), "is used only with warehouse")
    return reasons


def unused_by_many(question: ResponseTimeQuestion) -> dict[str, str]:
    """Returns further fields that a sweep, or a question asked backwards, does not depend on."""
    names = ("loss", "buffer_events", "day_rates", "bin_s", "simulate")
    return dict.fromkeys(names, "is not used with --sweep and --solve-for")


def uncertainties(question: ResponseTimeQuestion) -> dict[str, float]:
    """Field -> its relative standard error, from `uncertain`."""
    errors: dict[str, float] = {}
    for text in question.uncertain:
        name, _, number = text.partition("=")
        field = ALIASES.get(name, name)
        if field in errors:
            raise ValueError(f"uncertain: {field} is given twice")
        value = getattr(question, field, None)
        if not isinstance(value, float) or not value > 0:
            raise ValueError(f"uncertain: {name!r} is not a positive number of this question")
        try:
            errors[field] = float(number)
        except ValueError:
            raise ValueError(f"uncertain: {text!r} is not of the form subscriber_off_s=0.05") from None
        if not 0 < errors[field] < 1:
            raise ValueError(f"uncertain: {text!r} must be between 0 and 1: it is a relative standard error")
    return errors


def check_percentiles(question: ResponseTimeQuestion) -> None:
    for percentile in question.percentiles:
        if not 0 < percentile < 100:
            raise ValueError(f"percentiles: {percentile:g} is not between 0 and 100")
        if question.percentiles.count(percentile) > 1:
            raise ValueError(f"percentiles: {percentile:g} is given twice")


def path_of(question: ResponseTimeQuestion) -> "EndToEndPath":
    """Returns the centres of the path; alarms count among its events."""
    from roamq.models.network import PublishingPeer, SubscribingPeer, compose_path

    rate = question.rate + (question.priority_rate or 0.0)
    names = [f"broker {i + 1}" for i in range(question.brokers)]
    publisher = PublishingPeer(
        name="p",
        broker=names[0],
        rates={"events": rate},
        demand_s=question.publisher_demand_s or question.demand_s,
        t_on_s=question.publisher_on_s,
        t_off_s=question.publisher_off_s,
    )
    subscriber = SubscribingPeer(
        name="s",
        broker=names[-1],
        topics=["events"],
        demand_s=question.subscriber_demand_s or question.demand_s,
        processing_s=question.processing_s or question.demand_s,
        t_on_s=question.subscriber_on_s,
        t_off_s=question.subscriber_off_s,
    )
    others = [f"{name} in" for name in names]
    others += [f"{broker} out to {following}" for broker, following in pairwise(names)]
    return compose_path(
        publisher,
        names,
        subscriber,
        rate=rate,
        demand_in_s=question.broker_demand_s or question.demand_s,
        demand_out_s=question.broker_demand_s or question.demand_s,
        other_rates=dict.fromkeys(others, question.other_rate),
    )


def solve(question: ResponseTimeQuestion) -> "list[SolvedCentre]":
    from roamq.models.bursts import solve_path

    return solve_path(path_of(question).centres, on_scv=question.on_scv, off_scv=question.off_scv)


def delivered_share(question: ResponseTimeQuestion, lifetime_s: float) -> float:
    """Returns the share that is delivered in time, if events older than the lifetime are dropped wherever they are."""
    from roamq.models.bursts import queue_of
    from roamq.models.fixed_lifetimes import Flow, delivered_in_time

    centres = path_of(question).centres
    return delivered_in_time(
        [Flow(queue_of(centre, question.on_scv, question.off_scv), centre.other_rate) for centre in centres],
        lifetime_s,
    )


def measures(question: ResponseTimeQuestion, names: Sequence[str]) -> Mapping[str, float | None]:
    """Returns mean, percentiles and the highest utilisation; also the percentiles that `names` asks for (p95).

    With a time-to-live, also the share that is late if late events are delivered, and that expires if they are dropped.
    """
    if question.network is not None:
        raise ValueError("sweep, solve_for: take one path, not a [network]")
    from roamq.models.bursts import law_of

    check_percentiles(question)
    solved = solve(question)
    law = law_of(solved)
    asked = [*question.percentiles, *(float(name[1:]) for name in names if _is_percentile(name))]
    answers: dict[str, float | None] = {"mean": law.mean() if law else None}
    percentiles = sorted(set(asked))
    within = law.quantiles([percentile / 100 for percentile in percentiles]) if law else None
    for place, percentile in enumerate(percentiles):
        answers[f"p{percentile:g}"] = within[place] if within else None
    if question.ttl_s is not None:
        answers["late_share"] = 1 - float(law.cdf(question.ttl_s)) if law else None
        answers["expired_share"] = 1 - delivered_share(question, question.ttl_s)
    answers["utilisation"] = max(solution.centre.utilisation for solution in solved)
    return answers


def warnings(question: ResponseTimeQuestion) -> list[str]:
    """Warns where bursts make the answer a bad approximation, and where the least SCV replaces a smaller one."""
    bursts = warned(solve(question), on_scv=question.on_scv, off_scv=question.off_scv)
    return [*bursts, *hardly_varying(question)]


def hardly_varying(question: ResponseTimeQuestion) -> list[str]:
    """Warns of too little variability: a law with the moments of a fixed time would have any number of phases."""
    if question.publisher_off_s == question.subscriber_off_s == 0:
        return []
    return [
        f"{name}: {value:g} is taken as {SCV_LEAST:g}, the least that is solved"
        for name, value in (("on_scv", question.on_scv), ("off_scv", question.off_scv))
        if value < SCV_LEAST
    ]


def _is_percentile(name: str) -> bool:
    try:
        return name[:1] == "p" and 0 < float(name[1:]) < 100
    except ValueError:
        return False
