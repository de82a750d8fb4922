"""Logins under a flood of guesses: guesses wait for one another, and honest users for nobody."""

import asyncio
import time
from collections.abc import Callable
from typing import Any

import pytest

from roamq.core.events import ClientId
from roamq.net.clients import logins as module
from roamq.net.clients.logins import Logins
from roamq.net.clients.passwords import Users, hash_password
from roamq.net.ops.options import Listener
from roamq.net.outputs import Login
from tests.support.waiting import eventually

LISTENERS = (Listener(name="0:mqtt", anonymous=False),)
HASHES = {"ann": hash_password(b"right", b"salt" * 4), "bob": hash_password(b"right", b"salt" * 4)}


def login(user: str, password: bytes, address: str = "10.0.0.1") -> Login:
    return Login(1, user, password, ClientId("c"), "0:mqtt", f"{address}:5000")


class SlowUsers:
    """Takes 10 ms for a password, and notes whose turn it was, and when."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.turns: list[tuple[str, bytes]] = []
        self.times_s: list[float] = []

        def verify(users: Users, user: str, password: bytes) -> bool:
            self.times_s.append(time.monotonic())
            self.turns.append((user, password))
            time.sleep(0.01)
            return users.hash_of(user) is not None and password == b"right"

        patch.setattr(Users, "verify", verify)


def with_logins(act: Callable[[Logins], Any]) -> None:
    async def scenario() -> None:
        desk = Logins(asyncio.get_running_loop(), HASHES, LISTENERS, 1000)
        try:
            await act(desk)
        finally:
            desk.close()

    asyncio.run(scenario())


async def verdict(desk: Logins, asked: Login) -> bool:
    found = desk.check(asked)
    return bool(await found if isinstance(found, asyncio.Future) else found)


@pytest.mark.parametrize("attack", ["one user", "many users", "ann herself"])
def test_an_honest_login_is_looked_at_in_its_turn(monkeypatch: pytest.MonkeyPatch, attack: str) -> None:
    """The review's attack: 300 wrong passwords, and an honest first login was closed after 11 s."""
    slow = SlowUsers(monkeypatch)

    async def act(desk: Logins) -> None:
        names = {"one user": ["bob"], "many users": [f"u{n}" for n in range(300)], "ann herself": ["ann"]}
        users = names[attack] * (300 // len(names[attack]))
        flood = [desk.check(login(user, b"wrong %d" % n, "6.6.6.6")) for n, user in enumerate(users)]
        assert not any(found is True for found in flood)
        assert await verdict(desk, login("ann", b"right"))
        assert len(slow.turns) < 12

    with_logins(act)


def test_a_neighbour_of_the_guesser_at_the_same_address_is_not_locked_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    slow = SlowUsers(monkeypatch)

    async def act(desk: Logins) -> None:
        for n in range(100):
            desk.check(login("bob", b"wrong %d" % n, "6.6.6.6"))
        assert await verdict(desk, login("ann", b"right", "6.6.6.6"))
        assert len(slow.turns) < 12

    with_logins(act)


@pytest.mark.slow
def test_guesses_wait_longer_and_longer_and_a_right_password_ends_that(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    slow = SlowUsers(monkeypatch)
    monkeypatch.setattr(module, "BACK_OFF_S", 0.1)

    async def act(desk: Logins) -> None:
        flood = [desk.check(login("ann", b"wrong %d" % n)) for n in range(50)]
        await eventually(lambda: len(slow.turns) >= 8, "the eighth guess")
        since_s = [at_s - slow.times_s[0] for at_s in slow.times_s]
        # Three guesses are free, and one more may be looked at beside the fourth; then they wait 0.1 s, 0.2 s, 0.4 s.
        # A busy machine makes that longer, never shorter.
        assert since_s[5] > 0.1 and since_s[7] > 0.4, since_s
        pending = [found for found in flood if isinstance(found, asyncio.Future) and not found.done()]
        assert len(pending) > 30
        assert await verdict(desk, login("ann", b"right", "10.0.0.2"))

    with_logins(act)


def test_a_user_who_was_removed_while_a_thread_looked_stays_outside(monkeypatch: pytest.MonkeyPatch) -> None:
    SlowUsers(monkeypatch)

    async def act(desk: Logins) -> None:
        found = desk.check(login("ann", b"right"))
        assert isinstance(found, asyncio.Future)
        desk.set_users({"bob": HASHES["bob"]}, LISTENERS)
        assert await found is False
        assert not await verdict(desk, login("ann", b"right"))

    with_logins(act)


def test_one_address_does_not_take_all_places_in_the_queue(monkeypatch: pytest.MonkeyPatch) -> None:
    SlowUsers(monkeypatch)

    async def act(desk: Logins) -> None:
        flood = [desk.check(login(f"u{n}", b"wrong", "6.6.6.6")) for n in range(1500)]
        assert flood.count(False) >= 400, "beyond the bound they are refused unchecked"
        assert await verdict(desk, login("ann", b"right"))

    with_logins(act)


def test_a_login_whose_client_is_gone_leaves_the_queue(monkeypatch: pytest.MonkeyPatch) -> None:
    """Who connects, guesses and hangs up a thousand times leaves no queue, and keeps no neighbour out."""
    slow = SlowUsers(monkeypatch)

    async def act(desk: Logins) -> None:
        guesses = [desk.check(login("bob", b"wrong %d" % n, "6.6.6.6")) for n in range(1000 + module.THREADS)]
        assert desk.check(login("ann", b"right", "6.6.6.6")) is False, "the address has its share"
        for found in guesses:
            assert isinstance(found, asyncio.Future)
            found.cancel()
        await asyncio.sleep(0)  # whoever is told of the end of a future is told in the next turn of the loop
        assert await verdict(desk, login("ann", b"right", "6.6.6.6"))
        assert len(slow.turns) < 6

    with_logins(act)


def test_of_a_wrong_user_name_little_is_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    """User names may have 65,535 bytes, and ten thousand guesses are remembered."""
    SlowUsers(monkeypatch)

    async def act(desk: Logins) -> None:
        for n in range(module.FREE_GUESSES + 1):
            assert not await verdict(desk, login("x" * 60_000, b"wrong %d" % n))
        ((_, user),) = desk._guesses
        assert len(user) <= module.GUESSED_CHARACTERS_MAX
        waits = desk.check(login("x" * 60_000, b"again"))
        assert isinstance(waits, asyncio.Future) and not waits.done() and not desk._running, "it has to wait"

    with_logins(act)
