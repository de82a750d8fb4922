"""A fleet whose brokers come and go, and rides through it: `python -m tests.net.growing --rides 1000`.

Brokers join at one or two others, leave, and join again, while links are cut, brokers fall, clients roam to whatever
broker there is, and publish. Brokers of the core are drained and restart empty, too, and leave for good where nothing
between others goes through them. What was published arrives, once at QoS 2, in order for a publisher that stays.
"""

import argparse
from collections.abc import Collection, Iterable
from itertools import combinations

from roamq.core.events import BrokerId
from roamq.net.machine import Machine
from roamq.net.ops.draining import Draining
from roamq.net.ops.settings import Settings
from tests.net.fleet import Fleet, FleetClient

SCHEMES = ("standard", "proactive", "logging")


class GrowingFleet(Fleet):
    """Machines that come and go; a link is up when both ends know of it."""

    def __init__(
        self,
        seed: int,
        scheme: str,
        brokers: int = 3,
        *,
        ring: bool | None = None,
        given: Iterable[tuple[str, str]] | None = None,
        **settings: object,
    ) -> None:
        self.up: set[frozenset[BrokerId]] = set()
        self._known: object = None
        """Who had whom for a neighbour when links were looked after last."""
        ring = bool(seed % 2) if ring is None else ring
        super().__init__(seed, scheme, brokers, ring=ring, given=given, **settings)
        self.core = list(self.machines)
        self.up |= {frozenset(pair) for pair in self.links}
        self.scheme, self.more = scheme, settings
        self.going: dict[BrokerId, str] = {}
        """Brokers that are being drained -> what follows: `leave` or `empty`."""
        self._draining: dict[BrokerId, Draining] = {}
        self.changes = 0
        self.gone: list[BrokerId] = []
        """Brokers of the core that have left."""

    def is_open(self, source: BrokerId, target: BrokerId) -> bool:
        pair = frozenset((source, target))
        return super().is_open(source, target) and pair in self.up and target in self.machines

    # --- brokers come and go --------------------------------------------------------------------------------

    def join(self, name: str, *at: str, asked: BrokerId | None = None) -> None:
        """An operator asks one of the brokers that the new one is linked with; then the new one is started."""
        asked = asked or BrokerId(self.random.choice([one for one in at if self.is_running(BrokerId(one))]))
        machine = self.machines[asked]
        change = machine.membership.joining(name, at, beside=self.in_reach(asked, BrokerId(name)))
        machine.change_network(change, self.clock(asked))
        broker = BrokerId(name)
        first = self.machines[self.core[0]].made_of
        made = Settings(
            me=broker,
            brokers=first.brokers,
            links=first.links,
            at=tuple(map(BrokerId, at)),
            scheme=self.scheme,
            **self.more,  # type: ignore[arg-type]
        )
        self._forget_links(broker)
        self.machines[broker] = Machine(made, self.clock(broker))
        self.changes += 1

    def in_reach(self, asked: BrokerId, joining: BrokerId) -> Collection[BrokerId]:
        """The brokers that joined before and that a new one can be linked with, as the one that admits it knows."""
        return ()

    def leave(self, name: str, then: str = "leave") -> None:
        """`roamq leave`, or draining, stopping and starting with an empty folder."""
        broker = BrokerId(name)
        self.going[broker] = then
        self._draining[broker] = Draining(self.machines[broker])
        self.machines[broker].drain(self.clock(broker))
        self.changes += 1

    def may_leave(self) -> list[BrokerId]:
        """Brokers of the core that nothing between others goes through, as far as each knows."""
        found = []
        for name in self.core if len(self.core) > 2 else ():
            try:
                self.machines[name].membership.departing(name, "left")
            except ValueError:
                continue
            found.append(name)
        return [name for name in found if name in self.serving]

    def forget(self, name: str, asked: BrokerId) -> None:
        """A broker is lost, and an operator says so to another."""
        broker, machine = BrokerId(name), self.machines[asked]
        self._end(broker)
        machine.change_network(machine.membership.departing(name, "forgotten"), self.clock(asked))
        self.changes += 1

    @property
    def serving(self) -> list[BrokerId]:
        """Brokers that clients may go to: operators send them to none that has not heard where sessions are."""
        told = [name for name, machine in self.machines.items() if machine.tables.is_told]
        return [name for name in told if name not in self.going]

    def step(self) -> bool:
        self._look_after_brokers()
        return super().step()

    def _look_after_brokers(self) -> None:
        self.look_after_links()
        self.look_after_going()

    def look_after_links(self) -> None:
        known = self.who_knows_whom()
        if known == self._known:
            return
        self._known = known
        for one, other in combinations(list(self.machines), 2):
            pair = frozenset((one, other))
            if self.know_each_other(one, other):
                if pair not in self.up:
                    self._link(one, other)
            else:
                self.up.discard(pair)

    def who_knows_whom(self) -> list[object]:
        """Changes with every broker that comes or goes, wherever that is heard: no neighbour that an outbox drops, and
        none that it begins with, leaves these numbers as they were."""
        outboxes = [machine.outboxes for machine in self.machines.values()]
        return [(one, one.begun, len(one.frames)) for one in outboxes]

    def know_each_other(self, one: BrokerId, other: BrokerId) -> bool:
        """Whether each of the two brokers counts the other as a neighbour."""
        machines = self.machines
        return other in machines[one].outboxes.frames and one in machines[other].outboxes.frames

    def look_after_going(self) -> None:
        for name, then in list(self.going.items()):
            if not self.is_running(name):
                continue
            machine = self.machines[name]
            if machine.membership.has_left:
                if self._is_heard(name):
                    self._end(name)
                    if name in machine.made_of.brokers:
                        self.gone.append(name)
                continue
            looked = self._draining[name].look()
            if looked["left"] or looked["unconfirmed"]:
                continue
            if then == "empty":
                self._empty(name)
            elif machine.membership.unheard is None:
                try:
                    machine.membership.departing(name, "left")
                    self.check_not_needed(name)
                except ValueError:  # a broker has joined there meanwhile, or another one leaves as well
                    del self.going[name]
                    if name in machine.made_of.brokers:
                        self.core.append(name)
                    self.crash(name)  # which ends the draining
                    continue
                machine.leave(self.clock(name))

    def check_not_needed(self, name: BrokerId) -> None:
        """Raises ValueError if others reach each other through this broker alone."""

    def _is_heard(self, name: BrokerId) -> bool:
        """A neighbour has it that this broker left, and none that can be told is to be told."""
        frames = self.machines[name].outboxes.frames
        heard = [self.machines[peer].membership.members.get(name) for peer in frames]
        waiting = [peer for peer in frames if frames[peer] and name in self.machines[peer].outboxes.frames]
        return any(member is not None and member.is_gone for member in heard) and not waiting

    def _link(self, one: BrokerId, other: BrokerId) -> None:
        """Each end tells the other what it has received, and goes on from there."""
        self.up.add(frozenset((one, other)))
        for here, there in ((one, other), (other, one)):
            received = self.machines[there].outboxes.received[here]
            self.machines[here].link_acked(there, received, self.clock(here))
        self.take_outputs()
        for here, there in ((one, other), (other, one)):
            self.links.clear((here, there))
            self.links.put((here, there), self.machines[here].outboxes.frames[there])

    def _empty(self, name: BrokerId) -> None:
        machine = self.machines[name]
        if any(machine.outboxes.frames.values()):
            return  # it stops when its neighbours have what it sent
        made = machine.made_of
        self._end(name)
        self.machines[name] = Machine(made, self.clock(name))
        self.up -= {pair for pair in self.up if name in pair}
        self._known = None

    def _end(self, name: BrokerId) -> None:
        for client in self.clients:
            if client.at == name:
                client.vanish()
        self.losses = [loss for loss in self.losses if loss[1] != name]
        self.timers = {key: at for key, at in self.timers.items() if key[0] != name}
        self.going.pop(name, None)
        del self.machines[name]
        self._forget_links(name)

    def _forget_links(self, name: BrokerId) -> None:
        for pair in [pair for pair in self.links if name in pair]:
            self.links.end(pair)
        self.up = {pair for pair in self.up if name not in pair}
        self._known = None

    def links_come_up(self, name: BrokerId) -> None:
        for other in [b for a, b in list(self.links) if a == name]:
            if other in self.machines and other in self.machines[name].outboxes.frames:
                for here, there in ((name, other), (other, name)):
                    received = self.machines[there].outboxes.received.get(here)
                    if received is not None:
                        self.machines[here].link_acked(there, received, self.clock(here))
        self.take_outputs()


