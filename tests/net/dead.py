"""Rides past brokers that die in the middle and stay dead: `python -m tests.net.dead --rides 1000`.

Three to twelve brokers are connected by a random graph with cycles, and paths are direct (`carried.py`). Brokers die,
as many as leave the others connected, and come back much later; connections are cut; brokers join and leave beside it.
A client roams between those that are up. While others are dead it gets what is published at every broker that is up;
in the end all comes, once, and in order of each publisher.

With `rough`, brokers die at any moment, with whatever is there or on its way: who waits for them waits.
"""

import argparse
import time
from collections import Counter
from collections.abc import Callable

from roamq.core.events import BrokerId
from roamq.schemes.parts.late import LateParts
from tests.net.carried import CarriedFleet, random_connections
from tests.net.fleet import FleetClient
from tests.net.growing import GrowingFleet
from tests.net.growing import Ride as GrowingRide

SCHEMES = ("standard", "proactive", "logging", "prefetching", "prehandoff")
OVERLAYS = ("interest", "flooding")
LONG_S = 20.0
"""So long brokers are dead before it is looked at what has come."""


class Ride(GrowingRide):
    """One client moves and listens; publishers stay at brokers, and one roams; brokers die for a while."""

    fleet: CarriedFleet

    def __init__(self, seed: int, scheme: str, *, overlay: str, rough: bool = False, moves: int = 10) -> None:
        self.rough = rough
        self.count: Counter[str] = Counter()
        """What happened, by its name."""
        self.fresh: list[bytes] = []
        """Published since the last broker died, at brokers that were up."""
        self.homes: dict[FleetClient, BrokerId] = {}
        super().__init__(seed, scheme, faults=True, overlay=overlay, moves=moves)

    def fleet_of(self, seed: int, scheme: str, overlay: str) -> GrowingFleet:
        brokers = 3 + seed % 10
        timeout_s = 1.0 if self.rough and seed % 4 == 0 else 1000.0
        connections = random_connections(seed, brokers)
        fleet = CarriedFleet(seed, scheme, connections, overlay=overlay, handoff_timeout_s=timeout_s)
        fleet.settle()
        assert not fleet.not_linked(), fleet.not_linked()
        self.may_depart = fleet.machines[fleet.core[0]].broker.scheme.lets_brokers_depart
        return fleet

    # --- what clients do ---------------------------------------------------------------------------------------

    def _publish(self) -> None:
        fleet = self.fleet
        if not self.homes:
            for name in self.random.sample(fleet.core, min(3, len(fleet.core))):
                client = fleet.client(f"at-{name}.")
                client.may_be_refused = True
                self.homes[client], self.sent[client] = name, []
                self.publishers.append(client)
        for publisher, sent in self.sent.items():
            if not self._is_at_work(publisher):
                continue
            for _ in range(self.random.randrange(3)):
                sent.append(f"{publisher.device.name} {len(sent)}".encode())
                self.fresh.append(sent[-1])
                publisher.publish("t/x", sent[-1], 2)
                self._steps(6)

    def _is_at_work(self, publisher: FleetClient) -> bool:
        """Whether a publisher can publish; one that has lost its broker goes to another, unless it stays at home."""
        home, serving = self.homes.get(publisher), self.fleet.serving
        if publisher.at in serving and not self._was_sent_away(publisher):
            return True
        if home is not None and home not in self.fleet.machines:
            del self.homes[publisher]  # its broker has left
            home = None
        if home is None or home in serving:
            publisher.connect(home or self.random.choice(serving))
            return True
        return False

    def _steps(self, at_most: int) -> None:
        for _ in range(self.random.randrange(at_most)):
            self.fleet.step()
            if self.rough and self.random.random() < 0.01 and self.fleet.up:
                self.fleet.break_link(self.random.choice(sorted(self.fleet.up, key=sorted)))

    def _roam(self) -> None:
        self._move(self.mover)
        if self.random.random() < 0.5:
            self._move(self.publishers[1])
        self._steps(40)

    def _move(self, client: FleetClient) -> None:
        self.count["moves"] += 1
        client.connect(self.random.choice(self.fleet.serving))

    # --- what brokers do ---------------------------------------------------------------------------------------

    def _change(self) -> None:
        fleet = self.fleet
        kinds = ["kill", "kill", "kill", "start", "cut", "mend", "join", "wait", "wait"]
        if self.may_depart:
            kinds += ["leave", "core leaves"]
        match self.random.choice(kinds):
            case "kill" if names := self._may_die():
                has_left = self.mover.at in names and self.random.random() < 0.5
                self._kill(self.mover.at if has_left and self.mover.at else self.random.choice(names))
            case "start" if names := [name for name in sorted(fleet.dead) if self._may_start(name)]:
                fleet.start(self.random.choice(names))
            case "cut" if pairs := self._may_be_cut():
                self.count["cuts"] += 1
                fleet.cut_connection(self.random.choice(pairs))
            case "mend":
                fleet.mend()
            case "join" if (
                up := [name for name in fleet.core if name in fleet.serving]
            ) and not self._edges():
                usable = [name for name in ("a", "m", "z") if self._is_free(name)]
                calls = self.random.sample(up, min(len(up), self.random.choice((1, 2, 2))))
                if usable:
                    self.count["joins"] += 1
                    fleet.join(self.random.choice(usable), *sorted(calls))
            case "leave" if edges := [name for name in self._edges() if name in fleet.serving]:
                self.count["leaves"] += 1
                fleet.leave(self.random.choice(edges))
            case "core leaves" if names := [one for one in fleet.may_leave() if self._can_spare(one)]:
                self.count["leaves"] += 1
                name = self.random.choice(names)
                fleet.core.remove(name)
                fleet.leave(name)
            case "wait":
                self._wait_long()

    def _edges(self) -> list[BrokerId]:
        """What two of them have for each other goes through the core: with one, everything goes around."""
        return [] if self.rough else [name for name in self.fleet.calls if name in self.fleet.machines]

    def _is_free(self, name: str) -> bool:
        known = [m.membership.members.get(BrokerId(name)) for m in self.fleet.machines.values()]
        is_new = all(member is None for member in known)
        return BrokerId(name) not in self.fleet.machines and (is_new or self._all_know_gone(name))

    def _can_spare(self, name: BrokerId) -> bool:
        """Nobody reaches others through it alone, as it is asked when it leaves, and all are up to be told."""
        fleet = self.fleet
        is_called = any(calls == (name,) for calls in fleet.calls.values())
        others = [one for one in fleet.machines if one != name]
        reach = all(fleet.reaches(one, other, {name}) for one in others for other in others)
        return (
            not fleet.apart_without(name)
            and not fleet.going
            and not fleet.dead
            and not fleet.cut
            and reach
            and not is_called
        )

    def _may_die(self) -> list[BrokerId]:
        """Those without whom the others reach each other; in a rough ride anybody, but for the last two."""
        fleet = self.fleet
        running = [name for name in fleet.machines if fleet.is_running(name) and name not in fleet.going]
        if self.rough:
            return running if len(fleet.serving) > 2 else []
        homes = set(self.homes.values()) if self.random.random() < 0.5 else set()
        return [
            name for name in running if name not in homes and self._stay_linked(name) and not self._owes(name)
        ]

    def _owes(self, name: BrokerId) -> bool:
        """Whether a broker has to send on what was late when the client left it: who waits for that waits for it."""
        late: LateParts = self.fleet.machines[name].broker.scheme.handover.late  # type: ignore[attr-defined]
        return any(client == "mover" for client, _, _ in late.owing)

    def _may_start(self, name: BrokerId) -> bool:
        """One whose neighbours are all dead would reach nobody: clients do not go there in a smooth ride."""
        self.fleet.dead.discard(name)
        is_fine = self.rough or self._stay_linked()
        self.fleet.dead.add(name)
        return is_fine

    def _stay_linked(self, *without: BrokerId) -> bool:
        """Whether others reach each other without these, and without those that are about to leave."""
        fleet = self.fleet
        without = (*without, *fleet.going)
        others = [name for name in fleet.machines if fleet.is_running(name) and name not in without]
        return len(set(others) & set(fleet.serving)) > 1 and all(
            fleet.reaches(one, other, without) for one in others for other in others if one < other
        )

    def _may_be_cut(self) -> list[frozenset[BrokerId]]:
        fleet, found = self.fleet, []
        for pair in sorted(fleet.wires - fleet.cut, key=sorted):
            fleet.cut.add(pair)
            if self.rough or self._stay_linked():
                found.append(pair)
            fleet.cut.discard(pair)
        return found

    def _kill(self, name: BrokerId) -> None:
        self.count["kills"] += 1
        if not self.rough:
            while self.mover.at in (name, None):
                self._move(self.mover)
            self._let_in()
            if not self._is_whole() or self._owes(name):
                return
        self.fleet.kill(name)
        self.fresh = []

    def _let_in(self) -> None:
        """The client is where it is with all of its session, however long that takes; perhaps nobody else has heard."""
        for _ in range(200):
            if self._is_in():
                return
            if self.mover.at not in self.fleet.serving or self._was_sent_away(self.mover):
                self._move(self.mover)
            self._pass_time(1.0, self._is_in)
        raise AssertionError(f"the client is not let in at {self.mover.at}, dead: {self.fleet.dead}")

    def _is_in(self) -> bool:
        return self.mover.device.is_open and not self._was_sent_away(self.mover) and self._is_whole()

    def _is_whole(self) -> bool:
        """No part of the client's session is on its way to it."""
        for machine in self.fleet.machines.values():
            arriving = machine.broker.scheme.handover.whereabouts.arriving  # type: ignore[attr-defined]
            if any(client == "mover" for client, _ in arriving):
                return False
        return True

    def _pass_time(self, for_s: float, is_enough: Callable[[], bool] = lambda: False) -> None:
        fleet = self.fleet
        until = fleet.now + for_s
        while fleet.now < until and not is_enough():
            if not fleet.step():
                fleet.now = max(fleet.now, min([*fleet.later(for_s), until]))

    def _wait_long(self) -> None:
        """While brokers are dead: links that can be up are, and the client has what was published elsewhere since."""
        self._pass_time(LONG_S)
        fleet = self.fleet
        assert not fleet.not_linked(), f"not linked: {fleet.not_linked()}, dead: {fleet.dead}"
        if self.rough or not fleet.dead:
            return
        self._let_in()
        self._pass_time(1.0)
        waiting = {
            payload
            for publisher, sent in self.sent.items()
            if publisher.at is None or not publisher.device.is_open
            for payload in sent
        }
        missing = [one for one in self.fresh if one not in waiting and one not in self.mover.payloads()]
        assert not missing, f"does not go around {fleet.dead}: {missing}, at {self.mover.at}"
        self.count["looks"] += 1

    # --- the end --------------------------------------------------------------------------------------------------

    def _settle(self) -> None:
        for name in sorted(self.fleet.dead):
            self.fleet.start(name)
        self.fleet.mend()
        for publisher in self.publishers:
            self._is_at_work(publisher)
        super()._settle()
        assert not self.fleet.not_linked(), f"not linked: {self.fleet.not_linked()}"

    def check(self) -> int:
        if not self.rough:
            assert all(self.mover.present[1:]), f"a session was not found: {self.mover.present}"
        for publisher in self.publishers:
            stayed = publisher in self.homes
            mine = [
                one for one in self.mover.payloads() if one.startswith(publisher.device.name.encode() + b" ")
            ]
            kept = all(self.mover.present[1:]) and all(publisher.present[1:])
            assert not stayed or not kept or mine == self.sent[publisher], (
                f"{publisher.device.name}: sent {self.sent[publisher]}, got {mine}"
            )
        return super().check()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--rides", type=int, default=100, help="for each scheme and overlay, smooth and rough"
    )
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--scheme", action="append", choices=SCHEMES)
    parser.add_argument("--minutes", type=float, default=float("inf"), help="begin no ride after so many")
    parser.add_argument("--go-on", action="store_true", help="after a ride that went wrong")
    options = parser.parse_args()
    end = time.monotonic() + 60 * options.minutes
    count: Counter[str] = Counter()
    cases = [
        (seed, scheme, overlay, rough)
        for seed in range(options.first, options.first + options.rides)
        for scheme in options.scheme or SCHEMES
        for overlay in OVERLAYS
        for rough in (False, True)
    ]
    wrong = 0
    for seed, scheme, overlay, rough in cases:
        if time.monotonic() > end:
            break
        try:
            ride = Ride(seed, scheme, overlay=overlay, rough=rough)
            count["messages"] += ride.check()
        except Exception as error:
            wrong += 1
            print(f"seed {seed}, {scheme}, {overlay}, {rough=}: {type(error).__name__}: {error}", flush=True)  # noqa: T201
            if not options.go_on:
                raise
            continue
        count += ride.count
        count["rides"] += 1
        count["links that broke"] += ride.fleet.breaks
        count["links that took a shorter way"] += ride.fleet.rerouted
    told = ", ".join(f"{number:,} {what}" for what, number in count.items())
    print(f"{told}; {wrong} rides went wrong")  # noqa: T201 - a command
    raise SystemExit(1 if wrong else 0)


if __name__ == "__main__":
    main()
