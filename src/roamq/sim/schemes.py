"""The schemes in a simulated network: by class of clients, and as they change while the network runs."""

from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any

from roamq.build import Choices, change_schemes, check_change, check_choices, choices_of
from roamq.core.errors import ConfigError
from roamq.core.events import BrokerId, ClientId, Seconds
from roamq.sim.network import Network, SimHost
from roamq.sim.options import SchemeChange

if TYPE_CHECKING:
    from roamq.sim.scenario import Scenario

AGAIN_S: Seconds = 0.1
"""Seconds between looks whether a broker is up: a broker that is down hears of a change when it is back."""

Named = tuple[str, dict[str, Any]]
"""A scheme's name and its options."""


class NetworkSchemes:
    """Knows which scheme each broker has, for each class of clients."""

    def __init__(self, scenario: "Scenario", brokers: tuple[BrokerId, ...]) -> None:
        self._scenario = scenario
        chosen = {"": _named(scenario.scheme)}
        chosen |= {one.name: _named(one.scheme) for one in scenario.classes}
        self._chosen: dict[BrokerId, dict[str, Named]] = {broker: dict(chosen) for broker in brokers}

    def client_class(self, client: ClientId) -> str:
        """Returns the first class whose pattern the client's id matches; empty for none."""
        fits = (one.name for one in self._scenario.classes if fnmatchcase(client, one.clients))
        return next(fits, "")

    def at(self, broker: BrokerId) -> tuple[Named, dict[str, Named]]:
        """Returns the scheme of one broker, and class -> scheme."""
        chosen = dict(self._chosen[broker])
        return chosen.pop(""), chosen

    def plan(self, network: Network) -> None:
        """Schedules the scenario's changes of schemes."""
        for change in self._scenario.scheme_changes:
            for broker in change.brokers or list(network.hosts):
                network.engine.at(change.at_s, self._change, network.hosts[BrokerId(broker)], change)

    def _change(self, host: SimHost, change: SchemeChange) -> None:
        if not host.alive:
            host.engine.after(AGAIN_S, self._change, host, change)
            return
        self._chosen[host.me][change.client_class] = _named(change.scheme)
        host.enqueue("control", 0, change_schemes, host.broker, _choices(self._chosen[host.me]))


def check_schemes(scenario: "Scenario", brokers: tuple[BrokerId, ...]) -> None:
    """Refuses schemes that a broker would refuse in the middle of the run."""
    chosen = {"": _named(scenario.scheme)}
    chosen |= {one.name: _named(one.scheme) for one in scenario.classes}
    if len(chosen) <= len(scenario.classes):
        raise ConfigError("classes: two classes have the same name, or one has none")
    check_choices(_choices(chosen))
    for number, change in enumerate(scenario.scheme_changes):
        at = f"scheme_changes[{number}]"
        if change.client_class not in chosen:
            raise ConfigError(f"{at}.client_class: there is no class {change.client_class!r}")
        if unknown := [broker for broker in change.brokers if broker not in brokers]:
            raise ConfigError(f"{at}.brokers: there is no broker {unknown[0]!r}")
        before = _choices(chosen)
        chosen = {**chosen, change.client_class: _named(change.scheme)}
        check_change(before, _choices(chosen), f"{at}.scheme")


def _named(table: dict[str, Any]) -> Named:
    return str(table.get("name")), {key: value for key, value in table.items() if key != "name"}


def _choices(chosen: dict[str, Named]) -> Choices:
    (scheme, options), classes = chosen[""], {name: one for name, one in chosen.items() if name}
    return choices_of(scheme, options, classes)
