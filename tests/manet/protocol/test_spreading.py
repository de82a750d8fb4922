"""Multi-copy-multi-destination, and its epidemic twin ([DRIP] sections V-B2 and VI-A)."""

from roamq.core.events import BrokerId, EventId
from roamq.manet.protocol.epidemic import Epidemic
from roamq.manet.protocol.messages import Role
from roamq.manet.protocol.spreading import MultiCopyMultiDestination

E = EventId(BrokerId("n9"), 1)
F = EventId(BrokerId("n9"), 2)


def test_the_source_spreads_to_the_first_m_brokers_it_meets() -> None:
    """[DRIP] section V-B2: "the source broker node spreads the requested events to its m nearby broker nodes"."""
    source = MultiCopyMultiDestination(m=2)
    source.published(E, {7, 8})

    for peer in (1, 2):
        assert source.offers(peer) == [(E, Role.CARRIER)]
        source.given(E, peer, copied=True)

    assert not source.has_work(3)
    assert source.offers(3) == []


def test_a_broker_gets_its_copy_once() -> None:
    source = MultiCopyMultiDestination(m=2)
    source.published(E, {7, 8})
    source.given(E, 1, copied=True)

    assert not source.has_work(1)


def test_a_broker_that_has_the_event_already_costs_no_copy() -> None:
    source = MultiCopyMultiDestination(m=1)
    source.published(E, {7, 8})

    source.given(E, 7, copied=False)

    assert source.offers(1) == [(E, Role.CARRIER)]
    assert source.destinations(E) == {8}


def test_carriers_look_for_the_destinations_and_for_nobody_else() -> None:
    """[DRIP] section V-B2: these m brokers "contact all of the interested broker nodes ... and transfer the events"."""
    carrier = MultiCopyMultiDestination(m=2)
    carrier.accepted(E, Role.CARRIER, {7, 8})

    assert not carrier.has_work(1)
    assert carrier.offers(7) == [(E, Role.DESTINATION)]
    carrier.given(E, 7, copied=True)
    assert not carrier.has_work(7)
    assert carrier.destinations(E) == {8}


def test_a_destination_spreads_no_further() -> None:
    destination = MultiCopyMultiDestination(m=2)
    destination.accepted(E, Role.DESTINATION, {8})

    assert not destination.has_work(8)
    assert not destination.unfinished(E)


def test_no_more_copies_once_every_destination_was_found() -> None:
    source = MultiCopyMultiDestination(m=2)
    source.published(E, {7})

    source.given(E, 7, copied=True)

    assert not source.has_work(1)
    assert not source.unfinished(E)


def test_an_event_nobody_elsewhere_wants_stays_where_it_is() -> None:
    """[DRIP] section V-B2: brokers "only send the matched events to other interested broker nodes"."""
    source = MultiCopyMultiDestination(m=2)
    source.published(E, set())

    assert not source.has_work(1)


def test_a_destination_met_early_takes_one_of_the_m_copies() -> None:
    source = MultiCopyMultiDestination(m=1)
    source.published(E, {7, 8})
    assert source.offers(7) == [(E, Role.CARRIER)]

    source.given(E, 7, copied=True)

    assert not source.has_work(1)
    assert source.offers(8) == [(E, Role.DESTINATION)]


def test_a_deleted_event_is_offered_no_more() -> None:
    source = MultiCopyMultiDestination(m=1)
    source.published(E, {7})
    source.published(F, {7})

    source.discard(E)

    assert source.offers(7) == [(F, Role.CARRIER)]


def test_epidemic_gives_everything_to_everybody_once() -> None:
    """[DRIP] section VI-A: SF "delivers events among broker nodes in an epidemic way"."""
    broker = Epidemic()
    broker.published(E, ())
    broker.accepted(F, Role.EPIDEMIC, ())

    for peer in (1, 2, 3):
        assert broker.offers(peer) == [(E, Role.EPIDEMIC), (F, Role.EPIDEMIC)]
        broker.given(E, peer, copied=True)
        broker.given(F, peer, copied=True)
        assert not broker.has_work(peer)


def test_epidemic_offers_what_came_after_the_last_contact() -> None:
    broker = Epidemic()
    broker.published(E, ())
    broker.given(E, 1, copied=True)
    broker.published(F, ())
    broker.discard(E)

    assert broker.offers(1) == [(F, Role.EPIDEMIC)]
    assert broker.offers(2) == [(F, Role.EPIDEMIC)]
