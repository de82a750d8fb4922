"""How long a broker waits before it calls a neighbour directly again, as a rule without I/O."""

from typing import Final

BACK_OFF_S_MIN: Final = 0.1
BACK_OFF_S_MAX: Final = 3.0
STEADY_S: Final = 10.0
"""Seconds after which a connection counts as a good one."""
DOUBT_S_MIN: Final = 1.0
DOUBT_S_MAX: Final = 60.0


class Patience:
    """The waits for one neighbour. A neighbour that does not answer is called less and less often.

    A call that is answered takes the link back from the brokers that carry it. If the connection breaks again and again
    soon after (it passes some packets and not others, say), every such call interrupts a detour that works: then the
    detour is kept for longer and longer.
    """

    def __init__(self) -> None:
        self.wait_s = BACK_OFF_S_MIN
        """Seconds before the next call in any case."""
        self.doubt_s = 0.0
        """Further seconds before the next call while a detour carries the link."""

    def unanswered(self) -> None:
        """Note a call that nobody took."""
        self._slow_down()

    def broken(self, lasted_s: float) -> None:
        """Note that a connection has ended after `lasted_s`."""
        if lasted_s > BACK_OFF_S_MAX:
            self.wait_s = BACK_OFF_S_MIN
        else:
            self._slow_down()
        if lasted_s >= STEADY_S:
            self.doubt_s = 0.0
        else:
            self.doubt_s = min(max(2 * self.doubt_s, DOUBT_S_MIN), DOUBT_S_MAX)

    def _slow_down(self) -> None:
        self.wait_s = min(2 * self.wait_s, BACK_OFF_S_MAX)
