"""Algorithms A1 and A2 of [PRE], sentence by sentence, with a server whose effects are written down."""

from typing import Any

from roamq.core.context import Epoch, Mode, Ticket
from roamq.core.events import BrokerId, ClientId
from roamq.core.filters import Filter, digest_of
from roamq.core.messages import Message
from roamq.geo.areas import LocationAreas
from roamq.geo.cells import Cell, Plane, cell_at
from roamq.geo.city import site_grid
from roamq.geo.region import Region
from roamq.schemes.messages.handover import ContextRequest
from roamq.schemes.messages.prehandoff import (
    CancelPreforward,
    EnablePrehandoff,
    Handed,
    Preforward,
    Preforwarded,
    PrehandoffRequest,
    Prestored,
    PreSubforward,
    Replaced,
)
from roamq.schemes.prehandoff_options import PreHandoffOptions
from tests.support.events import event
from tests.support.recording_host import RecordingHost, RecordingRouter, scheme_at

MH = ClientId("mh")
ES1, ES2, ES3 = (BrokerId(name) for name in ("b1", "b2", "b3"))
SITES = site_grid(1, 3, 2600.0)
REGION = Region(LocationAreas.voronoi(SITES, 9))
STOCKS, SPORT = Filter.parse("stocks/#"), Filter.parse("sport/#")


def cell_east_of(server: BrokerId, metres: float) -> Cell:
    return cell_at(Plane(SITES[server]).place(metres, 0.0), 9)


INTERIOR = cell_at(SITES[ES2], 9)
TOWARD_ES3 = next(c for c in REGION.areas.cells(ES2) if REGION.areas.beyond(c) == (ES3,))
TOWARD_ES1 = next(c for c in REGION.areas.cells(ES2) if REGION.areas.beyond(c) == (ES1,))


class Server:
    """One event server on a bench."""

    def __init__(self, me: BrokerId, **options: Any) -> None:
        self.host = RecordingHost()
        self.router = RecordingRouter(me, self.host)
        self.scheme = scheme_at(
            me, self.host, self.router, "prehandoff", PreHandoffOptions(**options), region=REGION
        )

    def sent(self) -> list[tuple[BrokerId, Message]]:
        """Messages to other servers since the last look."""
        return [(effect[1], effect[2]) for effect in self.host.take() if effect[0] == "unicast"]

    def delivered(self) -> list[int]:
        return [effect[2].sequence for effect in self.host.take() if effect[0] == "deliver"]


def serving(**options: Any) -> Server:
    """ES2 with MH in an interior cell, subscribed to stocks."""
    server = Server(ES2, **options)
    server.scheme.on_connect(MH, None)
    server.scheme.on_subscribe(MH, STOCKS)
    server.scheme.on_location(MH, INTERIOR)
    server.sent()
    return server


def prepared(server: Server) -> tuple[Epoch, int]:
    """MH went to the border with ES3, which has subscribed for it and been filled."""
    server.scheme.on_location(MH, TOWARD_ES3)
    [(_, request)] = server.sent()
    assert isinstance(request, PrehandoffRequest)
    about: dict[str, Any] = {"client": MH, "epoch": request.epoch, "attempt": request.attempt}
    server.scheme.mailbox.receive(ES3, EnablePrehandoff(**about))
    server.scheme.mailbox.receive(ES3, Preforwarded(**about, fence={}, changes=1))
    server.sent()
    return request.epoch, request.attempt


# --- A1, at the server where the client is ----------------------------------------------------------------------


def test_a_client_in_interior_cells_is_served_directly() -> None:
    """ "If a mobile consumer keeps moving in the interior cells of a LA, then the event server [...] will be able to
    directly deliver the related notifications to the consumer."""
    server = serving()
    server.scheme.on_event(event(1, topic="stocks/ibm"))
    assert server.delivered() == [1]
    server.scheme.on_location(MH, cell_east_of(ES2, 400.0))
    assert server.sent() == []


def test_a_border_cell_starts_pre_handoff_at_its_neighboring_servers() -> None:
    """ "E = BCT · cell_MHs · NES; for all ESe in E [...] send Pre_handoffRequest (ESi, MHs) to ESe"."""
    server = serving()
    server.scheme.on_location(MH, TOWARD_ES3)
    [(to, request)] = server.sent()
    assert to == ES3
    assert isinstance(request, PrehandoffRequest)


