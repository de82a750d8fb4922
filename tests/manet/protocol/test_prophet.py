"""PRoPHET: how predictabilities grow, age and pass on (RFC 6693, section 2.1.2), and whom events are given to."""

import pytest

from roamq.core.errors import ConfigError
from roamq.core.events import BrokerId, EventId
from roamq.manet.protocol.messages import Role
from roamq.manet.protocol.predictability import Predictabilities, ProphetConstants
from roamq.manet.protocol.prophet import Prophet

ME, PEER, FAR, OTHER = 0, 1, 7, 8
E = EventId(BrokerId("n9"), 1)
F = EventId(BrokerId("n9"), 2)
STILL = ProphetConstants(gamma=1.0)
"""Nothing ages."""


def test_the_first_encounter_gives_half() -> None:
    known = Predictabilities(STILL)

    known.met(PEER, {}, ME, 10.0)

    assert known.of(PEER) == 0.5
    assert known.of(FAR) == 0.0


def test_an_encounter_adds_in_proportion_to_the_time_since_the_last_one() -> None:
    """Eq. 1: P + (1 - delta - P) P_encounter, where P_encounter grows to 0.7 within the typical interval of 20 s."""
    soon, late, later = Predictabilities(STILL), Predictabilities(STILL), Predictabilities(STILL)
    for known, after_s in ((soon, 5.0), (late, 20.0), (later, 200.0)):
        known.met(PEER, {}, ME, 10.0)
        known.met(PEER, {}, ME, 10.0 + after_s)

    assert soon.of(PEER) == pytest.approx(0.5 + 0.49 * 0.7 / 4)
    assert late.of(PEER) == later.of(PEER) == pytest.approx(0.5 + 0.49 * 0.7)


def test_no_predictability_exceeds_its_bound() -> None:
    known = Predictabilities(STILL)
    for time in range(0, 1000, 20):
        known.met(PEER, {}, ME, float(time))

    assert known.of(PEER) == pytest.approx(0.99)


def test_predictabilities_age_and_are_forgotten_below_the_threshold() -> None:
    """Eq. 2: P gamma^K. 0.999 in 50 ms is 0.98 in a second; after 80 s, 0.5 has become less than 0.1."""
    known = Predictabilities(ProphetConstants())
    known.met(PEER, {}, ME, 10.0)

    assert known.told(20.0) == {PEER: pytest.approx(0.5 * 0.98**10, rel=0.01)}
    assert known.told(90.0) == {PEER: pytest.approx(0.101, abs=0.001)}
    assert known.told(92.0) == {}
    known.met(PEER, {}, ME, 100.0)
    assert known.of(PEER) == 0.5, "a first encounter again"


def test_what_a_peer_reaches_is_reached_through_it() -> None:
    """Eq. 3: the larger of the old value and P(A, B) P(B, C) beta; a broker itself is no destination."""
    known = Predictabilities(STILL)
    known.met(FAR, {}, ME, 5.0)
    known.met(PEER, {FAR: 0.8, OTHER: 0.8, ME: 0.9, PEER: 0.2}, ME, 10.0)

    assert known.of(OTHER) == pytest.approx(0.5 * 0.8 * 0.9)
    assert known.of(FAR) == 0.5, "what was known is larger"
    assert known.of(ME) == 0.0
    assert known.of(PEER) == 0.5


def test_an_exchange_is_due_again_after_a_while() -> None:
    known = Predictabilities(ProphetConstants(exchange_s=4.0))
    assert known.exchange_due(PEER, 10.0)
    known.met(PEER, {}, ME, 10.0)

    assert not known.exchange_due(PEER, 13.9)
    assert known.exchange_due(PEER, 14.0)


def test_a_peer_that_is_better_for_a_destination_becomes_a_carrier_and_the_broker_keeps_its_copy() -> None:
    broker = Prophet(STILL)
    broker.published(E, {FAR})
    assert not broker.has_work(PEER), "nothing is known of the peer"

    broker.met(PEER, {FAR: 0.3}, ME, 10.0)
    assert broker.offers(PEER) == [(E, Role.CARRIER)]
    broker.given(E, PEER, copied=True)

    assert not broker.has_work(PEER)
    assert broker.unfinished(E)
    assert broker.destinations(E) == {FAR}


def test_a_peer_that_is_not_better_gets_nothing() -> None:
    broker = Prophet(STILL)
    broker.met(FAR, {}, ME, 5.0)
    broker.published(E, {FAR})

    broker.met(PEER, {FAR: 0.5, ME: 0.9}, ME, 10.0)

    assert not broker.has_work(PEER)
    assert broker.offers(PEER) == []


def test_a_destination_gets_the_event_and_ends_the_search() -> None:
    broker = Prophet(STILL)
    broker.accepted(E, Role.CARRIER, {FAR})
    assert broker.offers(FAR) == [(E, Role.DESTINATION)]

    broker.given(E, FAR, copied=True)

    assert not broker.unfinished(E)
    assert not broker.has_work(FAR)


def test_a_destination_that_is_better_for_another_carries_the_event_on() -> None:
    broker = Prophet(STILL)
    broker.published(E, {FAR, OTHER})
    broker.met(FAR, {OTHER: 0.4}, ME, 10.0)

    assert broker.offers(FAR) == [(E, Role.CARRIER)]
    broker.given(E, FAR, copied=True)
    assert broker.destinations(E) == {OTHER}


def test_what_is_deleted_or_wanted_nowhere_is_offered_to_nobody() -> None:
    broker = Prophet(STILL)
    broker.published(E, {FAR})
    broker.published(F, ())
    broker.accepted(F, Role.DESTINATION, {FAR})

    broker.discard(E)

    assert not broker.has_work(FAR)
    assert not broker.unfinished(F)


@pytest.mark.parametrize(
    ("constants", "names"), [({"gamma": 1.5}, "gamma must be from 0 to 1"), ({"unit_s": 0.0}, "unit_s")]
)
def test_constants_out_of_range_are_refused(constants: dict[str, float], names: str) -> None:
    with pytest.raises(ConfigError, match=names):
        ProphetConstants(**constants)
