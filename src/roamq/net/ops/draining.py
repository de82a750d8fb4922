"""How far a broker's draining has come: what the broker still holds, and what neighbours have not acknowledged."""

from typing import Any

from roamq.core.events import BrokerId
from roamq.net.machine import Machine
from roamq.net.ops.status import sessions_of


class Draining:
    """Looks at a broker that drains. It may be stopped, and its folder emptied, when nothing is left or unconfirmed.

    A session is gone when the neighbour that its last message went to has that message on its own disk. So the
    neighbours must acknowledge all frames up to the last one when the last context was gone.
    """

    def __init__(self, machine: Machine) -> None:
        self._machine = machine
        self._sent: dict[BrokerId, int] | None = None
        """Neighbour -> the number of the last frame when the last context was gone; None before that."""

    def began(self) -> None:
        self._sent = None

    def look(self) -> dict[str, Any]:
        """`left`: sessions here or on their way out; `unconfirmed`: neighbour -> messages it has not acknowledged."""
        machine = self._machine
        left = sessions_of(machine) + len(machine.broker.scheme.on_the_way())
        outboxes = machine.outboxes
        if left or outboxes.behind:
            self._sent = None
        elif self._sent is None:
            self._sent = dict(outboxes.sent)
        unconfirmed: dict[str, int] = {}
        for peer, frames in outboxes.frames.items():
            behind = outboxes.said[peer].behind
            if not frames and not behind:
                continue
            last = outboxes.sent[peer] if self._sent is None else self._sent.get(peer, 0)
            if count := sum(number <= last for number, _ in frames) + len(behind):
                unconfirmed[peer] = count
        return {"left": left, "unconfirmed": unconfirmed}