def test_preforward_follows_when_the_neighbor_has_enabled_it() -> None:
    """ "On receiving Enable_prehandoff (ESe, MHs) send Preforward (MHs, ESi, SSUBQ_MHs) to ESe"."""
    server = serving()
    server.scheme.on_location(MH, TOWARD_ES3)
    [(_, request)] = server.sent()
    assert isinstance(request, PrehandoffRequest)
    server.scheme.mailbox.receive(
        ES3, EnablePrehandoff(client=MH, epoch=request.epoch, attempt=request.attempt)
    )
    [(to, preforward)] = server.sent()
    assert to == ES3
    assert isinstance(preforward, Preforward)
    assert preforward.filters == (STOCKS,)


def test_a_second_border_cell_with_the_same_neighbor_asks_it_no_second_time() -> None:
    """ "if (MHs not in VC(ESie))"."""
    server = serving()
    prepared(server)
    beside = next(c for c in REGION.areas.cells(ES2) if REGION.areas.beyond(c) == (ES3,) and c != TOWARD_ES3)
    server.scheme.on_location(MH, beside)
    assert server.sent() == []


def test_subscriptions_made_since_are_forwarded() -> None:
    """ "ESi needs to send Pre_Subforward (MHs, ESi, S) to e whenever it receives Subscribe (S, MHs) from MHs"."""
    server = serving()
    prepared(server)
    server.scheme.on_subscribe(MH, SPORT)
    [(to, message)] = [pair for pair in server.sent() if isinstance(pair[1], PreSubforward)]
    assert isinstance(message, PreSubforward)
    assert (to, message.filter, message.wanted) == (ES3, SPORT, True)
    server.scheme.on_unsubscribe(MH, STOCKS)
    [(_, message)] = [pair for pair in server.sent() if isinstance(pair[1], PreSubforward)]
    assert isinstance(message, PreSubforward)
    assert (message.filter, message.wanted) == (STOCKS, False)


def test_leaving_the_border_cancels() -> None:
    """Case 1: "MHs moves from a border cell to a non-border cell within current LA"."""
    server = serving()
    prepared(server)
    server.scheme.on_location(MH, INTERIOR)
    [(to, cancel)] = server.sent()
    assert to == ES3
    assert isinstance(cancel, CancelPreforward)


def test_the_other_border_cancels_here_and_starts_there() -> None:
    server = serving()
    prepared(server)
    server.scheme.on_location(MH, TOWARD_ES1)
    assert [(to, type(message)) for to, message in server.sent()] == [
        (ES3, CancelPreforward),
        (ES1, PrehandoffRequest),
    ]


def test_with_hysteresis_a_virtual_consumer_is_kept_for_a_while() -> None:
    """Not in the paper: a client that moves along the border is not expected again and again."""
    server = serving(hysteresis_s=30.0)
    epoch, attempt = prepared(server)
    server.host.take()
    server.scheme.on_location(MH, INTERIOR)
    effects = server.host.take()
    assert [e for e in effects if e[0] == "unicast"] == []
    assert ("set_timer", ("lingering", MH), 30.0) in effects

    server.scheme.on_location(MH, TOWARD_ES3)
    assert server.sent() == [], "it is back, and still expected there"

    server.scheme.on_location(MH, INTERIOR)
    server.host.time += 30.0
    server.scheme.on_timer(("lingering", MH))
    assert server.sent() == [(ES3, CancelPreforward(client=MH, epoch=epoch, attempt=attempt))]
    assert server.scheme.behind_s == {}


def test_staying_longer_than_t_cancels_until_the_client_moves_again() -> None:
    """Case 2: "If a mobile host stays in a border cell greater than time T, the algorithm assumes that the mobile host
    is not moving (i.e., flag_mov(MHs) = 0)"."""
    server = serving(moving_s=60.0)
    server.scheme.on_location(MH, TOWARD_ES3)
    assert ("set_timer", ("moving", MH), 60.0) in server.host.take()
    server.scheme.on_timer(("moving", MH))
    [(to, cancel)] = server.sent()
    assert to == ES3
    assert isinstance(cancel, CancelPreforward)
    server.scheme.on_location(MH, TOWARD_ES1)
    [(to, request)] = server.sent()
    assert to == ES1
    assert isinstance(request, PrehandoffRequest)


