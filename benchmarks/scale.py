"""What a network of 10, 100 and 1,000 sites with 10^4 to 10^7 clients costs, for each broker and link.

    python -m benchmarks scale [--sizes 10 100 1000] [--simulated 10 100]

Three steps. The price of each piece of work is measured on this machine: processor time and memory of a broker without
sockets. How far events and subscriptions travel is simulated, with the overlay `interest`, where a simulation is
possible, and computed from the graph beside it. The model (`roamq.models.capacity`) puts them together for numbers of
clients that no test has. docs/scale.md says what follows.
"""

import argparse
import gc
import math
import random
import time
import tracemalloc
from collections.abc import Callable
from statistics import fmean
from typing import Final, NamedTuple

from benchmarks import interest, memory
from benchmarks._machines import connect_packet
from roamq.core.context import Epoch
from roamq.core.events import BrokerId, ClientId, Event, EventId
from roamq.core.filters import Filter
from roamq.core.messages import Routed
from roamq.models.capacity import Demand, evaluate
from roamq.net.clients.mqtt.codec.publishing import EncodedMessage
from roamq.net.links import wire
from roamq.net.machine import Machine
from roamq.net.ops.settings import Settings
from roamq.net.topics.directory import Directory, Serving
from roamq.overlay.messages import SubscribeFrom
from roamq.overlay.topology import Topology

SIZES: Final = (10, 100, 1000)
CLIENTS: Final = (10_000, 100_000, 1_000_000, 10_000_000)
STAY_S: Final = 600.0
"""A client stays so long at a broker."""
PUBLISH_EVERY_S: Final = 60.0
RECEIVE_EVERY_S: Final = 10.0
PAYLOAD_BYTES: Final = 200
LOCAL_SITES: Final = 4
"""Local interests: an event is wanted at so many sites beside its own."""
REPEATS: Final = 4000
SIMULATED_S: Final = 20.0
FILTERS: Final = (100, 1000, 3000)
FILTERS_TIMED: Final = 50
SUBSCRIBE: Final = b"\x82\x0c\x00\x01\x00\x00\x06site/#\x00"
"""SUBSCRIBE of MQTT 5 to `site/#`, at QoS 0."""
B1, B2, B3 = map(BrokerId, ("b1", "b2", "b3"))


class Prices(NamedTuple):
    """What one piece of work costs a broker, measured."""

    client_bytes: float
    """A connected client with its session, without the kernel's socket."""
    entry_bytes: float
    """What a broker keeps to know where one client is, wherever that is."""
    news_s: float
    """To hear that a client connected elsewhere."""
    news_bytes: int
    event_s: float
    """To take an event in and pass it on to one neighbour."""
    event_bytes: int
    delivery_s: float
    """To write an event to one client, at QoS 0."""


def processor_s(act: Callable[[], None]) -> float:
    gc.collect()
    gc.disable()
    began = time.process_time()
    act()
    took_s = time.process_time() - began
    gc.enable()
    return took_s


def broker(overlay: str) -> Machine:
    """A broker in the middle of three; under flooding every event goes on."""
    made = Settings(
        me=B2, brokers=(B1, B2, B3), links=((B1, B2), (B2, B3)), scheme="standard", overlay=overlay
    )
    return Machine(made, 1000.0)


def event_frames(first: int) -> list[bytes]:
    body = EncodedMessage("site/1/news", bytes(PAYLOAD_BYTES), b"")
    return [
        wire.encode(
            Event(
                id=EventId(B1, first + number),
                topic=body.topic,
                payload=body.payload,
                published_at=1000.0,
                qos=0,
                properties=body,
            )
        )
        for number in range(REPEATS)
    ]


def feed(machine: Machine, frames: list[bytes]) -> float:
    """Processor time for each frame, what it causes included."""
    first = machine.outboxes.received[B1] + 1

    def take() -> None:
        for number, frame in enumerate(frames, first):
            machine.link_received(B1, number, frame, 1001.0)
            for connection in machine.take_outputs().dirty.values():
                connection.take_output()

    took_s = processor_s(take)
    for peer in list(machine.outboxes.frames):
        machine.link_acked(peer, machine.outboxes.sent[peer], 1001.0)
    return took_s / len(frames)


