"""What pre-handoff does about what it does not see: servers that fell, clients that were switched off, time."""

from typing import Any

import pytest

from roamq.core.context import Epoch, Ticket
from roamq.core.filters import digest_of
from roamq.geo.cells import pitch_m
from roamq.schemes.messages.prehandoff import (
    AskExpected,
    CancelPreforward,
    Preforward,
    PrehandoffRequest,
    Prestored,
    Replaced,
    StillExpected,
    WasAway,
)
from tests.papers.test_pre_algorithms import (
    ES2,
    ES3,
    MH,
    REGION,
    STOCKS,
    Server,
    neighbor,
    prepared,
    serving,
)

HEIR = Epoch(60.0, ES3)


# --- the lease (docs/decisions/0085) ----------------------------------------------------------------------------


def test_a_virtual_consumer_without_news_asks_and_lives_on_if_it_is_still_expected() -> None:
    server, about = neighbor()
    server.host.take()
    server.scheme.on_timer(("lease", MH))
    assert server.sent() == [(ES2, AskExpected(**about))]
    server.scheme.mailbox.receive(ES2, StillExpected(**about))
    server.scheme.on_timer(("lease", MH))
    assert MH in server.scheme.virtual
    assert server.sent() == [(ES2, AskExpected(**about))]


def test_without_an_answer_it_ends_and_leaves_nothing() -> None:
    server, _ = neighbor()
    server.scheme.on_timer(("lease", MH))
    server.host.take()
    server.scheme.on_timer(("lease", MH))
    assert ("unsubscribe", STOCKS) in server.host.take()
    assert list(server.scheme.virtual) == []
    assert len(server.scheme.contexts.buffer) == 0


def test_a_server_answers_by_what_it_knows() -> None:
    server = serving()
    epoch, attempt = prepared(server)
    known = AskExpected(client=MH, epoch=epoch, attempt=attempt)
    server.scheme.mailbox.receive(ES3, known)
    assert server.sent() == [(ES3, StillExpected(client=MH, epoch=epoch, attempt=attempt))]
    for epoch_asked, attempt_asked in ((Epoch(0.5, ES2), attempt), (epoch, attempt + 1)):
        about: dict[str, Any] = {"client": MH, "epoch": epoch_asked, "attempt": attempt_asked}
        server.scheme.mailbox.receive(ES3, AskExpected(**about))
        assert server.sent() == [(ES3, CancelPreforward(**about))]


# --- direction and speed (docs/decisions/0083) ------------------------------------------------------------------


def replaced(epoch: Epoch, attempt: int) -> Replaced:
    return Replaced(
        client=MH,
        epoch=epoch,
        attempt=attempt,
        successor=HEIR,
        whole=True,
        asks=False,
        digest=digest_of([STOCKS]),
        changes=1,
    )


@pytest.mark.parametrize(
    ("choose", "away_s", "tells"), [("cone", 30.0, True), ("cone", 0.5, False), ("border", 30.0, False)]
)
def test_the_last_server_tells_that_a_client_was_switched_off(
    choose: str, away_s: float, tells: bool
) -> None:
    server = serving(choose=choose)
    epoch, attempt = prepared(server)
    server.scheme.on_disconnect(MH, "vanished")
    server.host.time += away_s
    server.scheme.mailbox.receive(ES3, replaced(epoch, attempt))
    told = [pair for pair in server.sent() if isinstance(pair[1], WasAway)]
    assert told == ([(ES3, WasAway(client=MH, successor=HEIR))] if tells else [])
    assert server.scheme.left_s == {}


def arrived() -> Server:
    """ES3, to which MH has just come from ES2 at 10 m/s, in place of its virtual consumer."""
    server = Server(ES3, choose="cone", haste=2.0)
    about: dict[str, Any] = {"client": MH, "epoch": Epoch(1.0, ES2), "attempt": 7}
    server.scheme.mailbox.receive(ES2, PrehandoffRequest(**about))
    server.scheme.mailbox.receive(ES2, Preforward(**about, filters=(STOCKS,), speed_mps=10.0))
    server.scheme.mailbox.receive(ES2, Prestored(**about, events=(), position={}, changes=1))
    server.host.time = 50.0
    server.scheme.on_connect(MH, ES2, ticket=Ticket(ES2, Epoch(1.0, ES2), {}, digest_of([STOCKS])))
    server.host.take()
    toward_es2 = next(c for c in REGION.areas.cells(ES3) if REGION.areas.beyond(c) == (ES2,))
    server.scheme.on_location(MH, toward_es2)
    return server


def test_who_came_unseen_is_expected_everywhere_beyond_its_cell() -> None:
    server = arrived()
    assert server.sent() == [], "it looks away from where it came"
    server.scheme.mailbox.receive(ES2, WasAway(client=MH, successor=Epoch(0.5, ES3)))
    assert server.sent() == [], "of another connection"
    server.scheme.mailbox.receive(ES2, WasAway(client=MH, successor=server.scheme.contexts[MH].epoch))
    assert [(to, type(message)) for to, message in server.sent()] == [(ES2, PrehandoffRequest)]


def test_a_client_that_stays_in_its_cell_may_as_well_turn_back() -> None:
    """A timer wakes the server when the next one is due: when the client could have crossed the cell."""
    server = arrived()
    crossed_s = pitch_m(9) / (2.0 * 10.0)
    [after_s] = [after for what, key, after in timers(server) if key == ("nearing", MH)]
    assert after_s == pytest.approx(crossed_s)
    server.sent()
    server.host.time += after_s / 2
    server.scheme.on_timer(("nearing", MH))
    assert server.sent() == [], "too early"
    server.host.time += after_s / 2
    server.scheme.on_timer(("nearing", MH))
    assert [(to, type(message)) for to, message in server.sent()] == [(ES2, PrehandoffRequest)]


def timers(server: Server) -> list[tuple[Any, ...]]:
    return [effect for effect in server.host.effects if effect[0] == "set_timer"]
