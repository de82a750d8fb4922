"""The eight cases of [PRO] section 4.1, one step each, all effects compared."""

from typing import Any

from roamq.core.context import Epoch, Mode, Ticket
from roamq.core.events import BrokerId, ClientId
from roamq.core.filters import Filter
from roamq.core.messages import Message
from roamq.schemes.messages.copies import (
    Activate,
    Activated,
    CopiesLeft,
    CopyRequest,
    Deactivate,
    Delete,
    Forwarded,
    MovedHere,
    PassiveCopy,
)
from roamq.schemes.messages.handover import ContextRequest, Subscriptions
from roamq.schemes.messages.neighbors import NeighborList
from roamq.schemes.proactive_options import ProActiveOptions
from tests.support.events import event
from tests.support.recording_host import RecordingHost, RecordingRouter, scheme_at

ME, NEIGHBOR, OTHER = BrokerId("b1"), BrokerId("b2"), BrokerId("b3")
S = ClientId("s")
SUB = Filter.parse("t")
EDGES: tuple[tuple[str, str, float, float], ...] = (("b1", "b2", 1, 0), ("b1", "b3", 1, 0))
FIRST = Epoch(0.0, ME)


class Bench:
    """One broker, its effects and its sent messages."""

    def __init__(self, me: BrokerId = ME, edges: Any = EDGES, **options: Any) -> None:
        self.host = RecordingHost()
        self.router = RecordingRouter(me, self.host)
        self.scheme = scheme_at(
            me, self.host, self.router, "proactive", ProActiveOptions(warm_start=edges, **options)
        )

    def sent(self) -> list[tuple[BrokerId, Message]]:
        return [(effect[1], effect[2]) for effect in self.host.take() if effect[0] == "unicast"]

    def delivered(self) -> list[int]:
        return [effect[2].sequence for effect in self.host.take() if effect[0] == "deliver"]

    def serving(self) -> "Bench":
        """S has connected and subscribed here."""
        self.scheme.on_connect(S, None)
        self.scheme.on_subscribe(S, SUB)
        self.host.take()
        return self

    def away(self) -> "Bench":
        self.serving()
        self.scheme.on_disconnect(S, "vanished")
        self.host.take()
        return self

    def holding(self, epoch: Epoch) -> "Bench":
        """A passive copy of S is here."""
        self.scheme.mailbox.receive(epoch.broker, PassiveCopy(client=S, epoch=epoch, filters=(SUB,)))
        self.host.take()
        return self

    def activated(self, epoch: Epoch) -> "Bench":
        self.holding(epoch)
        self.scheme.mailbox.receive(epoch.broker, activate(epoch))
        self.host.take()
        return self


def activate(epoch: Epoch, **position: int) -> Activate:
    bench = Bench().serving()
    from roamq.core.filters import digest_of

    digest = digest_of(bench.scheme.contexts[S].filters)
    return Activate(
        client=S, epoch=epoch, digest=digest, position={BrokerId(b): n for b, n in position.items()}
    )


def test_case_1_a_passive_copy_goes_to_each_neighbor() -> None:
    """ "Bj sends a passive copy of Sub(S) to each broker Bi in Neighbor(Bj)"."""
    bench = Bench()
    bench.scheme.on_connect(S, None)
    bench.host.take()

    bench.scheme.on_subscribe(S, SUB)

    copy = PassiveCopy(client=S, epoch=FIRST, filters=(SUB,))
    assert bench.host.take() == [
        ("subscribe", SUB),
        ("unicast", NEIGHBOR, copy),
        ("unicast", OTHER, copy),
    ]