def test_a_client_that_says_again_where_it_is_has_not_moved() -> None:
    """A phone that publishes its cell every minute stands still all the same: T runs from its last crossing."""
    server = serving(moving_s=60.0)
    server.scheme.on_location(MH, TOWARD_ES3)
    server.host.take()

    server.scheme.on_location(MH, TOWARD_ES3)
    assert ("set_timer", ("moving", MH), 60.0) not in server.host.take(), "the timer is not set anew"
    server.scheme.on_timer(("moving", MH))
    assert [type(message) for _, message in server.sent()] == [CancelPreforward]
    server.scheme.on_location(MH, TOWARD_ES3)
    assert server.sent() == [], "it still stands there"


def test_what_the_client_has_not_read_follows_when_the_fence_is_passed() -> None:
    """Ours: ES3 had seen an event of b9 that is still on its way here; it is sent when it has come."""
    server = serving()
    server.scheme.on_location(MH, TOWARD_ES3)
    [(_, request)] = server.sent()
    assert isinstance(request, PrehandoffRequest)
    about: dict[str, Any] = {"client": MH, "epoch": request.epoch, "attempt": request.attempt}
    server.scheme.mailbox.receive(ES3, EnablePrehandoff(**about))
    server.sent()
    server.scheme.mailbox.receive(ES3, Preforwarded(**about, fence={BrokerId("b9"): 5}, changes=1))
    assert server.sent() == []
    server.router.seen[BrokerId("b9")] = 5
    late = event(5, origin="b9", topic="stocks/ibm")
    server.scheme.on_event(late)
    [(_, filled)] = server.sent()
    assert isinstance(filled, Prestored)
    assert filled.events == (late,)


# --- A2, at a neighbor ------------------------------------------------------------------------------------------


def neighbor() -> tuple[Server, dict[str, Any]]:
    """ES3 with a virtual consumer of MH, which is connected at ES2; filled."""
    server = Server(ES3)
    about: dict[str, Any] = {"client": MH, "epoch": Epoch(1.0, ES2), "attempt": 7}
    server.scheme.mailbox.receive(ES2, PrehandoffRequest(**about))
    server.scheme.mailbox.receive(ES2, Preforward(**about, filters=(STOCKS,)))
    server.scheme.on_event(event(3, topic="stocks/ibm"))
    server.scheme.mailbox.receive(
        ES2, Prestored(**about, events=(event(2, topic="stocks/ibm"),), position={}, changes=1)
    )
    server.host.time = 50.0
    return server, about


def test_a_request_creates_a_virtual_consumer_and_enables() -> None:
    """A2, I."""
    server = Server(ES3)
    server.scheme.mailbox.receive(ES2, PrehandoffRequest(client=MH, epoch=Epoch(1.0, ES2), attempt=7))
    assert MH in server.scheme.virtual
    [(to, enable)] = server.sent()
    assert to == ES2
    assert isinstance(enable, EnablePrehandoff)


def test_preforward_updates_the_routing_table() -> None:
    """A2, II: and ES2 is told what had been seen by then."""
    server = Server(ES3)
    server.router.seen[BrokerId("o")] = 4
    about: dict[str, Any] = {"client": MH, "epoch": Epoch(1.0, ES2), "attempt": 7}
    server.scheme.mailbox.receive(ES2, PrehandoffRequest(**about))
    server.host.take()
    server.scheme.mailbox.receive(ES2, Preforward(**about, filters=(STOCKS, SPORT)))
    effects = server.host.take()
    assert [e for e in effects if e[0] == "subscribe"] == [("subscribe", STOCKS), ("subscribe", SPORT)]
    [answer] = [e[2] for e in effects if e[0] == "unicast"]
    assert isinstance(answer, Preforwarded)
    assert answer.fence == {"o": 4}


def test_a_virtual_consumer_holds_what_it_missed_before_what_came_since() -> None:
    server, _ = neighbor()
    context = server.scheme.virtual[MH].context
    assert context is not None and context.mode is Mode.ACTIVE
    assert [e.id.sequence for e in context.events()] == [2, 3]


def test_a_cancelled_virtual_consumer_leaves_nothing() -> None:
    """A2, IV: "Unsubscribe each S in SSUBQ_MHs; VC(ESj) = VC(ESj) - VC_MHs"."""
    server, about = neighbor()
    server.host.take()
    server.scheme.mailbox.receive(ES2, CancelPreforward(**about))
    assert ("unsubscribe", STOCKS) in server.host.take()
    assert list(server.scheme.virtual) == []
    assert len(server.scheme.contexts.buffer) == 0


