"""A fleet whose links break as sockets do: what is on them is lost, and the outbox is sent again when they are back."""

from typing import Any

from roamq.core.events import BrokerId
from tests.net.fleet import Fleet


class SeveredFleet(Fleet):
    """Machines that lose what is on a link when it is `cut`, at the next step."""

    def __init__(self, *args: Any, **settings: Any) -> None:
        self._severed: set[frozenset[BrokerId]] = set()
        super().__init__(*args, **settings)

    def sever(self, name: str) -> None:
        """Nothing comes to this broker or from it, and what was on the way is lost."""
        self.cut |= {frozenset(pair) for pair in self.links if name in pair}
        self._follow()

    def mend(self) -> None:
        """All links are back."""
        self.cut.clear()
        self._follow()

    def step(self) -> bool:
        self._follow()
        return super().step()

    def crash(self, name: str) -> None:
        """As before, but what was on the links is lost."""
        self._follow()
        super().crash(name)
        for here, there in self.links:
            if BrokerId(name) in (here, there) and self.is_open(here, there):
                self._resend(here, there)

    def links_come_up(self, name: BrokerId) -> None:
        """A broker that comes back while its links are cut hears nothing."""
        for other in [b for a, b in self.links if a == name and self.is_open(a, b)]:
            self._greet(name, other)
            self._greet(other, name)
        self.take_outputs()

    def _follow(self) -> None:
        if self.cut == self._severed:
            return
        self.take_outputs()
        broken, back = self.cut - self._severed, self._severed - self.cut
        self._severed = set(self.cut)
        for pair in [pair for pair in self.links if frozenset(pair) in broken]:
            self.links.clear(pair)
        mended = [pair for pair in self.links if frozenset(pair) in back]
        for pair in mended:
            self._greet(*pair)
        self.take_outputs()
        for pair in mended:
            self._resend(*pair)

    def _greet(self, here: BrokerId, there: BrokerId) -> None:
        """One end of a link is told what the other has received."""
        received = self.machines[there].outboxes.received[here]
        self.machines[here].link_acked(there, received, self.clock(here))

    def _resend(self, here: BrokerId, there: BrokerId) -> None:
        self.links.clear((here, there))
        self.links.put((here, there), self.machines[here].outboxes.frames[there])

    def take_outputs(self) -> None:
        super().take_outputs()
        for pair in self.links:
            if frozenset(pair) in self._severed:
                self.links.clear(pair)  # the outbox has it