def test_case_2_activate_requests_carry_what_was_read_last() -> None:
    """ "The ID of the latest message consumed by S [...] is enclosed with the activation request"."""
    bench = Bench().serving()
    bench.scheme.on_event(event(1))
    bench.scheme.on_event(event(2))
    bench.scheme.on_acknowledge(S, event(1).id)
    bench.host.take()

    bench.scheme.on_disconnect(S, "vanished")

    sent = bench.sent()
    assert [(to, type(message)) for to, message in sent] == [
        (NEIGHBOR, Activate),
        (NEIGHBOR, Forwarded),
        (OTHER, Activate),
        (OTHER, Forwarded),
    ]
    request, forwarded = sent[0][1], sent[1][1]
    assert isinstance(request, Activate)
    assert request.position == {BrokerId("o"): 1}
    assert isinstance(forwarded, Forwarded)
    assert [e.id.sequence for e in forwarded.events] == [2], "delivered and not read"


def test_case_2_messages_are_forwarded_until_the_activation_is_acknowledged() -> None:
    """ "Bj forwards Msgs(S) to its neighbors Bi until the activation request is acknowledged"."""
    bench = Bench(edges=EDGES[:1]).away()
    first, second, third = event(1), event(2), event(3)
    bench.router.seen[BrokerId("o")] = 1
    bench.scheme.on_event(first)
    assert bench.sent() == [(NEIGHBOR, Forwarded(client=S, epoch=FIRST, events=(first,)))]

    fence = {BrokerId("o"): 2}  # the neighbor has seen the second event already, without storing it
    bench.scheme.mailbox.receive(NEIGHBOR, Activated(client=S, epoch=FIRST, fence=fence))
    assert bench.sent() == []

    bench.router.seen[BrokerId("o")] = 2
    bench.scheme.on_event(second)
    assert bench.sent() == [
        (NEIGHBOR, Forwarded(client=S, epoch=FIRST, events=(second,))),
        (NEIGHBOR, Forwarded(client=S, epoch=FIRST, events=(), last=True)),
    ]

    bench.router.seen[BrokerId("o")] = 3
    bench.scheme.on_event(third)
    assert bench.sent() == [], "the neighbor stores it itself"


def test_case_2_at_the_neighbor_only_higher_ids_are_stored_in_order() -> None:
    epoch = Epoch(1.0, NEIGHBOR)
    bench = Bench().holding(epoch)

    bench.scheme.mailbox.receive(NEIGHBOR, activate(epoch, o=3))
    answer = bench.sent()
    bench.scheme.on_event(event(3))
    bench.scheme.on_event(event(6))
    forwarded = (event(4), event(5), event(6))
    bench.scheme.mailbox.receive(NEIGHBOR, Forwarded(client=S, epoch=epoch, events=forwarded, last=True))
    bench.scheme.on_event(event(7))

    assert answer == [(NEIGHBOR, Activated(client=S, epoch=epoch, fence={}))]
    assert [held.event.id.sequence for held in bench.scheme.copies[S].stored] == [4, 5, 6, 7]


def test_case_3_coming_back_deactivates_the_neighbors_and_replays() -> None:
    bench = Bench().away()
    bench.scheme.on_event(event(1))
    bench.host.time = 5.0
    bench.host.take()

    bench.scheme.on_connect(S, ME)

    now = Epoch(5.0, ME)
    effects = bench.host.take()
    assert effects == [
        ("unicast", NEIGHBOR, Deactivate(client=S, epoch=FIRST, successor=now)),
        ("unicast", OTHER, Deactivate(client=S, epoch=FIRST, successor=now)),
        ("ready", S),
        ("deliver", S, event(1).id, "stored"),
    ]


def test_case_4_copies_at_common_neighbors_are_deactivated_and_others_deleted() -> None:
    """ "Throughout these lists, broker Bj can decide which Sub(S) should be deleted and which [...] deactivated"."""
    fourth = BrokerId("b4")
    bench = Bench(edges=(*EDGES, ("b1", "b4", 1, 0))).away()
    for holder in (NEIGHBOR, OTHER, fourth):
        bench.scheme.mailbox.receive(holder, Activated(client=S, epoch=FIRST, fence={}))
    bench.scheme.mailbox.receive(NEIGHBOR, NeighborList(neighbors=(ME, OTHER)))
    bench.host.take()

    moved = Epoch(9.0, NEIGHBOR)
    bench.scheme.mailbox.receive(NEIGHBOR, MovedHere(client=S, epoch=moved, taken=FIRST))

    assert bench.sent() == [
        (OTHER, Deactivate(client=S, epoch=FIRST, successor=moved)),
        (fourth, Delete(client=S, epoch=FIRST)),
        (NEIGHBOR, CopiesLeft(client=S, epoch=moved, at=(OTHER, ME))),
    ]
    assert S not in bench.scheme.contexts
    assert (bench.scheme.copies[S].mode, bench.scheme.copies[S].epoch) == (Mode.PASSIVE, moved)


