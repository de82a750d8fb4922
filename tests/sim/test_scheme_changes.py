"""Schemes by class of clients, and schemes that change while a simulated network runs: nothing is lost or left behind.

A few rides here, and thousands more with `ROAMQ_RIDES=1000 pytest tests/sim/test_scheme_changes.py`.
"""

import os
from typing import Any

import pytest

from roamq.config import Source
from roamq.core.errors import ConfigError
from roamq.schemes.by_class import ByClass
from roamq.sim.scenario import Simulation, checked
from tests.support import street_rides
from tests.support.rough_rides import LOSSLESS, findings, ride

RIDES = int(os.environ.get("ROAMQ_RIDES", "12"))


@pytest.mark.parametrize("overlay", [None, "interest"])
@pytest.mark.parametrize("number", range(RIDES))
def test_a_ride_on_which_schemes_change(number: int, overlay: str | None) -> None:
    result = ride(LOSSLESS[number % len(LOSSLESS)], number, changes=True, overlay=overlay)

    assert result.checkers.delivered_count > 0
    assert findings(result) == {}, f"ride({LOSSLESS[number % len(LOSSLESS)]!r}, {number}, changes=True)"


@pytest.mark.parametrize("number", range(RIDES))
def test_a_ride_through_a_city_on_which_schemes_change(number: int) -> None:
    result = street_rides.ride(number, changes=True)

    assert result.checkers.delivered_count > 0
    assert findings(result) == {}, f"street_rides.ride({number}, changes=True)"


def scenario(**more: Any) -> dict[str, Any]:
    return {
        "scheme": {"name": "standard"},
        "clients": 6,
        "duration_s": 40.0,
        "network": {"brokers": ["b1", "b2", "b3"], "links": [["b1", "b2"], ["b2", "b3"]]},
        "mobility": {"model": "uniform", "connect_s": [0.5, 3.0], "disconnect_s": [0.1, 1.0]},
        "workload": {"model": "groups", "publishers_count": 2, "rate": 5.0, "topics": 2, "share": 0.5},
        **more,
    }


CLASSES = [
    {"name": "even", "clients": "c[024]", "scheme": {"name": "proactive", "neighbor_limit": 2}},
    {"name": "odd", "clients": "c[13]", "scheme": {"name": "proactive"}},
]


def test_each_client_is_under_the_scheme_of_its_class() -> None:
    simulation = Simulation(checked(scenario(classes=CLASSES), Source("test")), 3)
    result = simulation.run()

    assert result.violations == []
    assert result.checkers.delivered_count > 0
    for host in simulation.network.hosts.values():
        scheme = host.broker.scheme
        assert isinstance(scheme, ByClass)
        for context in host.broker.contexts.values():
            number = int(context.client[1:])
            wanted = "standard" if number == 5 else f"proactive/{'odd' if number % 2 else 'even'}"
            assert context.under == wanted
    limits = [
        simulation.network.hosts["b2"].broker.scheme.schemes[f"proactive/{name}"].options.neighbor_limit  # type: ignore[attr-defined,index]
        for name in ("even", "odd")
    ]
    assert limits == [2, None]


def test_after_a_change_every_context_is_under_the_new_scheme_and_old_copies_are_gone() -> None:
    changes = [{"at_s": 20.0, "scheme": {"name": "standard"}}]
    simulation = Simulation(
        checked(scenario(scheme={"name": "proactive"}, scheme_changes=changes), Source("test")), 5
    )
    copies: list[int] = []

    def count() -> None:
        held = [host.broker.scheme.held() for host in simulation.network.hosts.values()]
        copies.append(sum(map(len, held)))

    simulation.engine.at(19.9, count)
    simulation.engine.at(150.0, count)
    result = simulation.run()

    assert result.violations == []
    contexts = [c for host in simulation.network.hosts.values() for c in host.broker.contexts.values()]
    assert {context.under for context in contexts} == {"standard"}
    assert copies[0] > 6
    assert copies[1] == 6


def test_a_network_without_classes_has_one_scheme_and_no_detour() -> None:
    simulation = Simulation(checked(scenario(), Source("test")), 1)
    for host in simulation.network.hosts.values():
        broker = host.broker
        assert not isinstance(broker.scheme, ByClass)
        assert broker._on_event == broker.scheme.on_event


@pytest.mark.parametrize(
    ("more", "why"),
    [
        (
            {"classes": [{"name": "a", "clients": "c1", "scheme": {"name": "home-broker"}}]},
            "keeps a context at home",
        ),
        (
            {"classes": [{"name": "a", "clients": "c1", "scheme": {"name": "durable"}}]},
            "every broker that a client",
        ),
        (
            {"classes": [{"name": "a", "clients": "c1", "scheme": {"name": "logging+on-device"}}]},
            "bring their subscriptions along",
        ),
        ({"scheme_changes": [{"at_s": 1.0, "scheme": {"name": "reactive"}}]}, "loses and doubles messages"),
        (
            {"scheme_changes": [{"at_s": 1.0, "scheme": {"name": "proactive", "fallback": "reactive"}}]},
            "does not guarantee that nothing is lost",
        ),
        (
            {"scheme_changes": [{"at_s": 1.0, "scheme": {"name": "standard"}, "client_class": "x"}]},
            "no class 'x'",
        ),
        (
            {"scheme_changes": [{"at_s": 1.0, "scheme": {"name": "standard"}, "brokers": ["b9"]}]},
            "no broker 'b9'",
        ),
    ],
)
def test_what_cannot_be_is_refused_by_name(more: dict[str, Any], why: str) -> None:
    with pytest.raises(ConfigError, match=why):
        checked(scenario(**more), Source("test"))