def test_a_cancellation_of_another_attempt_is_not_meant() -> None:
    server, about = neighbor()
    server.scheme.mailbox.receive(ES2, CancelPreforward(**{**about, "attempt": 6}))
    assert MH in server.scheme.virtual


def test_a_new_subscription_reaches_the_virtual_consumer_which_is_filled_anew() -> None:
    """A2, III."""
    server, about = neighbor()
    server.host.take()
    server.scheme.mailbox.receive(ES2, PreSubforward(**about, filter=SPORT))
    assert ("subscribe", SPORT) in server.host.take()
    assert not server.scheme.virtual[MH].whole
    old = Prestored(**about, events=(), position={}, changes=1)
    server.scheme.mailbox.receive(ES2, old)
    assert not server.scheme.virtual[MH].whole  # that was sent before ES2 knew
    server.scheme.mailbox.receive(ES2, Prestored(**about, events=(), position={}, changes=2))
    assert server.scheme.virtual[MH].whole


def printed(*sequences: int) -> Server:
    """ES3 by Fig. 3 as printed, with a virtual consumer that has stored these events."""
    server = Server(ES3, literal=True)
    about: dict[str, Any] = {"client": MH, "epoch": Epoch(1.0, ES2), "attempt": 7}
    server.scheme.mailbox.receive(ES2, PrehandoffRequest(**about))
    server.scheme.mailbox.receive(ES2, Preforward(**about, filters=(STOCKS,)))
    for sequence in sequences:
        server.scheme.on_event(event(sequence, topic="stocks/ibm"))
    server.host.time = 50.0
    return server


def test_as_printed_three_messages_set_a_virtual_consumer_up() -> None:
    server = printed()
    assert [type(message) for _, message in server.sent()] == [EnablePrehandoff], (
        "and no answer to Preforward"
    )
    assert server.scheme.virtual[MH].whole


def test_as_printed_the_client_gets_all_that_was_stored_read_before_or_not() -> None:
    server = printed(3, 4)
    server.host.take()
    server.scheme.on_connect(MH, ES2, ticket=ticket(Epoch(1.0, ES2), 3, STOCKS))
    assert server.delivered() == [3, 4], "ours would know that it has read 3"


def test_as_printed_the_last_server_forgets_the_client_with_what_it_had_stored() -> None:
    server = serving(literal=True)
    server.scheme.on_location(MH, TOWARD_ES3)
    [(_, request)] = server.sent()
    assert isinstance(request, PrehandoffRequest)
    about: dict[str, Any] = {"client": MH, "epoch": request.epoch, "attempt": request.attempt}
    server.scheme.mailbox.receive(ES3, EnablePrehandoff(**about))
    server.scheme.on_disconnect(MH, "moved")
    server.scheme.on_event(event(1, topic="stocks/ibm"))  # not yet at ES3, whose routes are on their way
    server.sent()

    successor = Epoch(60.0, ES3)
    replaced = Replaced(
        **about, successor=successor, whole=True, asks=False, digest=digest_of((STOCKS,)), changes=1
    )
    server.scheme.mailbox.receive(ES3, replaced)

    assert server.sent() == [], "nothing follows"
    assert MH not in server.scheme.contexts
    assert len(server.scheme.contexts.buffer) == 0


# --- A1, else: the client appears -------------------------------------------------------------------------------


def ticket(epoch: Epoch, read: int, *filters: Filter) -> Ticket:
    return Ticket(ES1, epoch, {BrokerId("o"): read}, digest_of(filters))


def test_the_client_replaces_its_surrogate_and_receives_at_once() -> None:
    """ "MHs can receive matched notifications immediately after connecting to the new ES": no message is waited for,
    and what it has read at ES2 is not repeated."""
    server, _ = neighbor()
    server.host.take()
    server.scheme.on_connect(MH, ES2, ticket=ticket(Epoch(1.0, ES2), 2, STOCKS))
    effects = server.host.take()
    assert [e[2].sequence for e in effects if e[0] == "deliver"] == [3]
    assert server.scheme.contexts[MH].mode is Mode.SERVING
    assert list(server.scheme.virtual) == []
    [told] = [e[2] for e in effects if e[0] == "unicast"]
    assert isinstance(told, Replaced)
    assert told.whole and not told.asks


