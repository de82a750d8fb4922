"""`python -m tests.net.changes [--rides 100] [--seed 0]`: brokers change their schemes while clients roam.

As `kills.py`: a publisher and subscribers of QoS 1 and 2 roam through a network without sockets, brokers are killed.
Now and then an operator edits the file and brokers read it again, one after the other, in any order, while all of that
goes on: another scheme, other options, classes of clients that come and go. Some are killed and stored in between. A
ride that fails prints the command to repeat it.
"""

import argparse
import sys
from random import Random
from typing import Any

import msgspec

from roamq.core.events import BrokerId
from roamq.net.durable import snapshot
from roamq.net.durable.inputs import LiveBroker
from roamq.net.ops.settings import ClientClass
from roamq.schemes.by_class import ByClass
from tests.net.fleet import Fleet

LOSSLESS = ("standard", "logging", "prefetching", "proactive", "prehandoff")
CHANGE, KILL, STORE = 0.03, 0.01, 0.01
"""How often a step is followed by each of them."""


def scheme_of(chance: Random) -> dict[str, Any]:
    options: dict[str, dict[str, Any]] = {
        "logging": {"log_size": chance.choice([2, 1000])},
        "prefetching": {"targets": chance.choice([1, 2])},
        "proactive": {"neighbor_limit": chance.choice([1, 12])},
    }
    scheme = chance.choice(LOSSLESS)
    return {"scheme": scheme, "options": options.get(scheme, {})}


class ChangingRide:
    """Clients of several classes move, another publishes, brokers change and fall."""

    def __init__(self, seed: int, overlay: str | None = None) -> None:
        chance = Random(f"{seed}/scheme")
        overlay = overlay or chance.choice(["flooding", "interest"])
        self.fleet = Fleet(
            seed, chance.choice(LOSSLESS), 3 + seed % 2, handoff_timeout_s=1000.0, overlay=overlay
        )
        self.changes = self.kills = 0
        self.sent: list[bytes] = []
        self._names = [str(name) for name in self.fleet.machines]
        self._home = self._names[0]
        self._told: dict[str, dict[str, Any]] = {}
        """Brokers that have not read the file since it was edited -> what it says."""
        self.publisher = self.fleet.client("publisher")
        self.movers = {
            name: self.fleet.client(name, shows_ticket=chance.random() < 0.5)
            for name in ("bus-1", "bus-2", "walker")
        }

    def run(self, moves: int = 12) -> None:
        fleet, chance = self.fleet, self.fleet.random
        self.publisher.connect(self._home)
        for number, mover in enumerate(self.movers.values()):
            mover.connect(chance.choice(self._names))
            mover.subscribe("t/#", 1 + number % 2)
        fleet.settle()
        for _ in range(moves):
            for _ in range(chance.randrange(6)):
                self._come_back()
                self.sent.append(b"%d" % len(self.sent))
                self.publisher.publish("t/x", self.sent[-1], 2)
                self._steps(chance.randrange(8))
            for mover in self.movers.values():
                if chance.random() < 0.7:
                    mover.connect(chance.choice(self._names))
                elif chance.random() < 0.3:
                    mover.vanish()
            self._steps(chance.randrange(40))
        for name in list(self._told):
            self._reload(name)
        for _ in range(3):
            self._come_back()
            fleet.settle()

    def _steps(self, count: int) -> None:
        chance = self.fleet.random
        for _ in range(count):
            self.fleet.step()
            if self._told and chance.random() < 0.3:
                self._reload(chance.choice(sorted(self._told)))
            if chance.random() < CHANGE:
                self._edit()
            if chance.random() < KILL:
                self.kills += 1
                self.fleet.crash(chance.choice(self._names))
            if chance.random() < STORE:
                self._store(BrokerId(chance.choice(self._names)))

    def _edit(self) -> None:
        chance = self.fleet.random
        rules: list[dict[str, Any]] = [
            {"name": "buses", "client_id": "bus-*"},
            {"name": "walkers", "client_id": "walker"},
        ]
        classes = tuple(ClientClass(**rule, **scheme_of(chance)) for rule in rules if chance.random() < 0.5)
        scheme = scheme_of(chance)
        said = {"scheme": scheme["scheme"], "scheme_options": scheme["options"], "classes": classes}
        self._told = dict.fromkeys(self._names, said)

    def _reload(self, name: str) -> None:
        machine = self.fleet.machines[BrokerId(name)]
        settings = msgspec.structs.replace(machine.settings, **self._told.pop(name))
        machine.set_settings(settings, self.fleet.clock(BrokerId(name)))
        self.changes += 1

    def _store(self, name: BrokerId) -> None:
        """The broker is stored, and goes on as what was read back."""
        self.fleet.take_outputs()
        live = LiveBroker.__new__(LiveBroker)
        live.machine, live.timers, live.connections, live.records = self.fleet.machines[name], {}, 0, 0
        self.fleet.machines[name] = snapshot.load(snapshot.dump(live)).machine

    def _come_back(self) -> None:
        for client, at in ((self.publisher, self._home), *((mover, None) for mover in self.movers.values())):
            if client.at is None:
                client.connect(at or self.fleet.random.choice(self._names))

    def fault(self) -> str | None:
        """What came wrong, or was left behind."""
        for name, mover in self.movers.items():
            if repeats := mover.unexplained_repeats():
                return f"{name}: got again {repeats[:5]}"
            got = list(dict.fromkeys(mover.payloads()))
            if got != self.sent:
                lost = [one for one in self.sent if one not in set(got)]
                return f"{name}: sent {len(self.sent)}, got {len(got)}, lost {lost[:5]}"
        for broker, machine in self.fleet.machines.items():
            scheme = machine.broker.scheme
            for context in machine.held():
                found = f"at {broker} under {context.under}: {context.client}"
                at = self.movers[context.client].at if context.client in self.movers else None
                if at is not None and at != broker:
                    serving = self.fleet.machines[at].broker.contexts[context.client]
                    if context.stored or context.under != serving.under:
                        return f"left behind {found}"
                if (
                    at == broker
                    and isinstance(scheme, ByClass)
                    and context.under != scheme.wanted(context.client)
                ):
                    return f"not taken along {found}"
        return None


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.net.changes", description=__doc__)
    parser.add_argument("--rides", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    changes = kills = failed = 0
    for seed in range(options.seed, options.seed + options.rides):
        ride = ChangingRide(seed)
        ride.run()
        changes, kills = changes + ride.changes, kills + ride.kills
        if (fault := ride.fault()) is not None:
            failed += 1
            print(f"{fault}\nrepeat: python -m tests.net.changes --rides 1 --seed {seed}", flush=True)
    print(f"{options.rides:,} rides, {changes:,} changes, {kills:,} kills, {failed} rides that went wrong")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
