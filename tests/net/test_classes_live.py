"""Classes of clients on real brokers: schemes change by a reload, one broker after the other, while clients roam."""

import asyncio
import json
import signal
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

import pytest

from roamq.net.clients.passwords import hash_password
from tests.net.live import BrokerProcesses, PlainClient
from tests.support.waiting import eventually

pytestmark = pytest.mark.live

BEFORE = """
[[network.classes]]
name = "buses"
scheme = "proactive"
user_property = { kind = "bus" }

[[network.classes]]
name = "vans"
scheme = "prefetching"
options = { targets = 2 }
user = "fleet"
"""
AFTER = """
[[network.classes]]
name = "buses"
scheme = "logging"
user_property = { kind = "bus" }

[[network.classes]]
name = "vans"
scheme = "proactive"
options = { neighbor_limit = 2 }
user = "fleet"
"""
USERS = f'\n[access]\nusers = {{ fleet = "{hash_password(b"secret")}" }}\n'


class Site:
    """Three brokers as processes, clients of three classes that roam, and one that publishes all the time."""

    def __init__(self, folder: Path, overlay: str) -> None:
        self.brokers = BrokerProcesses(
            folder, 3, scheme="standard", overlay=overlay, durability="process", extra=BEFORE + USERS
        )
        self.movers = {
            "bus": PlainClient("bus"),
            "van": PlainClient("van"),
            "walker": PlainClient("walker"),
            "absent": PlainClient("absent"),
        }
        self.movers["bus"].user_properties = (("kind", "bus"),)
        self.publisher = PlainClient("publisher")
        self.sent: list[bytes] = []

    async def connect(self, name: str, at: str) -> None:
        more: dict[str, Any] = {"user_name": "fleet", "password": b"secret"} if name == "van" else {}
        connack = await self.movers[name].connect(self.brokers.port(at), **more)
        assert not connack.reason.failed, connack

    async def begin(self) -> None:
        self.brokers.start()
        for number, name in enumerate(self.movers):
            await self.connect(name, "b1")
            await self.movers[name].subscribe("t/#", 1 + number % 2)
        await self.movers["absent"].disconnect()
        await self.publisher.connect(self.brokers.port("b1"))

    async def publish(self, count: int) -> None:
        for _ in range(count):
            payload = b"%d" % len(self.sent)
            self.sent.append(payload)
            self.publisher.publish("t/x", payload, 1 + len(self.sent) % 2)
            await asyncio.sleep(0.005)

    async def roam(self, *places: str) -> None:
        """Every client but one goes from broker to broker, while publications go on."""
        for place in places:
            going = asyncio.create_task(self.publish(6))
            for name in ("bus", "van", "walker"):
                self.movers[name].drop()
                await self.connect(name, place)
            await going

    def act(self, broker: str, path: str, method: str = "GET") -> dict[str, Any]:
        network = self.brokers.network
        port = network.brokers[broker].metrics_port
        request = urllib.request.Request(f"http://127.0.0.1:{port}{path}", method=method)
        request.add_header("Authorization", f"Bearer {network.operation.token}")
        with urllib.request.urlopen(request, timeout=10) as answer:  # noqa: S310 - our own port on loopback
            found: dict[str, Any] = json.load(answer)
            return found

    def edit(self, before: str, after: str) -> None:
        text = self.brokers.path.read_text()
        assert before in text
        self.brokers.path.write_text(text.replace(before, after))

    def schemes(self, broker: str) -> dict[str, tuple[str, str]]:
        """Client -> its class, and the scheme that its session is under there; copies left out."""
        found = self.act(broker, "/api/sessions")["sessions"]
        return {
            one["client"]: (one["client_class"], one["scheme"]) for one in found if one["mode"] == "serving"
        }

    async def all_has_come(self) -> None:
        await eventually(lambda: not self.publisher.unacknowledged, "the acknowledgements")
        for name, mover in self.movers.items():
            await eventually(lambda mover=mover: {p for _, p, _, _ in mover.received} == set(self.sent), name)
            unflagged = [payload for _, payload, qos, dup in mover.received if not (dup and qos == 1)]
            assert len(unflagged) == len(set(unflagged)), f"{name} got messages twice"
            first = list(dict.fromkeys(payload for _, payload, _, _ in mover.received))
            assert first == self.sent, f"{name} got messages out of order"

    async def end(self) -> None:
        for client in (*self.movers.values(), self.publisher):
            client.drop()
        await asyncio.sleep(0)


@pytest.mark.parametrize("overlay", ["flooding", "interest"])
def test_schemes_change_broker_by_broker_while_clients_of_three_classes_roam(
    tmp_path: Path, overlay: str
) -> None:
    async def scenario() -> None:
        site = Site(tmp_path, overlay)
        with site.brokers:
            await site.begin()
            await site.roam("b2", "b3", "b1", "b2")
            assert site.schemes("b2") == {
                "bus": ("buses", "proactive/buses"),
                "van": ("vans", "prefetching/vans"),
                "walker": ("", "standard"),
            }

            site.edit(BEFORE, AFTER)
            site.edit('scheme = "standard"', 'scheme = "prehandoff"')
            told = site.act("b1", "/api/reload", "POST")["details"]
            assert (told["scheme"], told["classes"]) == ("prehandoff", 2)
            await site.roam("b1", "b3", "b2")
            site.act("b2", "/api/reload", "POST")
            await site.roam("b3", "b1", "b2", "b3")
            # A broker that falls before it was told begins with what it had, and reads the file as it is now.
            going = asyncio.create_task(site.publish(20))
            site.brokers.kill("b3")
            site.brokers.start("b3")
            await going
            await site.roam("b1", "b3", "b2")
            site.brokers.processes["b1"].send_signal(signal.SIGHUP)
            await site.roam("b3")
            await site.connect("absent", "b2")

            await site.all_has_come()
            assert site.schemes("b3") == {
                "bus": ("buses", "logging/buses"),
                "van": ("vans", "proactive/vans"),
                "walker": ("", "prehandoff"),
            }
            assert site.schemes("b2") == {"absent": ("", "prehandoff")}
            await site.end()

    asyncio.run(scenario())


def test_a_scheme_that_cannot_be_changed_to_is_refused_and_nothing_happens(tmp_path: Path) -> None:
    async def scenario() -> None:
        site = Site(tmp_path, "flooding")
        with site.brokers:
            await site.begin()
            site.edit('scheme = "standard"', 'scheme = "home-broker"')
            with pytest.raises(urllib.error.HTTPError) as refused:
                site.act("b1", "/api/reload", "POST")
            assert "'home-broker' keeps a context at home" in refused.value.read().decode()
            await site.roam("b2", "b3")
            await site.connect("absent", "b1")
            await site.all_has_come()
            await site.end()

    asyncio.run(scenario())
