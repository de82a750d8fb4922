"""Verdicts on logins that take a while: they count only for a client that is still there, by the users of now."""

import asyncio
from collections.abc import Callable
from functools import partial

from roamq.net.outputs import Login, UserIdentity
from roamq.net.surroundings import LoginDesk, LoginVerdict


class Verdicts:
    """Asks the login desk, and passes on what it says."""

    def __init__(self, desk: LoginDesk, say: Callable[[Login, LoginVerdict], None]) -> None:
        self._desk = desk
        self._say = say
        self._awaited: dict[int, asyncio.Future[LoginVerdict] | None] = {}
        """Connection -> the verdict that its login waits for; None if the one that is given does not count."""

    def ask(self, login: Login) -> None:
        """The answer comes at once where it is known."""
        verdict = self._desk.check(login)
        if isinstance(verdict, (bool, UserIdentity)):
            self._say(login, verdict)
        else:
            self._awaited[login.connection] = verdict
            verdict.add_done_callback(partial(self._given, login))

    def forget(self, connection: int) -> None:
        """The client is gone: nobody asks any more, and whoever asks later need not wait for it."""
        verdict = self._awaited.pop(connection, None)
        if verdict is not None:
            verdict.cancel()

    def users_changed(self) -> None:
        """What was said by the users of before, and not passed on yet, is asked for again."""
        for connection, verdict in self._awaited.items():
            if verdict is not None and verdict.done():
                self._awaited[connection] = None

    def _given(self, login: Login, verdict: "asyncio.Future[LoginVerdict]") -> None:
        if login.connection not in self._awaited or verdict.cancelled():
            return  # the client went when the verdict was given, or before
        if self._awaited.pop(login.connection) is None:
            self.ask(login)
        else:
            self._say(login, verdict.exception() is None and verdict.result())
