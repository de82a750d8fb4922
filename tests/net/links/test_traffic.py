"""What a broker puts on its links is counted by kind, as the simulator counts it."""

from roamq.core.context import Epoch
from roamq.core.events import BrokerId, ClientId, Event, EventId
from roamq.core.messages import Routed
from roamq.net.links.traffic import KindTraffic, LinkTraffic
from roamq.schemes.messages.handover import StoredEvents

B1, B2, B3 = (BrokerId(f"b{n}") for n in (1, 2, 3))
EVENTS = tuple(Event(id=EventId(B1, n), topic="t", payload=b"12345") for n in (1, 2, 3))


def test_an_event_counts_at_every_broker_and_a_message_where_it_begins() -> None:
    traffic = LinkTraffic(B1)
    traffic.count(EVENTS[0], 50)
    begins, passes = (Routed(to=B3, sender=sender, message=_stored()) for sender in (B1, B2))
    traffic.count(begins, 200)
    traffic.count(passes, 210)
    assert traffic.by_kind() == {
        "event": KindTraffic(begun=1, passed_on=0, bytes=50),
        "stored_event": KindTraffic(begun=3, passed_on=3, bytes=410),
    }


def test_a_process_counts_what_it_sent_itself() -> None:
    traffic = LinkTraffic(B1)
    traffic.count(EVENTS[0], 50)
    traffic.clear()
    assert traffic.by_kind() == {}


def _stored() -> StoredEvents:
    return StoredEvents(client=ClientId("c"), epoch=Epoch(1.0, B1), events=EVENTS, position={})
