"""The surroundings of the shell, as far as it must know them: transports of clients, links, logins, and watchers."""

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
    """The user whom the client's certificate names, if the listener asks for one."""

    def send(self, data: bytes) -> None: ...
    def close(self) -> None:
        """Close the connection after the bytes that were sent."""

    def abort(self) -> None: ...
    def pause(self, why: str) -> None:
        """Read no more until `resume` with the same reason."""

    def resume(self, why: str) -> None: ...
    def check(self, now: float) -> float | None:
        """Act on a deadline that has come, and return the next one."""


class LoginDesk(Protocol):
    """Checks who a client is, as the shell sees it."""

    def check(self, login: Login) -> "LoginVerdict | asyncio.Future[LoginVerdict]":
        """Whether the client may come in, and as which user; or a future that will give this answer."""


class Neighbours(Protocol):
    """The links, as the shell sees them."""

    def stage(self, frames: dict[BrokerId, list[Frame]]) -> Any:
        """Take the new frames of this turn, and note which frames of the neighbours have been received so far."""

    def release(self, staged: Any) -> None:
        """Send the staged frames and acknowledge the received ones: the inputs that caused them are safe."""

    def tick(self, now: float) -> None: ...
    def pause(self) -> None: ...
    def resume(self) -> None: ...


class Watcher(Protocol):
    """Looks at the outputs of a broker; it changes nothing."""

    def take(self, out: Outputs, kinds: Counter[str]) -> None:
        """Look at the outputs; `kinds` counts their records by kind."""

    def tick(self, now: float) -> None: ...