class Ride:
    """One client moves and listens, two publish, one of them from wherever it is; brokers come and go."""

    def __init__(
        self,
        seed: int,
        scheme: str,
        *,
        faults: bool,
        overlay: str,
        empties: bool = True,
        moves: int = 14,
    ) -> None:
        self.fleet = self.fleet_of(seed, scheme, overlay)
        self.random = self.fleet.random
        self.faults, self.empties = faults, empties
        self.mover = self.fleet.client("mover")
        self.publishers = [self.fleet.client("settled"), self.fleet.client("rover")]
        self.sent: dict[FleetClient, list[bytes]] = {publisher: [] for publisher in self.publishers}
        for client in (self.mover, *self.publishers):
            client.may_be_refused = True  # a broker that was told to adopt the session may be the newer one
            client.connect(self.fleet.core[0])
        self.mover.subscribe("t/#", 2)
        self.fleet.settle()
        for _ in range(moves):
            self._publish()
            self._change()
            self._roam()
            for _ in range(self.random.randrange(60)):
                self.fleet.step()
        self.fleet.cut.clear()
        self._settle()

    def fleet_of(self, seed: int, scheme: str, overlay: str) -> GrowingFleet:
        timeout_s = 1000.0 if seed % 4 else 1.0
        return GrowingFleet(seed, scheme, 3 + seed % 3, overlay=overlay, handoff_timeout_s=timeout_s)

    def _settle(self) -> None:
        """All arrives, brokers that were going are gone, and all clients are somewhere that stays."""
        fleet = self.fleet
        for _ in range(20):
            fleet.settle(60_000)
            for client in (self.mover, *self.publishers):
                if client.at not in fleet.serving or not client.device.is_open or self._was_sent_away(client):
                    client.connect(fleet.core[0] if fleet.core[0] in fleet.serving else fleet.serving[0])
            fleet.settle(60_000)
            fleet.now += 1.0
            clients = (self.mover, *self.publishers)
            if not fleet.going and all(c.device.is_open and not self._was_sent_away(c) for c in clients):
                return
        waits = {name: (then, fleet.machines[name].membership.unheard) for name, then in fleet.going.items()}
        raise AssertionError(f"brokers do not go: {waits}")

    def _was_sent_away(self, client: FleetClient) -> bool:
        return client.device.refused is not None or client.device.closed_because is not None

    def _publish(self) -> None:
        for publisher, sent in self.sent.items():
            if publisher.at not in self.fleet.serving or self._was_sent_away(publisher):
                publisher.connect(self.random.choice(self.fleet.serving))
            for _ in range(self.random.randrange(4)):
                sent.append(f"{publisher.device.name} {len(sent)}".encode())
                publisher.publish("t/x", sent[-1], 2)
                for _ in range(self.random.randrange(8)):
                    self.fleet.step()

    def _roam(self) -> None:
        self.mover.connect(self.random.choice(self.fleet.serving))
        if self.random.random() < 0.5:
            self.publishers[1].connect(self.random.choice(self.fleet.serving))

    def _change(self) -> None:
        fleet = self.fleet
        edges = [name for name in fleet.serving if name not in fleet.core]
        match self.random.randrange(9):
            case 0 | 1 | 2 if len(edges) < 3:
                free = [name for name in ("a", "m", "z") if BrokerId(name) not in fleet.machines]
                at = {self.random.choice(fleet.core) for _ in range(self.random.choice((1, 1, 2)))}
                known = fleet.machines[fleet.core[0]].membership.members
                usable = [name for name in free if BrokerId(name) not in known or self._all_know_gone(name)]
                if usable:
                    fleet.join(self.random.choice(usable), *sorted(at))
            case 3 | 4 if edges:
                fleet.leave(self.random.choice(edges))
            case 5 if self.faults and self.empties and not fleet.going:
                fleet.leave(self.random.choice(fleet.core), "empty")
            case 8 if fleet.may_leave():
                name = self.random.choice(fleet.may_leave())
                fleet.core.remove(name)
                fleet.leave(name)
            case 6 if self.faults:
                fleet.cut.add(frozenset(self.random.choice(list(fleet.links))))
            case 7 if self.faults:
                if self.random.random() < 0.5:
                    fleet.cut.clear()
                else:
                    fleet.crash(self.random.choice(list(fleet.machines)))

    def _all_know_gone(self, name: str) -> bool:
        members = [m.membership.members.get(BrokerId(name)) for m in self.fleet.machines.values()]
        return all(member is None or member.is_gone for member in members)

    def check(self) -> int:
        """How many deliveries were checked."""
        got = [payload.decode() for payload in self.mover.payloads()]
        owed = [payload.decode() for sent in self.sent.values() for payload in sent]
        assert set(got) == set(owed), f"lost {sorted(set(owed) - set(got))}"
        clients = (self.mover, *self.publishers)
        if all(all(client.present[1:]) for client in clients):
            assert sorted(got) == sorted(owed), "doubled"
            for publisher, sent in self.sent.items():
                mine = [payload for payload in got if payload.startswith(publisher.device.name)]
                is_ordered = mine == [payload.decode() for payload in sent]
                # Order is that of one broker: a publisher that moves on may be overtaken by its own later messages.
                assert is_ordered or len(publisher.present) > 1, f"{publisher.device.name}: out of order"
        versions = {m.membership.version for m in self.fleet.machines.values()}
        assert len(versions) == 1, f"brokers disagree: {versions}"
        contexts = [
            (name, context)
            for name, machine in self.fleet.machines.items()
            for context in machine.held()
            if context.client == "mover" and not machine.broker.scheme.may_keep(context)
        ]
        assert [name for name, _ in contexts] == [self.mover.at], f"left behind: {contexts}"
        return len(owed)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rides", type=int, default=100)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument(
        "--empties",
        action=argparse.BooleanOptionalAction,
        default=True,
        help="Brokers of the core restart empty, too.",
    )
    options = parser.parse_args()
    checked = changes = rides = gone = 0
    for seed in range(options.first, options.first + options.rides):
        for scheme in SCHEMES:
            for overlay in ("interest", "flooding"):
                for faults in (False, True):
                    try:
                        ride = Ride(seed, scheme, faults=faults, overlay=overlay, empties=options.empties)
                        checked += ride.check()
                    except Exception as error:
                        raise SystemExit(
                            f"seed {seed}, {scheme}, {overlay}, {faults=}: {type(error).__name__}: {error}"
                        ) from error
                    changes += ride.fleet.changes
                    gone += len(ride.fleet.gone)
                    rides += 1
    print(  # noqa: T201 - a command
        f"{rides} rides, {checked} messages, {changes} brokers that came or went, {gone} of them of the core: nothing "
        "lost, doubled or out of order"
    )


if __name__ == "__main__":
    main()
