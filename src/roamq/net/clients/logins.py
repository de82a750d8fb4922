"""Logins: who may come in. The answer comes at once if it is known, else after a thread has hashed a password or
checked a token.

Hashing takes a core for some 50 ms on purpose, so that a flood of guesses would make everybody wait. Guesses wait for
one another instead: addresses take turns, and users of one address take turns. After some wrong guesses, the next guess
for that user from that address waits longer. Nobody is locked out: an honest login from another address, or for another
user, is checked in its turn.
"""

import asyncio
import logging
import time
from collections import OrderedDict, deque
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Final, NamedTuple

from roamq.net.clients.certificates import CertifiedUser
from roamq.net.clients.passwords import Users
from roamq.net.clients.tokens import TokenError, Tokens
from roamq.net.ops.options import Listener
from roamq.net.outputs import Login, UserIdentity

log = logging.getLogger("roamq.logins")

THREADS: Final = 2
"""Threads that check passwords: scrypt takes a whole core, and other clients need the rest."""
BACK_OFF_S: Final = 0.5
"""Seconds that an address waits after its first wrong guess beyond `FREE_GUESSES`; twice as long after each further."""
BACK_OFF_S_MAX: Final = 8.0
FREE_GUESSES: Final = 3
"""Wrong guesses after which an address need not wait: they may be typing errors."""
GUESSERS_MAX: Final = 10_000
GUESSED_CHARACTERS_MAX: Final = 128
"""Characters of a user name that are kept of a wrong guess; the name may have 65,535 bytes."""

LoginVerdict = bool | UserIdentity
"""Whether the login is right, or the identity of the client."""
Guesser = tuple[str, str]
"""An address and the user whose password it guesses."""


class _WaitingLogin(NamedTuple):
    login: Login
    verdict: "asyncio.Future[LoginVerdict]"