def test_case_4_a_copy_that_may_be_on_its_way_is_deleted_by_who_sent_it() -> None:
    bench = Bench().away()
    bench.scheme.mailbox.receive(NEIGHBOR, Activated(client=S, epoch=FIRST, fence={}))
    bench.scheme.mailbox.receive(NEIGHBOR, NeighborList(neighbors=(ME, OTHER)))
    bench.host.take()

    moved = Epoch(9.0, NEIGHBOR)
    bench.scheme.mailbox.receive(NEIGHBOR, MovedHere(client=S, epoch=moved, taken=FIRST))

    assert (OTHER, Delete(client=S, epoch=FIRST)) in bench.sent()


def test_case_5_without_a_copy_the_context_is_requested() -> None:
    """ "If it is not found in the buffer, Bj requests Context(S) from Bk"."""
    bench = Bench()

    bench.scheme.on_connect(S, NEIGHBOR)

    assert bench.sent() == [(NEIGHBOR, ContextRequest(client=S, epoch=FIRST, new_broker=ME))]


def test_case_5_with_the_right_copy_messages_are_delivered_at_once() -> None:
    epoch = Epoch(1.0, NEIGHBOR)
    bench = Bench().activated(epoch)
    bench.scheme.mailbox.receive(NEIGHBOR, Forwarded(client=S, epoch=epoch, events=(event(1),), last=True))
    bench.host.time = 2.0
    bench.host.take()

    bench.scheme.on_connect(S, NEIGHBOR, ticket=Ticket(NEIGHBOR, epoch))

    assert bench.host.take() == [
        ("ready", S),
        ("deliver", S, event(1).id, "transferred"),
        ("unicast", NEIGHBOR, MovedHere(client=S, epoch=Epoch(2.0, ME), taken=epoch)),
    ]


def test_case_5_the_copies_that_were_not_left_are_sent() -> None:
    epoch = Epoch(1.0, NEIGHBOR)
    bench = Bench().activated(epoch)
    bench.scheme.mailbox.receive(NEIGHBOR, Forwarded(client=S, epoch=epoch, events=(), last=True))
    bench.host.time = 2.0
    bench.scheme.on_connect(S, NEIGHBOR, ticket=Ticket(NEIGHBOR, epoch))
    bench.host.take()

    bench.scheme.mailbox.receive(NEIGHBOR, CopiesLeft(client=S, epoch=Epoch(2.0, ME), at=(NEIGHBOR,)))

    assert bench.sent() == [(OTHER, PassiveCopy(client=S, epoch=Epoch(2.0, ME), filters=(SUB,)))]


def test_case_6_leaving_for_good_deletes_everywhere() -> None:
    bench = Bench().serving()

    bench.scheme.on_leave(S)

    delete = Delete(client=S, epoch=FIRST, for_good=True)
    assert bench.sent() == [(NEIGHBOR, delete), (OTHER, delete)]
    assert bench.scheme.held() == []


def test_case_7_a_copy_is_stored_and_takes_no_part_in_matching() -> None:
    bench = Bench().holding(Epoch(1.0, NEIGHBOR))

    bench.scheme.on_event(event(1))

    assert bench.scheme.copies[S].mode is Mode.PASSIVE
    assert not bench.scheme.copies[S].stored


def test_case_8_a_client_that_stays_away_is_given_up() -> None:
    bench = Bench(timeout_s=60.0).away()
    bench.scheme.on_event(event(1))
    bench.host.take()

    bench.scheme.on_timer(("timeout", S))

    delete = Delete(client=S, epoch=FIRST)
    assert bench.sent() == [(NEIGHBOR, delete), (OTHER, delete)]
    assert bench.scheme.held() == []
    assert [(r.sequence, r.detail) for r in bench.host.records if r.kind == "dropped"] == [(1, "timeout")]


