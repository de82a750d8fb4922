"""Brokers join a network whose links are TLS, with the commands that operators use; and what goes wrong."""

import asyncio
import json
import re
import shutil
import ssl
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from roamq.cli.main import cli
from roamq.core.events import ClientId
from roamq.net.ops.configuration import load_network
from roamq.net.ops.local import local_network
from roamq.net.server import Server
from tests.net.live import PlainClient, machine_of, port_of
from tests.net.test_growing_live import act, has_left
from tests.net.test_new_lives import Site, payloads, publish
from tests.support.waiting import eventually

pytestmark = pytest.mark.live


class Operators:
    """A network with keys, or with a secret, and the commands that are given to it."""

    def __init__(
        self, folder: Path, brokers: int = 3, *, has_keys: bool = True, overlay: str = "interest"
    ) -> None:
        self.path = folder / "network.toml"
        self.keys = folder / "keys"
        self.has_keys = has_keys
        text = local_network(brokers, scheme="standard", overlay=overlay)
        self.path.write_text(re.sub("secret = .*", 'keys = "keys"', text) if has_keys else text)
        if has_keys:
            made = CliRunner().invoke(cli, ["keys", str(self.path), "--out", str(self.keys)])
            assert made.exit_code == 0, made.output
        self.site = Site(load_network(self.path))

    async def command(self, *arguments: str) -> tuple[int, str]:
        found = await asyncio.to_thread(CliRunner().invoke, cli, list(arguments))
        self.site.network = load_network(self.path)
        return found.exit_code, found.output

    async def join(self, broker: str, *at: str) -> dict[str, Any]:
        options = [word for one in at for word in ("--at", one)]
        code, output = await self.command("join", str(self.path), "--broker", broker, *options, "--json")
        assert code == 0, output
        told: dict[str, Any] = json.loads(output)
        return told

    async def start(self, *names: str) -> None:
        """Start brokers that joined, and wait until they let clients in."""
        await self.site.start(*names)
        for name in names:
            admission = machine_of(self.site.servers[name]).admission
            await eventually(lambda admission=admission: not admission.is_stranger, f"word to {name}")

    async def all_know(self, version: int) -> None:
        for name, server in self.site.servers.items():
            await eventually(lambda server=server: server.health()["network_version"] == version, name)

    def for_clients(self) -> ssl.SSLContext | None:
        return ssl.create_default_context(cafile=str(self.keys / "ca.pem")) if self.has_keys else None

    def port(self, broker: str) -> int:
        return port_of(self.site.network, broker, "mqtts" if self.has_keys else "mqtt")


async def connect(operators: Operators, client: PlainClient, at: str) -> None:
    await client.connect(operators.port(at), host="localhost", tls=operators.for_clients())


def test_two_brokers_join_at_once_over_tls_and_one_leaves(tmp_path: Path) -> None:
    async def scenario() -> None:
        operators = Operators(tmp_path)
        site = operators.site
        await site.start("b1", "b2", "b3")
        told = [await operators.join("b4", "b1", "b2"), await operators.join("b5", "b3")]
        assert [one["at"] for one in told] == [["b1", "b2", "b3"], ["b3"]], "b4 could do without b1 or b2"
        assert {str(operators.keys / f"b4.{end}") for end in ("pem", "key")} < set(told[0]["files"])
        await operators.start("b4", "b5")
        await operators.all_know(2)
        client = PlainClient("car")
        await connect(operators, client, "b4")
        await client.subscribe("t/#", 1)
        await publish(site, "b3", b"1")
        await connect(operators, client, "b5")
        assert client.session_present
        await publish(site, "b1", b"2")
        await eventually(lambda: payloads(client) == [b"1", b"2"])
        leaving = site.servers.pop("b5")
        command = asyncio.create_task(operators.command("leave", str(operators.path), "--broker", "b5"))
        await has_left(leaving)
        code, output = await command
        assert code == 0 and "b5 has left; its session is with other brokers" in output, output
        await connect(operators, client, "b4")
        assert client.session_present
        await publish(site, "b3", b"3")
        await eventually(lambda: payloads(client) == [b"1", b"2", b"3"])
        client.drop()
        await site.stop()

    asyncio.run(scenario())


def test_a_broker_with_a_wrong_certificate_is_not_linked_and_says_so(tmp_path: Path) -> None:
    """One has the certificate of another broker, then one of another authority."""

    async def scenario() -> None:
        operators = Operators(tmp_path)
        site = operators.site
        await site.start("b1", "b2", "b3")
        await operators.join("b4", "b1")
        own = [(operators.keys / f"b4.{end}").read_bytes() for end in ("pem", "key")]
        for end in ("pem", "key"):
            shutil.copy(operators.keys / f"b3.{end}", operators.keys / f"b4.{end}")
        await refused(operators)
        assert site.servers["b1"].shell.counts["link_refused"]
        other = tmp_path / "other"
        other.mkdir()
        strangers = Operators(other, brokers=4)
        for end in ("pem", "key"):
            shutil.copy(strangers.keys / f"b4.{end}", operators.keys / f"b4.{end}")
        await refused(operators)
        for end, data in zip(("pem", "key"), own, strict=True):
            (operators.keys / f"b4.{end}").write_bytes(data)
        await operators.start("b4")
        assert site.servers["b4"].health()["links_down"] == []
        await site.stop()

    async def refused(operators: Operators) -> None:
        server = await one_that_is_not_linked(operators, "b4")
        assert "b1" not in server.links.up and machine_of(server).admission.is_stranger
        await server.stop()

    asyncio.run(scenario())


