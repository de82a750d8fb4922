"""Theft over real sockets, with passwords, between brokers; and what becomes of users who are removed."""

import asyncio
from pathlib import Path

import pytest
from click.testing import CliRunner

from roamq.cli.main import cli
from roamq.net.clients.mqtt.codec import Disconnect, ReasonCode
from roamq.net.clients.passwords import hash_password
from roamq.net.ops.local import free_ports, local_network
from tests.net.live import BrokerProcesses, PlainClient, port_of, running, write_network
from tests.support.waiting import eventually

pytestmark = pytest.mark.live

ACCESS = """
[access]
anonymous = "loopback"
[access.users]
bob = "{bob}"
ann = "{ann}"
[[access.rules]]
user = "bob"
may = []
topics = ["secret/#"]
[[access.rules]]
"""


def access() -> str:
    return ACCESS.format(ann=hash_password(b"of ann"), bob=hash_password(b"of bob"))


@pytest.mark.parametrize("scheme", ["standard", "proactive"])
def test_bob_does_not_get_anns_session_at_any_broker(tmp_path: Path, scheme: str) -> None:
    """The review's first finding: Session Present 1, and Ann's stored and live messages."""

    async def scenario() -> None:
        network = write_network(tmp_path, local_network(2, scheme=scheme, extra=access()))
        ports = [port_of(network, name) for name in ("b1", "b2")]
        async with running(network) as servers:
            ann, writer = PlainClient("phone"), PlainClient("writer")
            await ann.connect(ports[0], user_name="ann", password=b"of ann")
            await ann.subscribe("secret/#", 2)
            await eventually(lambda: servers["b2"].status().known_clients == 1)
            ann.drop()
            await writer.connect(ports[0], user_name="ann", password=b"of ann")
            writer.publish("secret/plan", b"stored", 2)
            await eventually(lambda: not writer.unacknowledged)
            for clean in (False, True):
                for port in ports:
                    bob = PlainClient("phone", clean=clean)
                    answer = await bob.connect(port, user_name="bob", password=b"of bob")
                    assert (answer.reason, answer.session_present) == (ReasonCode.NOT_AUTHORIZED, False)
                    nobody = PlainClient("phone", clean=clean)
                    assert (await nobody.connect(port)).reason is ReasonCode.NOT_AUTHORIZED
            assert (await ann.connect(ports[1], user_name="ann", password=b"of ann")).session_present
            await eventually(lambda: [payload for _, payload, *_ in ann.received] == [b"stored"])

    asyncio.run(scenario())


def test_a_restart_does_not_forget_whose_a_session_is(tmp_path: Path) -> None:
    async def scenario() -> None:
        network = write_network(tmp_path, local_network(1, scheme="standard", extra=access()))
        port = port_of(network, "b1")
        async with running(network):
            ann = PlainClient("phone")
            await ann.connect(port, user_name="ann", password=b"of ann")
        async with running(network):
            bob = PlainClient("phone")
            answer = await bob.connect(port, user_name="bob", password=b"of bob")
            assert answer.reason is ReasonCode.NOT_AUTHORIZED

    asyncio.run(scenario())


def test_users_who_are_removed_or_get_another_password_are_cut(tmp_path: Path) -> None:
    async def scenario() -> None:
        network = write_network(tmp_path, local_network(1, scheme="standard", extra=access()))
        port, path = port_of(network, "b1"), Path(network.source.name)
        async with running(network) as servers:
            ann, bob, nobody = PlainClient("a"), PlainClient("b"), PlainClient("n")
            await ann.connect(port, user_name="ann", password=b"of ann")
            await bob.connect(port, user_name="bob", password=b"of bob")
            await nobody.connect(port)

            lines = path.read_text().splitlines()
            path.write_text("\n".join(line for line in lines if not line.startswith("bob = ")))
            servers["b1"].reload()
            await eventually(lambda: bob.closed)
            assert isinstance(bob.closed_because, Disconnect)
            assert bob.closed_because.reason is ReasonCode.NOT_AUTHORIZED
            answer = await bob.connect(port, user_name="bob", password=b"of bob")
            assert answer.reason is ReasonCode.BAD_USER_NAME_OR_PASSWORD
            await ann.ping()
            await nobody.ping()

            text = path.read_text().replace('anonymous = "loopback"', 'anonymous = "never"')
            path.write_text(text)
            servers["b1"].reload()
            await eventually(lambda: nobody.closed)
            await ann.ping()
            new = hash_password(b"another")
            path.write_text(
                "\n".join(f'ann = "{new}"' if x.startswith("ann = ") else x for x in text.splitlines())
            )
            servers["b1"].reload()
            await eventually(lambda: ann.closed)
            answer = await ann.connect(port, user_name="ann", password=b"another")
            assert answer.session_present

    asyncio.run(scenario())