def test_an_activate_request_without_a_copy_asks_for_one() -> None:
    bench = Bench()
    epoch = Epoch(1.0, NEIGHBOR)

    bench.scheme.mailbox.receive(NEIGHBOR, activate(epoch))

    assert bench.sent() == [(NEIGHBOR, CopyRequest(client=S, epoch=epoch))]


def test_an_outdated_copy_counts_as_none() -> None:
    epoch = Epoch(1.0, NEIGHBOR)
    bench = Bench()
    old = PassiveCopy(client=S, epoch=epoch, filters=(Filter.parse("old"),))
    bench.scheme.mailbox.receive(NEIGHBOR, old)
    bench.host.take()

    bench.scheme.mailbox.receive(NEIGHBOR, activate(epoch))

    assert bench.sent() == [(NEIGHBOR, CopyRequest(client=S, epoch=epoch))]


def test_the_request_for_a_copy_is_answered_with_the_context_and_another_activation() -> None:
    bench = Bench(edges=EDGES[:1]).away()

    bench.scheme.mailbox.receive(NEIGHBOR, CopyRequest(client=S, epoch=FIRST))

    assert [type(message) for _, message in bench.sent()] == [PassiveCopy, Activate]


def test_a_change_of_subscriptions_reaches_the_copies() -> None:
    """Section 3: subscribers "are free to change them when connected to a broker"."""
    bench = Bench(edges=EDGES[:1]).serving()
    more = Filter.parse("u")

    bench.scheme.on_subscribe(S, more)

    assert bench.sent() == [(NEIGHBOR, PassiveCopy(client=S, epoch=FIRST, filters=(SUB, more)))]


def test_a_new_edge_is_announced_to_all_neighbors() -> None:
    """ "Neighbor brokers typically exchange neighbor information whenever an edge is added"."""
    bench = Bench(edges=EDGES[:1])

    bench.scheme.on_connect(S, OTHER)

    announced = NeighborList(neighbors=(NEIGHBOR, OTHER))
    assert bench.sent()[:2] == [(NEIGHBOR, announced), (OTHER, announced)]


# --- a neighbor that is cut off (docs/decisions/0180) ------------------------------------------------------------


def test_no_copy_goes_to_a_neighbor_that_is_cut_off() -> None:
    bench = Bench()
    bench.host.cut_off = {NEIGHBOR}
    bench.scheme.on_connect(S, None)
    bench.scheme.on_subscribe(S, SUB)
    bench.scheme.on_disconnect(S, "vanished")

    assert {to for to, message in bench.sent() if isinstance(message, PassiveCopy | Activate)} == {OTHER}


def test_a_copy_that_misses_an_event_is_given_up_and_the_whole_context_is_handed_over() -> None:
    bench = Bench().away()
    bench.host.cut_off = {NEIGHBOR}
    bench.scheme.on_event(event(1))
    sent = bench.sent()
    assert (NEIGHBOR, Delete(client=S, epoch=FIRST)) in sent
    assert [to for to, message in sent if isinstance(message, Forwarded)] == [OTHER]
    bench.scheme.on_event(event(2))
    assert [to for to, _ in bench.sent()] == [OTHER]
    bench.host.cut_off = set()
    bench.scheme.mailbox.receive(
        NEIGHBOR, Activated(client=S, epoch=FIRST, fence={})
    )  # it had been activated before
    assert not [message for to, message in bench.sent() if to == NEIGHBOR]

    moved = Epoch(5.0, NEIGHBOR)
    bench.scheme.mailbox.receive(NEIGHBOR, MovedHere(client=S, epoch=moved, taken=FIRST))

    kinds = [message.__class__ for to, message in bench.sent() if to == NEIGHBOR]
    assert Subscriptions in kinds, "it is handed over as if it had been requested"
    assert Forwarded not in kinds
