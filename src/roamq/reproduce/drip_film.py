"""The film of one event: run a network, and look at it whenever a copy or a delivery was made."""

from collections.abc import Iterator

from roamq.core.events import BrokerId, Event, EventId
from roamq.core.records import Record
from roamq.manet.protocol.ports import Parameters
from roamq.manet.simulation.experiment import Setting, build
from roamq.manet.simulation.network import AdHocNetwork
from roamq.report.exhibits import Film
from roamq.report.manet_frames import MobileBrokerScene, frame

SEED = 3
"""A seed whose event reaches all its subscribers, neither at once nor too late to watch."""
LOOK_EVERY_S = 0.05
MOVE_ON_S = 3.0
"""A frame is drawn after this time even if nothing happened to the event, because nodes move."""
LOOK_FOR_S = 60.0
WANTED_BY = range(4, 9)
"""The film takes an event with this number of subscribers: few enough to follow in the picture."""


def one_event(quick: bool) -> Film:
    """The first event that a few subscribers want, from its publication until the last of them has it."""
    setting = Setting(publishing_s=60.0, parameters=Parameters(k=15, l=3, m=2))
    network = build(setting, SEED)
    event = _first_event(network, setting)
    looks = list(_looks(network, event))
    shown = _thin(looks, 6 if quick else 20)
    return Film(
        title="One event in DRIP: regions, bridges and copies",
        frames=[frame(scene) for scene, _ in shown],
        texts=[text for _, text in shown],
        caption=(
            f"200 nodes in 1,000 m x 1,000 m, k={setting.parameters.k}, l={setting.parameters.l}, "
            f"m={setting.parameters.m}, seed {SEED}. Cells are the Voronoi regions of the brokers' positions; "
            "a node has the color of the broker it is attached to, by the delay of broadcasts. Brokers move on with "
            "their copies, so a band may be longer than the way a copy took."
        ),
    )


def _first_event(network: AdHocNetwork, setting: Setting) -> Record:
    time = setting.warm_up_s
    while True:
        time += 0.01
        network.run(time)
        for record in reversed(network.records):
            if record.time_s < time - 0.02:
                break
            if record.kind == "published" and record.count in WANTED_BY:
                return record


def _looks(network: AdHocNetwork, event: Record) -> Iterator[tuple[MobileBrokerScene, str]]:
    """A scene whenever something about the event has changed."""
    before, looked_s = None, 0.0
    while network.engine.now < event.time_s + LOOK_FOR_S:
        copies = {r.broker: r for r in network.records if r.kind == "copied" and _of(r, event)}
        served = [r for r in network.records if r.kind == "delivered" and _of(r, event)]
        now = (len(copies), len(served))
        if copies and (now != before or network.engine.now >= looked_s + MOVE_ON_S):
            before, looked_s = now, network.engine.now
            passed = network.engine.now - event.time_s
            yield (
                _scene(network, event),
                f"{passed:.1f} s after publication: {len(copies)} of {len(network.brokers())} brokers have a copy, "
                f"{len(served)} of {event.count} subscribers have the event.",
            )
        if len(served) == event.count:
            return  # the last of them has it
        network.run(network.engine.now + LOOK_EVERY_S)


def _scene(network: AdHocNetwork, event: Record) -> MobileBrokerScene:
    brokers = network.brokers()
    number = {f"n{node.me}": node.me for node in brokers}
    made = [r for r in network.records if r.kind == "copied" and _of(r, event)]
    copies = {r.broker: r.detail or "" for r in made}
    served = {r.client for r in network.records if r.kind == "delivered" and _of(r, event)}
    published = _stored(network, event)
    wanting = [
        node.me
        for node in network.nodes
        if f"n{node.me}" != event.client and any(condition.matches(published) for condition in node.filters)
    ]
    routes = [
        route
        for node in brokers
        if node.broker is not None
        for route in node.broker.contacts.reachable(node.neighbors, network.engine.now)
    ]
    return MobileBrokerScene(
        side_m=1000.0,
        positions=[(float(x), float(y)) for x, y in network.field.positions],
        local_broker=[node.local_broker for node in network.nodes],
        brokers=[node.me for node in brokers],
        bridges=[(route.bridge, route.hops[-1]) for route in routes if route.bridge is not None],
        copies={node.me: copies[f"n{node.me}"] for node in brokers if f"n{node.me}" in copies},
        handed=[(number[r.peer], number[r.broker]) for r in made if r.peer in number and r.broker in number],
        waiting=[node for node in wanting if f"n{node}" not in served],
        served=[node for node in wanting if f"n{node}" in served],
    )


def _stored(network: AdHocNetwork, published: Record) -> Event:
    """The event itself, from a broker that holds it."""
    assert published.origin is not None
    assert published.sequence is not None
    wanted = EventId(BrokerId(published.origin), published.sequence)
    held = (node.broker.buffer.get(wanted) for node in network.brokers() if node.broker is not None)
    return next(event for event in held if event is not None)


def _of(record: Record, event: Record) -> bool:
    return (record.origin, record.sequence) == (event.origin, event.sequence)


def _thin(looks: list[tuple[MobileBrokerScene, str]], most: int) -> list[tuple[MobileBrokerScene, str]]:
    """At most this many frames, the first and the last among them."""
    if len(looks) <= most:
        return looks
    return [looks[round(place * (len(looks) - 1) / (most - 1))] for place in range(most)]