async def one_that_is_not_linked(operators: Operators, name: str) -> Server:
    server = Server(operators.site.network.server_options(name))
    await server.start()
    await eventually(lambda: bool(server.health().get("links_refused")), f"word why {name} is not linked")
    return server


def test_a_broker_that_was_forgotten_and_comes_back_is_not_linked_until_it_joins_anew(tmp_path: Path) -> None:
    async def scenario() -> None:
        operators = Operators(tmp_path)
        site = operators.site
        await site.start("b1", "b2", "b3")
        await operators.join("b4", "b1")
        await operators.start("b4")
        client = PlainClient("car")
        await connect(operators, client, "b4")
        await client.subscribe("t/#", 1)
        directory = machine_of(site.servers["b2"]).directory
        await eventually(lambda: directory.get(ClientId("car")) is not None)
        await site.stop("b4")
        code, output = await operators.command("forget", "b4", str(operators.path))
        assert (code, output.splitlines()) == (
            0,
            ["b4 is forgotten; 1 sessions were there and are lost", "  car"],
        )
        code, output = await operators.command("forget", "b4", str(operators.path))
        assert code and "'b4' is gone already (forgotten)" in output
        await client.connect(site.port("b3"))
        assert not client.session_present
        await client.subscribe("t/#", 1)
        back = await one_that_is_not_linked(operators, "b4")
        assert "perhaps this broker was forgotten" in back.health()["links_refused"]["b1"]
        await publish(site, "b2", b"1")
        await eventually(lambda: payloads(client) == [b"1"])
        await back.stop()
        shutil.move(site.folder("b4"), tmp_path / "aside")
        await operators.join("b4")
        await operators.start("b4")
        await operators.all_know(3)
        await connect(operators, client, "b4")
        assert client.session_present
        await publish(site, "b2", b"2")
        await eventually(lambda: payloads(client) == [b"1", b"2"])
        client.drop()
        await site.stop()

    asyncio.run(scenario())


def test_a_broker_joins_at_one_that_is_down_and_is_linked_when_that_is_back(tmp_path: Path) -> None:
    async def scenario() -> None:
        operators = Operators(tmp_path)
        site = operators.site
        await site.start("b1", "b2", "b3")
        await site.stop("b2")
        await operators.join("b4", "b2")
        await site.start("b4")
        edge = machine_of(site.servers["b4"])
        client = PlainClient("car")
        refused = await client.connect(operators.port("b4"), host="localhost", tls=operators.for_clients())
        assert refused.reason.value == 0x88, "it has not been told where sessions are"
        await site.start("b2")
        await eventually(lambda: not edge.admission.is_stranger, "word from b2")
        await operators.all_know(1)
        await connect(operators, client, "b4")
        await client.subscribe("t/#", 1)
        await publish(site, "b3", b"1")
        await eventually(lambda: payloads(client) == [b"1"])
        client.drop()
        await site.stop()

    asyncio.run(scenario())


@pytest.mark.parametrize(
    ("broker", "at", "why"),
    [
        ("b2", "b1", "is a broker of the first configuration already"),
        ("b4", "b1", "'b4' has joined already, at b1"),
        ("b6", "b4", "'b4' is no broker without `at`"),
        ("b6", "b9", "'b9' is no broker without `at`"),
    ],
)
def test_a_broker_that_is_not_admitted_is_neither_in_the_file_nor_has_a_key(
    tmp_path: Path, broker: str, at: str, why: str
) -> None:
    async def scenario() -> None:
        operators = Operators(tmp_path)
        await operators.site.start("b1", "b2", "b3")
        await operators.join("b4", "b1")
        before, keys = operators.path.read_text(), sorted(operators.keys.iterdir())
        options = [] if broker == "b4" else ["--at", at]
        code, output = await operators.command("join", str(operators.path), "--broker", broker, *options)
        assert code and why in output
        assert operators.path.read_text() == before
        assert sorted(operators.keys.iterdir()) == keys
        assert operators.site.servers["b1"].health()["network_version"] == 1
        await operators.site.stop()

    asyncio.run(scenario())


def test_two_operators_admit_one_name_at_once_and_all_brokers_agree_on_one_of_them(tmp_path: Path) -> None:
    """They ask different brokers, before either has heard of the other."""

    async def scenario() -> None:
        operators = Operators(tmp_path)
        site = operators.site
        await site.start("b1", "b2", "b3")
        asked = [(site.servers["b1"], "/api/join/b4?at=b1"), (site.servers["b3"], "/api/join/b4?at=b3")]
        answers = await asyncio.gather(
            *(asyncio.to_thread(act, *one) for one in asked), return_exceptions=True
        )
        assert any(isinstance(answer, dict) for answer in answers)

        def agreed() -> bool:
            known = [machine_of(server).membership.members for server in site.servers.values()]
            return len({repr(members) for members in known}) == 1

        await eventually(agreed, "one description of the network")
        await site.stop()

    asyncio.run(scenario())
