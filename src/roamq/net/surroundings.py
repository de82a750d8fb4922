"""What the shell has around it, as far as it must know: connections of clients, links, logins, and who looks on."""

import asyncio
from collections import Counter
from typing import Any, Protocol

from roamq.core.events import BrokerId
from roamq.net.links.protocol import Frame
from roamq.net.outputs import Login, Outputs, UserIdentity

LoginVerdict = bool | UserIdentity


class Client(Protocol):
    """A client's transport, as the shell sees it."""

    waits_for_login: bool
    certified_user: str | None
    """The user whom its certificate names, if the listener asks for one."""

    def send(self, data: bytes) -> None: ...
    def close(self) -> None:
        """After what was sent."""

    def abort(self) -> None: ...
    def pause(self, why: str) -> None:
        """Read no more until `resume` with the same reason."""

    def resume(self, why: str) -> None: ...
    def check(self, now: float) -> float | None:
        """A deadline has come: act on it, and give the next one."""


class LoginDesk(Protocol):
    """Checks who a client is, as the shell sees it."""

    def check(self, login: Login) -> "LoginVerdict | asyncio.Future[LoginVerdict]":
        """Whether the client may come in, and as whom, or a future that will say so."""


class Neighbours(Protocol):
    """The links, as the shell sees them."""

    def stage(self, frames: dict[BrokerId, list[Frame]]) -> Any:
        """Take the new frames of this turn, and note what is received so far."""

    def release(self, staged: Any) -> None:
        """What was staged is safe: send it, and acknowledge."""

    def tick(self, now: float) -> None: ...
    def pause(self) -> None: ...
    def resume(self) -> None: ...


class Watcher(Protocol):
    """Looks at what a broker puts out; it changes nothing."""

    def take(self, out: Outputs, kinds: Counter[str]) -> None:
        """`kinds`: of the records, counted."""

    def tick(self, now: float) -> None: ...
