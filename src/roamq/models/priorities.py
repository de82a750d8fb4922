"""Classes with priorities at one centre: alarms before news.

The classes share one server, always on or ON/OFF. An event of a higher class interrupts one of a lower class, which
goes on later where it stopped (preemptive resume). With exponential demands the mean response time of every class is
exact: the classes above never notice a class, so each prefix of classes is a centre of its own, and the work present
does not depend on the order of service, so what a class adds to the work of those above is known.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from roamq.models.intermittent import IntermittentQueue
from roamq.models.phase_type import MatrixExponential, exponential, hyperexponential


@dataclass(frozen=True, slots=True, kw_only=True)
class EventClass:
    """Events of one priority."""

    name: str
    rate: float
    demand_s: float

    def __post_init__(self) -> None:
        for field in ("rate", "demand_s"):
            if not getattr(self, field) > 0:
                raise ValueError(f"{self.name}: {field} must be positive, is {getattr(self, field)}")


def mean_responses_s(
    classes: Sequence[EventClass], *, t_on_s: float = math.inf, t_off_s: float = 0.0
) -> list[float | None]:
    """The mean response time of every class, highest first; None for a class that the centre cannot serve."""
    responses: list[float | None] = []
    work_above_s = 0.0
    for last in range(1, len(classes) + 1):
        queue = _together(classes[:last], t_on_s, t_off_s)
        if queue.utilisation >= 1:
            responses.append(None)
            continue
        work_s = mean_work_s(queue)
        lowest = classes[last - 1]
        # An exponential event still needs its whole demand on average, however much of it is done.
        present = (work_s - work_above_s) / lowest.demand_s
        responses.append(present / lowest.rate)
        work_above_s = work_s
    return responses


def mean_work_s(queue: IntermittentQueue) -> float:
    """The time that a server which is always on would need for everything present, on average."""
    service_s = np.linalg.solve(-queue.service.generator, queue.service.end)
    connectivity = queue.phases // queue.service.phases
    in_service_s = float(queue.busy_phases @ np.kron(np.ones(connectivity), service_s))
    waiting = queue.mean_present() - float(queue.busy_phases.sum())
    return waiting * queue.service.mean() + in_service_s


def _together(classes: Sequence[EventClass], t_on_s: float, t_off_s: float) -> IntermittentQueue:
    """The classes as one flow: a centre that serves them in the order of arrival has the same work."""
    rate = sum(part.rate for part in classes)
    service: MatrixExponential = exponential(classes[0].demand_s)
    if len({part.demand_s for part in classes}) > 1:
        service = hyperexponential(
            [part.rate / rate for part in classes], [part.demand_s for part in classes]
        )
    is_on_off = t_off_s > 0 and math.isfinite(t_on_s)
    return IntermittentQueue(
        rate=rate,
        service=service,
        on=exponential(t_on_s) if is_on_off else None,
        off=exponential(t_off_s) if is_on_off else None,
    )
