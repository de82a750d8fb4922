"""One connection of a link, without sockets: what is heeded, and what is not any more."""

import asyncio
from types import SimpleNamespace
from typing import Any

from roamq.core.events import BrokerId
from roamq.net.durable.inputs import InputKind
from roamq.net.links.connection import LinkSocket
from roamq.net.links.protocol import NONCE_BYTES, Identity, LinkSession


class FakeTransport(asyncio.Transport):
    """Keeps what is written; is aborted without a word to its protocol, as a real one is at first."""

    def __init__(self) -> None:
        super().__init__()
        self.written = b""
        self.aborted = False

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None: ...
    def pause_reading(self) -> None: ...
    def resume_reading(self) -> None: ...
    def write(self, data: Any) -> None:
        self.written += data

    def is_closing(self) -> bool:
        return self.aborted

    def abort(self) -> None:
        self.aborted = True


class FakeLinks:
    """As much of a broker's links as one connection asks for."""

    def __init__(self) -> None:
        self.fed: list[tuple[Any, ...]] = []
        self.turns: list[LinkSocket] = []
        turns = SimpleNamespace(add=self.turns.append)
        self.shell = SimpleNamespace(now=lambda: 1.0, feed=lambda *fed: self.fed.append(fed), turns=turns)
        self.strangers: set[LinkSocket] = set()
        self.is_leaving = self.is_paused = self.has_stopped = False

    def session_on(self, transport: asyncio.BaseTransport, **more: Any) -> LinkSession:
        return session("b", nonce=b"b" * NONCE_BYTES)

    def came_up(self, link: LinkSocket, up: object) -> None: ...


def session(me: str, nonce: bytes, calls: BrokerId | None = None) -> LinkSession:
    identity = Identity(network="net", me=BrokerId(me), secret=None)
    return LinkSession(identity, nonce=nonce, count=lambda name: (0, 9), now=0.0, calls=calls)


def test_what_was_not_heeded_before_a_connection_is_given_up_is_never_heeded() -> None:
    """An older acknowledgement behind a newer HELLO would look as if the neighbour had forgotten something."""

    async def scenario() -> None:
        links, transport = FakeLinks(), FakeTransport()
        link = LinkSocket(links)  # type: ignore[arg-type]
        link.connection_made(transport)
        peer = session("a", b"a" * NONCE_BYTES, calls=BrokerId("b"))
        link.data_received(peer.take_output())
        peer.receive(transport.written, 1.0)
        for sequence in (1, 2, 3):
            peer.acknowledge(sequence)
        link.data_received(peer.take_output())
        assert links.fed == [(InputKind.LINK_ACKED, "a", 1)]
        assert links.turns == [link], "the others wait for their turn"

        link.abort()

        assert transport.aborted
        assert not link.take_turn()
        assert links.fed == [(InputKind.LINK_ACKED, "a", 1)]

    asyncio.run(scenario())
