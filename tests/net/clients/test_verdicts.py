"""A verdict on a login that is given in the very moment in which it does not count any more."""

import asyncio
from pathlib import Path

import pytest

from roamq.core.events import ClientId
from roamq.net.clients.mqtt.codec import ReasonCode
from roamq.net.clients.passwords import hash_password
from roamq.net.clients.verdicts import Verdicts
from roamq.net.ops.local import local_network
from roamq.net.outputs import Login
from roamq.net.surroundings import LoginVerdict
from tests.net.live import PlainClient, port_of, running, write_network

LOGIN = Login(7, "ann", b"of ann", ClientId("phone"), "0:mqtt", "127.0.0.1:1")


class SlowDesk:
    """Says nothing until the test does."""

    def __init__(self) -> None:
        self.asked: list[asyncio.Future[LoginVerdict]] = []

    def check(self, login: Login) -> "asyncio.Future[LoginVerdict]":
        self.asked.append(asyncio.get_running_loop().create_future())
        return self.asked[-1]


async def turn() -> None:
    await asyncio.sleep(0)


def test_a_verdict_by_the_users_of_before_is_asked_for_again() -> None:
    async def scenario() -> None:
        desk, said = SlowDesk(), list[LoginVerdict]()
        verdicts = Verdicts(desk, lambda _, verdict: said.append(verdict))
        verdicts.ask(LOGIN)
        verdicts.users_changed()
        assert len(desk.asked) == 1, "who has not answered will do so by the users of now"
        desk.asked[0].set_result(True)
        verdicts.users_changed()
        await turn()
        assert (len(desk.asked), said) == (2, [])
        desk.asked[1].set_result(False)
        await turn()
        assert said == [False]

    asyncio.run(scenario())


def test_a_verdict_for_a_client_that_is_gone_is_nobodys() -> None:
    """It ended in a KeyError where the client went after the verdict and before it was heard."""

    async def scenario() -> None:
        failures: list[object] = []
        asyncio.get_running_loop().set_exception_handler(lambda _, context: failures.append(context))
        desk, said = SlowDesk(), list[LoginVerdict]()
        verdicts = Verdicts(desk, lambda _, verdict: said.append(verdict))
        for is_given, is_changed in ((False, False), (True, False), (True, True)):
            verdicts.ask(LOGIN)
            if is_given:
                desk.asked[-1].set_result(True)
            if is_changed:
                verdicts.users_changed()
            verdicts.forget(LOGIN.connection)
            await turn()
        assert (len(desk.asked), said, failures) == (3, [], [])
        assert desk.asked[0].cancelled(), "nobody hashes a password for it"

    asyncio.run(scenario())


@pytest.mark.live
def test_a_user_who_is_removed_in_this_moment_does_not_come_in(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The reload cut all who were in; who came a turn later stayed."""
    users = f'[access]\nanonymous = "never"\n[access.users]\nann = "{hash_password(b"of ann")}"\n'
    text = local_network(1, scheme="standard", extra=users)

    async def scenario() -> None:
        network = write_network(tmp_path, text)
        async with running(network) as servers:
            server = servers["b1"]
            check = server.logins.check

            def checked(login: Login) -> "LoginVerdict | asyncio.Future[LoginVerdict]":
                verdict = check(login)
                monkeypatch.undo()
                assert isinstance(verdict, asyncio.Future)
                verdict.add_done_callback(lambda _: server.reload())  # before the broker hears of it
                return verdict

            monkeypatch.setattr(server.logins, "check", checked)
            write_network(tmp_path, "\n".join(x for x in text.splitlines() if not x.startswith("ann = ")))
            ann = PlainClient("c")
            answer = await ann.connect(port_of(network, "b1"), user_name="ann", password=b"of ann")
            assert answer.reason is ReasonCode.BAD_USER_NAME_OR_PASSWORD

    asyncio.run(scenario())
