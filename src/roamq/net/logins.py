"""Logins: the verdict on who may come in, given at once where it is known, else after a hash in a thread."""

import asyncio
import logging
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial

from roamq.net.node import Kind
from roamq.net.options import Listener
from roamq.net.passwords import Users
from roamq.net.shell import Shell
from roamq.net.wiring import Login

log = logging.getLogger("roamq.logins")


class Logins:
    """Answers the machine's questions about users."""

    def __init__(
        self, shell: Shell, users: Mapping[str, str], listeners: tuple[Listener, ...], waiting_max: int
    ) -> None:
        self.shell = shell
        self.listeners = {listener.name: listener for listener in listeners}
        self.set_users(users)
        self._waiting_max = waiting_max
        self._waiting = 0
        # Two threads: scrypt takes a core for some 50 ms, and others want to be served meanwhile.
        self._threads = ThreadPoolExecutor(2, "password")
        shell.on_login = self.on_login

    def set_users(self, users: Mapping[str, str]) -> None:
        self.users = Users(users)

    def on_login(self, login: Login) -> None:
        listener = self.listeners[login.listener]
        if login.username is None:
            self._answer(login, None, listener.anonymous)
        elif login.password is None:
            self._answer(login, login.username, False)
        elif self.users.remembers(login.username, login.password):
            self._answer(login, login.username, True)
        elif self._waiting >= self._waiting_max:
            self._answer(login, login.username, False)
        else:
            self._waiting += 1
            users = self.users
            done = self.shell.loop.run_in_executor(
                self._threads, users.verify, login.username, login.password
            )
            done.add_done_callback(partial(self._verified, login, users))

    def close(self) -> None:
        self._threads.shutdown(wait=False, cancel_futures=True)

    def _verified(self, login: Login, users: Users, done: "asyncio.Future[bool]") -> None:
        self._waiting -= 1
        if done.cancelled():
            return
        allowed = done.exception() is None and done.result()
        assert login.username is not None and login.password is not None
        if allowed:
            users.remember(login.username, login.password)
        self._answer(login, login.username, allowed)

    def _answer(self, login: Login, user: str | None, allowed: bool) -> None:
        if not allowed:
            self.shell.counts["login_refused"] += 1
            log.info("login refused: client %r, user %r", login.client, login.username)
        self.shell.feed(Kind.AUTHENTICATED, login.connection, user, allowed)