class Logins:
    """Answers the shell's questions about logins."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        users: Mapping[str, str],
        listeners: tuple[Listener, ...],
        waiting_max: int,
        tokens: Tokens | None = None,
    ) -> None:
        self._loop = loop
        self._tokens = tokens
        self._listeners = {listener.name: listener for listener in listeners}
        self._users = Users(users)
        self._waiting_max = waiting_max
        self._waiting = 0
        self._running = 0
        self._by_address: OrderedDict[str, OrderedDict[str, deque[_WaitingLogin]]] = OrderedDict()
        """Address -> user -> logins, in the order in which they take turns."""
        self._guesses: OrderedDict[Guesser, tuple[int, float]] = OrderedDict()
        """Guesser -> how often it was wrong, and until when it waits."""
        self._threads = ThreadPoolExecutor(THREADS, "password")
        self._alarm: asyncio.TimerHandle | None = None

    def set_users(
        self, users: Mapping[str, str], listeners: tuple[Listener, ...], tokens: Tokens | None = None
    ) -> None:
        self._users = Users(users)
        self._tokens = tokens
        self._listeners = {listener.name: listener for listener in listeners}

    def check(self, login: Login) -> "LoginVerdict | asyncio.Future[LoginVerdict]":
        """Whether the client may come in, and as which user; a future if a thread has to find out."""
        users = self._users
        listener = self._listeners[login.listener]
        if listener.certificate_user is not None:
            return _by_certificate(login)
        is_token = self._is_token(login)
        if login.username is None and not is_token:
            return listener.anonymous
        if login.password is None:
            return False
        if not is_token and users.remembers(login.username or "", login.password):
            return True
        address = address_of(login)
        if self._waiting >= self._waiting_max and self._is_crowded(address):
            return False
        self._waiting += 1
        waiting = _WaitingLogin(login, self._loop.create_future())
        by_user = self._by_address.setdefault(address, OrderedDict())
        by_user.setdefault(login.username or "", deque()).append(waiting)
        waiting.verdict.add_done_callback(partial(self._given_up, waiting))
        self._start()
        return waiting.verdict

    def _is_token(self, login: Login) -> bool:
        """Whether the password is a token. A user with a password here shows a password."""
        if self._tokens is None or login.password is None:
            return False
        return not login.username or self._users.hash_of(login.username) is None

    def close(self) -> None:
        if self._alarm is not None:
            self._alarm.cancel()
        self._threads.shutdown(wait=False, cancel_futures=True)

    # --- turns --------------------------------------------------------------------------------------------------

    def _is_crowded(self, address: str) -> bool:
        """Whether the address has more than its share of the logins that wait."""
        mine = sum(map(len, self._by_address.get(address, {}).values()))
        return (
            mine >= self._waiting_max // (len(self._by_address) + 1) or self._waiting >= 2 * self._waiting_max
        )

    def _given_up(self, waiting: _WaitingLogin, done: "asyncio.Future[LoginVerdict]") -> None:
        """A client is gone: take its login out of the queue, and its password out of the memory."""
        address, user = address_of(waiting.login), waiting.login.username or ""
        by_user = self._by_address.get(address)
        queue = None if by_user is None else by_user.get(user)
        if done.cancelled() and queue is not None and waiting in queue:
            queue.remove(waiting)
            self._waiting -= 1
            if not queue:
                self._end_turn(address, user)

    def _start(self) -> None:
        """Give the free threads the logins whose turn it is."""
        while self._running < THREADS and (waiting := self._next()) is not None:
            self._waiting -= 1
            if waiting.verdict.done():
                continue
            self._running += 1
            login, users, tokens = waiting.login, self._users, self._tokens
            assert login.password is not None
            work: Callable[[], LoginVerdict]
            if tokens is not None and self._is_token(login):
                work = partial(tokens.verify, login.password, login.username)
                then = partial(self._token_checked, tokens, waiting)
            else:
                work = partial(users.verify, login.username or "", login.password)
                then = partial(self._checked, users, waiting)
            self._loop.run_in_executor(self._threads, work).add_done_callback(then)

    def _next(self) -> _WaitingLogin | None:
        """The login whose turn it is; None if no login waits, or all wait because of a wrong guess."""
        now = self._loop.time()
        soonest = None
        for address, by_user in self._by_address.items():
            for user, queue in by_user.items():
                until = self._guesses.get((address, user[:GUESSED_CHARACTERS_MAX]), (0, 0.0))[1]
                if until > now:
                    soonest = until if soonest is None else min(until, soonest)
                    continue
                waiting = queue.popleft()
                self._end_turn(address, user)
                return waiting
        if soonest is not None and self._running < THREADS:
            # One alarm for all: a timer for each waiting login would be a flood of its own.
            if self._alarm is not None:
                self._alarm.cancel()
            self._alarm = self._loop.call_at(soonest, self._start)
        return None

    def _end_turn(self, address: str, user: str) -> None:
        """Put the address, and the user of that address, behind the others."""
        by_user = self._by_address[address]
        if by_user[user]:
            by_user.move_to_end(user)
        else:
            del by_user[user]
        if by_user:
            self._by_address.move_to_end(address)
        else:
            del self._by_address[address]

    def _token_checked(
        self, tokens: Tokens, waiting: _WaitingLogin, done: "asyncio.Future[LoginVerdict]"
    ) -> None:
        """Answer the login after a token was checked. Nobody can guess a signature, so a wrong one makes nobody
        wait."""
        self._running -= 1
        found: LoginVerdict = False
        error = None if done.cancelled() else done.exception()
        if isinstance(error, TokenError):
            log.info("token refused: client %r at %s: %s", waiting.login.client, waiting.login.peer, error)
        elif error is not None:
            log.error(
                "token refused: client %r: it failed with %s", waiting.login.client, type(error).__name__
            )
        elif not done.cancelled():
            found = done.result()
        if isinstance(found, UserIdentity) and not self._still_counts(found, tokens):
            found = False
        if not waiting.verdict.done():
            waiting.verdict.set_result(found)
        self._start()

    def _still_counts(self, identity: UserIdentity, tokens: Tokens) -> bool:
        """Whether the key of the token is still in force, and the user has no password here: then a token is not
        enough."""
        if self._users.hash_of(identity.user) is not None:
            return False
        known = self._tokens
        return known is tokens or (known is not None and identity.credential in known.options.credentials())

    def _checked(self, users: Users, waiting: _WaitingLogin, done: "asyncio.Future[LoginVerdict]") -> None:
        self._running -= 1
        login = waiting.login
        is_right = not done.cancelled() and done.exception() is None and done.result() is True
        assert login.username is not None and login.password is not None
        if users is not self._users:
            # A reload changed the users meanwhile: a password that was right may not be right now.
            is_right = is_right and self._users.hash_of(login.username) == users.hash_of(login.username)
        self._note(login, is_right)
        if is_right:
            self._users.remember(login.username, login.password)
        if not waiting.verdict.done():
            waiting.verdict.set_result(is_right)
        self._start()

    def _note(self, login: Login, is_right: bool) -> None:
        """Remember a wrong guess; a right password makes up for the wrong ones."""
        assert login.username is not None
        guesser = (address_of(login), login.username[:GUESSED_CHARACTERS_MAX])
        wrong = self._guesses.pop(guesser, (0, 0.0))[0] + 1
        if is_right:
            return
        back_off_s = 0.0
        if wrong > FREE_GUESSES:
            back_off_s = min(BACK_OFF_S * 2.0 ** min(wrong - FREE_GUESSES - 1, 20), BACK_OFF_S_MAX)
        self._guesses[guesser] = (wrong, self._loop.time() + back_off_s)
        if len(self._guesses) > GUESSERS_MAX:
            self._guesses.popitem(last=False)


def _by_certificate(login: Login) -> LoginVerdict:
    """The user whom the client's certificate names; a user name is optional, and must be the same."""
    user = login.certified
    if not isinstance(user, CertifiedUser):
        log.info("certificate refused: client %r at %s: it names no user", login.client, login.peer)
        return False
    if login.username not in (None, user):
        return False
    identity = user.identity(time.time())
    if identity is None:
        log.info("certificate refused: client %r at %s: it has expired", login.client, login.peer)
        return False
    return identity


def address_of(login: Login) -> str:
    """The address of a peer, without its port."""
    return login.peer.rpartition(":")[0]
