"""Verdicts on logins that take a while: they count only if the client is still there and its user is still valid."""

import asyncio
from collections.abc import Callable
from functools import partial

from roamq.net.outputs import Login, UserIdentity
from roamq.net.surroundings import LoginDesk, LoginVerdict


class Verdicts:
    """Asks the login desk, and passes its answers on."""

    def __init__(self, desk: LoginDesk, say: Callable[[Login, LoginVerdict], None]) -> None:
        self._desk = desk
        self._say = say
        self._awaited: dict[int, asyncio.Future[LoginVerdict] | None] = {}
        """Connection -> the verdict that its login waits for; None if the verdict that was given does not count."""

    def ask(self, login: Login) -> None:
        """Ask the login desk. The answer comes at once if the desk knows it."""
        verdict = self._desk.check(login)
        if isinstance(verdict, (bool, UserIdentity)):
            self._say(login, verdict)
        else:
            self._awaited[login.connection] = verdict
            verdict.add_done_callback(partial(self._given, login))

    def forget(self, connection: int) -> None:
        """Cancel the login of a client that is gone: nobody waits for its answer any more."""
        verdict = self._awaited.pop(connection, None)
        if verdict is not None:
            verdict.cancel()

    def users_changed(self) -> None:
        """Ask again for verdicts that were given by the former users and are not passed on yet."""
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
