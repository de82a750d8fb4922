"""Messages between schemes that a broker has more than once, for several classes of clients."""

from dataclasses import dataclass

from roamq.core.messages import Content, Message


@dataclass(frozen=True, slots=True, kw_only=True)
class Classed(Message):
    """A scheme for one class of clients -> the scheme for the same class at another broker."""

    scheme: str
    """The scheme's name and the class: `proactive/vehicles`."""
    message: Message

    @property
    def carried(self) -> tuple[Content, ...]:
        return self.message.carried

    @property
    def units(self) -> int:
        return self.message.units

    @property
    def size_bytes(self) -> int:
        return self.message.size_bytes

    @property
    def traffic_kind(self) -> str:
        return self.message.traffic_kind
