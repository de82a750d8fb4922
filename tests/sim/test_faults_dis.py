"""Nothing is lost, repeated, reordered or left behind, whatever clients, links and brokers do.

Rides are short random runs full of races and faults (tests/support/rough_rides.py). `make test` runs a few hundred;
thousands more with `ROAMQ_RIDES=1000 pytest tests/sim/test_faults_dis.py`, that many for each of the variants below.
"""

import os
from typing import Any

import pytest

from roamq.core.context import Context
from roamq.overlay.flooding import Flooding
from roamq.schemes.home_broker import HomeBroker
from roamq.schemes.logging import Logging
from roamq.schemes.parts import handover
from roamq.schemes.parts.whereabouts import Whereabouts
from roamq.schemes.prefetching import Prefetching
from tests.support.rough_rides import findings, ride

RIDES = int(os.environ.get("ROAMQ_RIDES", "25"))

VARIANTS: list[tuple[str, dict[str, Any]]] = [
    ("standard", {}),
    ("logging", {}),
    ("logging", {"log_size": 5}),
    ("logging", {"log_transferred": True}),
    ("prefetching", {}),
    ("prefetching", {"prediction": "wrong"}),
    ("prefetching", {"prediction": "learned", "targets": 3}),
    ("prefetching", {"prediction": "wrong", "targets": 2}),
    ("home-broker", {}),
    ("home-broker", {"report_every": 2}),
    ("standard+on-device", {}),
    ("logging+on-device", {}),
    ("prefetching+on-device", {"prediction": "wrong", "targets": 2}),
]


@pytest.mark.slow
@pytest.mark.parametrize(("scheme", "options"), VARIANTS)
def test_no_ride_loses_or_repeats_anything(scheme: str, options: dict[str, Any]) -> None:
    for number in range(RIDES):
        result = ride(scheme, number, **options)
        assert result.checkers.expected_count > 0, f"ride {number} expects nothing and shows nothing"
        assert findings(result) == {}, f"replay: ride({scheme!r}, {number}, **{options})"


# Each mechanism that the schemes rest on, taken out: some ride notices. Without this, rides might prove nothing.


def _never_fenced(self: Flooding, fence: object) -> bool:
    return True


def _no_local_queue(context: Context) -> None:
    """What comes while older events are on their way is delivered at once."""


def _newest_of_any_epoch(self: Whereabouts, claim: Any) -> Context | None:
    """Whatever is here belongs to whoever asks."""
    return self.contexts.get(claim.client)


_on_connect = Prefetching.on_connect


def _any_copy(self: Prefetching, client: Any, old: Any, carried: Any = (), ticket: Any = None) -> None:
    """A prefetched context is served to the client of any visit."""
    ticket = next((_ticket(key) for key in self.prefetched if key[0] == client), None)
    _on_connect(self, client, old, carried, ticket)


def _ticket(key: Any) -> Any:
    from roamq.core.context import Ticket

    return Ticket(key[1].broker, key[1])


def _no_discards(self: Prefetching, sender: object, message: object) -> None:
    """Copies elsewhere are kept."""


def _everything_spared(self: Logging, new_broker: Any, reply: Any) -> None:
    """What is not in the other's log is not sent either."""
    key = (reply.client, reply.epoch, reply.new_broker)
    context = self.handover.leaving[reply.client][reply.epoch, reply.new_broker].context
    self.spared[key] = frozenset(event.id for event in context.events())


def _forwards_without_recall(self: HomeBroker, resident: Any, broker: Any, epoch: Any) -> None:
    """The next place gets what the last one has not reported on."""
    self.settle(resident, broker, epoch)


MUTATIONS: list[tuple[str, dict[str, Any], object, str, Any]] = [
    ("standard", {}, Flooding, "passed", _never_fenced),
    ("standard", {}, handover, "open_local_queue", _no_local_queue),
    ("standard", {}, Whereabouts, "claimed_by", _newest_of_any_epoch),
    ("prefetching", {"prediction": "wrong", "targets": 2}, Prefetching, "on_connect", _any_copy),
    ("prefetching", {"prediction": "wrong", "targets": 2}, Prefetching, "on_discard", _no_discards),
    ("logging", {}, Logging, "on_logged_ids", _everything_spared),
    ("home-broker", {}, HomeBroker, "located", _forwards_without_recall),
]


@pytest.mark.slow
@pytest.mark.parametrize(("scheme", "options", "owner", "name", "instead"), MUTATIONS)
def test_rides_notice_a_missing_mechanism(
    monkeypatch: pytest.MonkeyPatch,
    scheme: str,
    options: dict[str, Any],
    owner: object,
    name: str,
    instead: Any,
) -> None:
    monkeypatch.setattr(owner, name, instead)

    assert any(_goes_wrong(scheme, number, options) for number in range(150))


def _goes_wrong(scheme: str, number: int, options: dict[str, Any]) -> bool:
    try:
        return bool(findings(ride(scheme, number, **options)))
    except (AssertionError, KeyError):  # an invariant that the code itself asserts
        return True
