"""Clients that drive through a city and report their cells: real brokers await them where they come next."""

import asyncio
import json
from collections import defaultdict
from collections.abc import Iterable

import pytest

from roamq.cli.roaming_jobs import RoamingLoad, street_jobs
from roamq.core.records import Record
from roamq.fieldtest.brokers import Relay
from roamq.fieldtest.run import LINK_DELAY_S, run_job
from roamq.net.clients.mqtt.codec import Connect, Decoder, Version
from roamq.net.device import Device
from roamq.net.ops.configuration import parse_network
from roamq.net.ops.local import free_ports, local_network
from roamq.sim.scenario import run_job as simulate

FEW = RoamingLoad(clients=6, seconds=8.0, rate=10.0, compress=30.0, seed=3)
EVER_SLOWER = (FEW, FEW._replace(seconds=16.0, compress=15.0), FEW._replace(seconds=32.0, compress=7.5))
"""On a busy machine, clients may cross each border before the brokers beyond it are ready: they drive again, slower."""


def ways_of(records: Iterable[Record]) -> dict[str | None, list[tuple[str | None, str | None]]]:
    """Client -> the brokers that it came to, each with the one before."""
    ways = defaultdict(list)
    for record in records:
        if record.kind == "connected":
            ways[record.client].append((record.broker, record.peer))
    return ways


@pytest.mark.live
@pytest.mark.slow
def test_clients_that_report_cells_find_their_virtual_consumers_at_real_brokers() -> None:
    assert any("hit" in details_of_a_drive(load) for load in EVER_SLOWER)


def details_of_a_drive(load: RoamingLoad) -> set[str | None]:
    """What became of the pre-handoffs of a live run, which has the simulated run's moves."""
    live_job, simulated_job = street_jobs(["prehandoff"], load)

    live = run_job(live_job.payload, load.seed)
    simulated = simulate(dict(simulated_job.payload), load.seed)

    assert [record.detail for record in live if record.kind == "violation"] == []
    driven, planned = ways_of(live), ways_of(simulated)
    for client, way in planned.items():
        common = min(len(way), len(driven[client]))
        assert driven[client][:common] == way[:common], "the same moves"
        assert abs(len(way) - len(driven[client])) <= 2, "but for the end, when a client may be under way"
    of_clients = [record for record in live if record.kind == "prehandoff"]
    came = [record for record in of_clients if record.detail in ("hit", "unready", "missed")]
    assert came
    assert all((record.broker, record.peer) in driven[record.client] for record in came), (
        "brokers have their names"
    )
    assert {record.detail for record in of_clients} >= {"requested", "ready", "cancelled"}
    end_s = live_job.payload["duration_s"] + live_job.payload["drain_s"]
    assert all(0 <= record.time_s <= end_s for record in of_clients), "at the times of the field test"
    return {record.detail for record in came}


def test_live_and_simulated_brokers_get_the_same_scenario() -> None:
    live, simulated = street_jobs(["prehandoff"], FEW)

    assert live.seed == simulated.seed
    assert live.payload == {**simulated.payload, LINK_DELAY_S: simulated.payload["link"]["delay_s"]}
    assert live.payload["scheme"]["areas"] == live.payload["network"]["areas"], "neither knows the streets"
    assert live.payload["mobility"]["speed_mps"] == [240.0, 480.0]


def test_a_scheme_without_areas_drives_the_same_streets() -> None:
    awaited, _, plain, _ = street_jobs(["prehandoff", "standard"], FEW)

    assert json.loads(json.dumps(plain.payload["scheme"])) == {"name": "standard"}
    assert plain.payload["mobility"] == awaited.payload["mobility"]


@pytest.mark.live
def test_a_relay_holds_bytes_back_for_the_delay_of_its_link_and_keeps_their_order() -> None:
    async def pass_through() -> tuple[bytes, float]:
        loop = asyncio.get_running_loop()
        heard: asyncio.Queue[tuple[bytes, float]] = asyncio.Queue()

        async def listen(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            heard.put_nowait((await reader.readexactly(6), loop.time()))
            writer.close()

        target, port = free_ports(2)
        server = await asyncio.start_server(listen, "127.0.0.1", target)
        relay = Relay(target, port, delay_s=0.2)
        await relay.up()
        _, writer = await asyncio.open_connection("127.0.0.1", port)
        sent_at = loop.time()
        for part in (b"ab", b"cd", b"ef"):
            writer.write(part)
            await writer.drain()
        data, heard_at = await heard.get()
        writer.close()
        await relay.down()
        server.close()
        return data, heard_at - sent_at

    data, took_s = asyncio.run(pass_through())

    assert data == b"abcdef"
    assert took_s >= 0.2, "no sooner; how much later is the machine's affair"


def test_a_device_tells_its_cell_as_it_connects() -> None:
    device = Device("c", lambda message: None)

    (hello,) = Decoder(Version.V5).feed(device.connect(previous="b1", cell="891e15b7067ffff"))

    assert isinstance(hello, Connect)
    assert hello.properties.user_properties == (("roamq-previous", "b1"), ("roamq-cell", "891e15b7067ffff"))


def test_a_network_on_this_machine_may_have_names_of_its_own() -> None:
    network = parse_network(local_network(2, scheme="standard", durability="memory", names=["b5", "b0.0"]))

    assert list(network.brokers) == ["b5", "b0.0"]