@pytest.mark.parametrize("scheme", ["standard", "proactive"])
def test_the_session_of_a_removed_user_is_nobodys_while_its_broker_is_down(
    tmp_path: Path, scheme: str
) -> None:
    def write(brokers: BrokerProcesses, users: str, *, named: str = "ann = ") -> None:
        """Give all brokers that run a file with these lines in the place of a user."""
        lines = brokers.path.read_text().splitlines()
        brokers.path.write_text("\n".join(users if line.startswith(named) else line for line in lines))
        done = CliRunner().invoke(cli, ["reload", str(brokers.path)])
        assert done.exit_code == 0, done.output

    async def answers(brokers: BrokerProcesses, user: str, *names: str) -> set[ReasonCode]:
        found = set()
        for name in names:
            for clean in (False, True):
                client = PlainClient("phone", clean=clean)
                password = f"of {user}".encode()
                answer = await client.connect(brokers.port(name), user_name=user, password=password)
                found.add(answer.reason)
                client.drop()
        return found

    async def scenario(brokers: BrokerProcesses) -> None:
        ann, writer = PlainClient("phone"), PlainClient("writer")
        await ann.connect(brokers.port("b1"), user_name="ann", password=b"of ann")
        await ann.subscribe("plans", 1)
        await ann.disconnect()
        await writer.connect(brokers.port("b1"), user_name="ann", password=b"of ann")
        writer.publish("plans", b"stored", 1)
        await eventually(lambda: not writer.unacknowledged)
        await eventually(lambda: all(brokers.health(name)["links_down"] == [] for name in ("b2", "b3")))
        brokers.kill("b1")
        await asyncio.to_thread(write, brokers, "# nobody")
        foreign, unknown = {ReasonCode.NOT_AUTHORIZED}, {ReasonCode.BAD_USER_NAME_OR_PASSWORD}
        assert await answers(brokers, "bob", "b2", "b3") == foreign
        assert await answers(brokers, "ann", "b2") == unknown
        await asyncio.to_thread(brokers.start, "b1")
        assert await answers(brokers, "bob", "b1", "b2", "b3") == foreign
        assert await answers(brokers, "ann", "b1") == unknown
        anna = f'anna = "{hash_password(b"of anna")}"\n[access.renamed]\nann = "anna"'
        await asyncio.to_thread(write, brokers, anna, named="# nobody")
        assert await answers(brokers, "bob", "b2") == foreign
        assert (await ann.connect(brokers.port("b2"), user_name="anna", password=b"of anna")).session_present
        await eventually(lambda: [payload for _, payload, *_ in ann.received] == [b"stored"])
        ann.drop()

    with BrokerProcesses(tmp_path, 3, scheme=scheme, extra=access()) as brokers:
        brokers.start()
        asyncio.run(scenario(brokers))


def test_a_reload_opens_no_listener_by_the_place_of_another(tmp_path: Path) -> None:
    """The file has one more listener, before the one that runs: for clients of this host, who need no name."""
    old, new = free_ports(2)
    text = """
[storage]
durability = "memory"
[brokers.b1]
listeners = [
  { kind = "mqtt", host = "0.0.0.0", port = %d },
]
"""

    async def scenario() -> None:
        network = write_network(tmp_path, text % old)
        path = Path(network.source.name)

        async def nobody() -> ReasonCode:
            return (await PlainClient("n").connect(old)).reason

        async with running(network) as servers:
            assert await nobody() is ReasonCode.BAD_USER_NAME_OR_PASSWORD
            more = (text % old).replace("[\n", f'[\n  {{ kind = "mqtt", port = {new} }},\n')
            path.write_text(more)
            servers["b1"].reload()
            assert await nobody() is ReasonCode.BAD_USER_NAME_OR_PASSWORD
            path.write_text(f'[access]\nanonymous = "always"\n{more}')
            servers["b1"].reload()
            client = PlainClient("c")
            assert (await client.connect(old)).reason is ReasonCode.SUCCESS
            path.write_text(more)
            servers["b1"].reload()
            await eventually(lambda: client.closed)
            assert await nobody() is ReasonCode.BAD_USER_NAME_OR_PASSWORD

    asyncio.run(scenario())