def measured() -> Prices:
    """The prices on this machine."""
    _, grown = memory.measured(memory.connections)
    count = 20_000
    tracemalloc.start()
    directory = Directory()
    for number in range(count):
        directory.learn(ClientId(f"client-{number}"), Epoch(1000.0 + number, B1), B1)
    entry_bytes = tracemalloc.get_traced_memory()[0] / count
    tracemalloc.stop()
    news = [
        wire.encode(
            Routed(
                to=B2,
                sender=B1,
                message=Serving(
                    client=ClientId(f"client-{number}"),
                    epoch=Epoch(1000.0 + number, B1),
                    home=B1,
                    previous=B3,
                ),
            )
        )
        for number in range(REPEATS)
    ]
    machine = broker("flooding")
    events = event_frames(2_000_000_000)
    feed(machine, events[:100])
    news_s, event_s = feed(machine, news), feed(machine, events[100:])
    listeners = 100
    for number in range(listeners):
        join(machine, number)
    delivery_s = (feed(machine, event_frames(3_000_000_000)[: REPEATS // 10]) - event_s) / listeners
    return Prices(
        grown / memory.COUNT, entry_bytes, news_s, len(news[-1]), event_s, len(events[0]), delivery_s
    )


def join(machine: Machine, number: int) -> None:
    """A client connects and subscribes at QoS 0."""
    machine.opened(number, 1001.0, "0:mqtt", "127.0.0.1:1")
    machine.received(number, connect_packet(f"listener-{number}", None, clean=True), 1001.0)
    machine.authenticated(number, None, 1001.0, allowed=True)
    machine.received(number, SUBSCRIBE, 1001.0)
    machine.take_outputs()


class Shape(NamedTuple):
    """What the graph of a network decides."""

    links: int
    distance: float
    """Links between two brokers, on average."""
    local: float
    """Links that an event crosses which is wanted at four other sites near its own."""
    paths_s: float
    """Processor time of one broker to find all paths, when it starts and when a broker joins."""
    paths_mb: float


def shape(size: int) -> Shape:
    """From the graph alone, with a sample of origins."""
    brokers, links = interest.graph(size)
    topology = Topology(brokers, [(one, other) for one, other in links])
    rng = random.Random(size)
    distances, crossed = [], []
    for origin in rng.sample(topology.brokers, min(size, 20)):
        toward = topology.tree(origin)
        far = {broker: len(topology.path(broker, origin)) - 1 for broker in toward}
        distances.append(fmean(far.values()))
        near = sorted(far, key=lambda broker: (far[broker], broker))[1 : LOCAL_SITES + 1]
        crossed.append(len({(b, toward[b]) for one in near for b in topology.path(one, origin)[:-1]}))
    again = Topology(brokers, [(one, other) for one, other in links])

    def find() -> None:
        for origin in again.brokers:
            again.unique_paths.tree(origin)

    took_s = processor_s(find)
    tracemalloc.start()
    again.unique_paths.changed()
    for origin in again.brokers[: math.ceil(size / 10)]:
        again.unique_paths.tree(origin)
    megabytes = tracemalloc.get_traced_memory()[0] / 1e6 * size / math.ceil(size / 10)
    tracemalloc.stop()
    return Shape(len(links), fmean(distances), fmean(crossed), took_s, megabytes)


class Load(NamedTuple):
    """What one broker, and one link, has to carry on average."""

    clients: int
    """At a broker, in a busy moment."""
    sessions_mb: float
    directory_mb: float
    news: float
    """Words a second that a client connected somewhere, at every broker."""
    news_cores: float
    routing_cores: float
    """For subscriptions, markers and hand-overs of all moves, as many as were simulated."""
    local_cores: float
    """For events, with local interests."""
    scattered_cores: float | None
    """The same at the busiest broker, where clients want anything from anywhere."""
    link_kbs: float
    """Events with local interests, in kB/s."""
    link_news_kbs: float


def load(size: int, clients: int, prices: Prices, found: Shape, controls: float) -> Load:
    """`controls`: control messages at each broker, for each move in the network."""
    moves = clients / STAY_S
    published = clients / PUBLISH_EVERY_S
    received = clients / RECEIVE_EVERY_S
    demand = Demand(
        clients=clients,
        event_rate=published,
        match_share=1 / RECEIVE_EVERY_S / published,
        t_on_s=STAY_S,
        t_off_s=1.0,
        demand_in_s=prices.event_s,
        demand_copy_s=prices.delivery_s,
        demand_out_s=prices.event_s / 2,
        demand_client_s=1e-3,
        response_target_s=1e6,
        overlay="advertisements",
    )
    plan = evaluate(demand, size, buffer_events=1)
    local = (published * (1 + found.local) * prices.event_s + received * prices.delivery_s) / size
    news_hops = (size - 1) * found.distance
    return Load(
        plan.clients_per_broker_busy,
        clients / size * prices.client_bytes / 1e6,
        clients * prices.entry_bytes / 1e6,
        moves,
        moves * prices.news_s * max(1.0, news_hops / size),
        moves * prices.news_s * controls,
        local,
        plan.broker_utilisation,
        published * found.local * prices.event_bytes / found.links / 1000,
        moves * news_hops * prices.news_bytes / found.links / 1000,
    )


def print_prices(prices: Prices) -> None:
    print(f"- a connected client with its session: {prices.client_bytes / 1000:.1f} kB")
    print(f"- to know where one client is, at every broker: {prices.entry_bytes:.0f} bytes")
    print(
        f"- to hear that a client is elsewhere: {1e6 * prices.news_s:.0f} us, {prices.news_bytes} bytes on a link"
    )
    print(
        f"- to take an event in and pass it on: {1e6 * prices.event_s:.0f} us, {prices.event_bytes} bytes on a link"
    )
    print(f"- to write an event to a client: {1e6 * prices.delivery_s:.1f} us\n")


class Filters(NamedTuple):
    """What distinct filters, none of which covers another, cost a broker that passes them on."""

    known: int
    bytes_each: float
    one_more_s: float
    """To hear of one more."""


def filters(known: int) -> Filters:
    machine = broker("interest")
    wanted = (1 << 1 | 1 << 2).to_bytes(1, "little")  # b1 wants what b2 and b3 publish
    frames = [
        wire.encode(SubscribeFrom(filter=Filter.parse(f"client/{number}/#"), origins=wanted))
        for number in range(known + FILTERS_TIMED)
    ]
    tracemalloc.start()
    feed(machine, frames[: known // 2])
    half = tracemalloc.get_traced_memory()[0]
    feed(machine, frames[known // 2 : known])
    grown = tracemalloc.get_traced_memory()[0] - half
    tracemalloc.stop()
    return Filters(known, grown / (known - known // 2), feed(machine, frames[known:]))


def print_filters() -> dict[str, object]:
    print("| distinct filters | memory of each | to hear of one more |")
    print("| ---: | ---: | ---: |")
    results: dict[str, object] = {}
    for known in FILTERS:
        one = filters(known)
        results[f"filters/{known}"] = one._asdict()
        print(
            f"| {one.known:,} | {one.bytes_each:.0f} bytes | {1000 * one.one_more_s:.2f} ms |",
            flush=True,
        )
    print()
    return results


def simulated(sizes: list[int]) -> dict[int, interest.Cost]:
    print(
        "| sites | link crossings of an event | of control messages, for each move | filters kept, mean (largest) |"
    )
    print("| ---: | ---: | ---: | ---: |")
    results: dict[int, interest.Cost] = {}
    for size in sizes:
        cost = results[size] = interest.cost("interest", size, 1, "standard", SIMULATED_S)
        print(
            f"| {size} | {cost.events:.1f} | {cost.move:.0f} | {cost.filters:.0f} ({cost.filters_max}) |",
            flush=True,
        )
    print()
    return results


def print_shapes(found: dict[int, Shape]) -> None:
    print("| sites | links | distance | local event crosses | to find all paths | memory of paths |")
    print("| ---: | ---: | ---: | ---: | ---: | ---: |")
    for size, one in found.items():
        print(
            f"| {size:,} | {one.links:,} | {one.distance:.1f} | {one.local:.1f} | {one.paths_s:.2f} s "
            f"| {one.paths_mb:.1f} MB |"
        )
    print()


def print_loads(
    shapes: dict[int, Shape], prices: Prices, costs: dict[int, interest.Cost]
) -> dict[str, object]:
    """Control messages for each move grow with the number of brokers: beyond what was simulated, at the same rate."""
    print(
        "| sites | clients | at a broker | sessions | directory | news | cores: news | routing | local events "
        "| scattered events "
        "| link: local events | link: news |"
    )
    print("| ---: " * 12 + "|")
    results: dict[str, object] = {}
    for size, found in shapes.items():
        for clients in CLIENTS:
            nearest = min(costs, key=lambda other: abs(math.log(other / size)))
            one = load(size, clients, prices, found, costs[nearest].move / nearest)
            results[f"{size}/{clients}"] = one._asdict()
            scattered = (
                "-" if one.scattered_cores is None or math.isinf(one.scattered_cores) else one.scattered_cores
            )
            print(
                f"| {size:,} | {clients:,} | {one.clients:,} | {size_text(one.sessions_mb)} "
                f"| {size_text(one.directory_mb)} | {one.news:,.0f}/s | {one.news_cores:.2g} "
                f"| {one.routing_cores:.2g} | {one.local_cores:.2g} "
                f"| {scattered if isinstance(scattered, str) else f'{scattered:.2g}'} "
                f"| {one.link_kbs:,.0f} kB/s | {one.link_news_kbs:,.0f} kB/s |"
            )
    return results


def size_text(megabytes: float) -> str:
    return f"{megabytes:,.0f} MB" if megabytes < 10_000 else f"{megabytes / 1000:,.0f} GB"


def main(argv: list[str]) -> dict[str, object]:
    parser = argparse.ArgumentParser(prog="python -m benchmarks scale", description=__doc__)
    parser.add_argument("--sizes", type=int, nargs="+", default=list(SIZES), help="numbers of sites")
    parser.add_argument(
        "--simulated", type=int, nargs="+", default=[10, 100], help="sizes that are simulated"
    )
    options = parser.parse_args(argv)
    print(
        f"a client stays {STAY_S:.0f} s at a broker, publishes {PAYLOAD_BYTES} bytes every {PUBLISH_EVERY_S:.0f} s, "
        f"and gets a message every {RECEIVE_EVERY_S:.0f} s\n"
    )
    prices = measured()
    print_prices(prices)
    costs = simulated(options.simulated)
    results: dict[str, object] = {"prices": prices._asdict()}
    results |= {f"simulated/{size}": cost._asdict() for size, cost in costs.items()}
    results |= print_filters()
    shapes = {size: shape(size) for size in options.sizes}
    print_shapes(shapes)
    results |= {f"shape/{size}": found._asdict() for size, found in shapes.items()}
    return results | print_loads(shapes, prices, costs)