def test_who_shows_nothing_waits_for_one_answer() -> None:
    server, about = neighbor()
    server.host.take()
    server.scheme.on_connect(MH, ES2)
    effects = server.host.take()
    assert [e for e in effects if e[0] == "deliver"] == []
    [told] = [e[2] for e in effects if e[0] == "unicast"]
    assert isinstance(told, Replaced)
    assert told.asks
    handed = Handed(
        **about,
        successor=told.successor,
        fence={},
        position={BrokerId("o"): 1},
        reach={BrokerId("o"): 3},
        held=(event(3).id,),
    )
    server.scheme.mailbox.receive(ES2, handed)
    assert server.delivered() == [3]


def test_without_a_virtual_consumer_the_handoff_is_the_normal_one() -> None:
    """ "If ESj does not have VC_MHs, ESj initiates normal handoff process"."""
    server = Server(ES3)
    server.scheme.on_connect(MH, ES2)
    [(to, request)] = server.sent()
    assert to == ES2
    assert isinstance(request, ContextRequest)


def test_a_surrogate_of_an_earlier_connection_is_not_believed() -> None:
    server, _ = neighbor()
    server.sent()
    server.scheme.on_connect(MH, ES2, ticket=ticket(Epoch(40.0, ES2), 2, STOCKS))
    assert [type(message) for _, message in server.sent()] == [ContextRequest]
    assert list(server.scheme.virtual) == []


def test_a_surrogate_that_lacks_a_subscription_is_not_believed() -> None:
    server, _ = neighbor()
    server.sent()
    server.scheme.on_connect(MH, ES2, ticket=ticket(Epoch(1.0, ES2), 2, STOCKS, SPORT))
    assert [type(message) for _, message in server.sent()] == [ContextRequest]


def test_the_last_server_forgets_a_client_that_was_replaced_and_cancels_elsewhere() -> None:
    """Case 1: "MHs moves to a border cell located within another LA"; unless cancelled, "it may lead to ping-pong"."""
    server = serving(choose="all")
    server.scheme.on_location(MH, TOWARD_ES3)
    requests = {to: message for to, message in server.sent() if isinstance(message, PrehandoffRequest)}
    about: dict[str, Any] = {"client": MH, "epoch": next(iter(server.scheme.contexts.values())).epoch}
    attempts = {p.server: p.number for p in server.scheme.preforwarding.attempts.values()}
    assert set(attempts) == {ES1, ES3}
    assert set(requests) <= {ES1, ES3}
    server.scheme.mailbox.receive(ES3, EnablePrehandoff(**about, attempt=attempts[ES3]))
    server.scheme.mailbox.receive(ES3, Preforwarded(**about, attempt=attempts[ES3], fence={}, changes=1))
    server.sent()
    server.scheme.mailbox.receive(
        ES3,
        Replaced(
            **about,
            attempt=attempts[ES3],
            successor=Epoch(60.0, ES3),
            whole=True,
            asks=False,
            digest=digest_of([STOCKS]),
            changes=1,
        ),
    )
    assert [(to, type(message)) for to, message in server.sent()] == [(ES1, CancelPreforward)]
    assert len(server.scheme.contexts) == 0
    assert server.scheme.held() == []


def test_here_is_requalified_for_the_destination() -> None:
    """Section 5: "it is necessary to qualify location attributes of these subscriptions with respect to possible
    destination locations"."""
    here = Filter.parse("traffic/#", "location = 'HERE'")
    server = Server(ES3)
    about: dict[str, Any] = {"client": MH, "epoch": Epoch(1.0, ES2), "attempt": 7}
    server.scheme.mailbox.receive(ES2, PrehandoffRequest(**about))
    server.host.take()
    server.scheme.mailbox.receive(ES2, Preforward(**about, filters=(here,)))
    assert ("subscribe", Filter.parse("traffic/#", "location = 'b3'")) in server.host.take()
    before = event(1, topic="traffic/jam", location="b2")
    server.scheme.mailbox.receive(ES2, Prestored(**about, events=(before,), position={}, changes=1))
    server.scheme.on_event(event(2, topic="traffic/jam", location="b3"))
    server.scheme.on_event(event(3, topic="traffic/jam", location="b2"))
    server.scheme.on_connect(MH, ES2, ticket=ticket(Epoch(1.0, ES2), 0, here))
    assert server.delivered() == [2]
