"""The console: a page that shows a broker and its network as things happen, on the port of the metrics.

GET  /console           the page, or the login
POST /console/login     token=TOKEN sets the cookie; with the operators' token one may act as well
POST /console/logout    deletes the cookie
GET  /console/stream    server-sent events: about once a second what has changed
GET  /console/NAME      the style and the scripts

Brokers tell each other whom they serve, so that each knows the broker of every client of the network: the console of
one broker shows the clients of all. What the console sends a second is bounded, however many clients move.
"""

import asyncio
from importlib import resources
from typing import Any, Final
from urllib.parse import parse_qs, quote

import msgspec

from roamq.net.ops.api import COOKIE, HttpRequest, HttpResponse, Rights, answered
from roamq.net.ops.inspection import Inspector

PREFIX: Final = "/console"
EVERY_S: Final = 1.0
MOVES_MAX: Final = 200
"""Moves a second that the page gets one by one; of further moves it gets the number."""
EVENTS_MAX: Final = 50
VIEWERS_MAX: Final = 20
UNREAD_BYTES_MAX: Final = 1_000_000
"""Bytes that a viewer may leave unread; a viewer with more misses updates until it has read."""
WRONG_TOKEN_S: Final = 0.5
_SCRIPT: Final = "text/javascript; charset=utf-8"
_FILES: Final = {
    "/console/console.css": "text/css; charset=utf-8",
    **{f"/console/{name}.js": _SCRIPT for name in ("console", "page", "map", "tables", "client")},
}
_SAFE: Final = (
    (
        "Content-Security-Policy",
        "default-src 'self'; img-src 'self' data:; frame-ancestors 'none'; form-action 'self'",
    ),
    ("X-Content-Type-Options", "nosniff"),
    ("Referrer-Policy", "same-origin"),
    ("Cache-Control", "no-store"),
)


class Console:
    """Serves the page to people who know the token, and tells all viewers what has changed."""

    def __init__(self, inspector: Inspector, rights: Rights) -> None:
        self.inspector = inspector
        self.rights = rights
        self.viewers: set[asyncio.StreamWriter] = set()
        self._places: dict[str, str] = {}
        self._seen = 0
        self._network: list[Any] = []
        self._task: asyncio.Task[None] | None = None

    async def serve(
        self, request: HttpRequest, body: bytes, writer: asyncio.StreamWriter
    ) -> HttpResponse | None:
        """Returns the answer to a request; None if the connection served a stream, which is over now."""
        if request.path == "/console/login" and request.method == "POST":
            return await self._login(parse_qs(body.decode("utf-8", "replace")).get("token", [""])[0])
        if request.path == "/console/logout" and request.method == "POST":
            gone = (("Location", PREFIX), ("Set-Cookie", f"{COOKIE}=; Max-Age=0; Path=/"), *_SAFE)
            return HttpResponse("303 See Other", "text/plain", b"", gone)
        if request.path in _FILES and request.method == "GET":
            name = request.path.rpartition("/")[2]
            return HttpResponse("200 OK", _FILES[request.path], _file(name), _SAFE)
        if request.path == PREFIX and "token" in request.query:
            return await self._login(request.query["token"])
        if not self.rights.may_read(request):
            if request.path == PREFIX:
                return HttpResponse("200 OK", "text/html; charset=utf-8", _file("login.html"), _SAFE)
            return answered({"error": "log in at /console"}, "401 Unauthorized")
        if request.path == PREFIX:
            return HttpResponse("200 OK", "text/html; charset=utf-8", _file("console.html"), _SAFE)
        if request.path == "/console/stream" and request.method == "GET":
            await self._stream(writer, may_act=self.rights.may_act(request))
            return None
        return answered({"error": f"there is no {request.path}"}, "404 Not Found")

    def close(self) -> None:
        if self._task is not None:
            self._task.cancel()
        for writer in self.viewers:
            writer.close()

    async def _login(self, token: str) -> HttpResponse:
        if not self.rights.is_token(token):
            await asyncio.sleep(WRONG_TOKEN_S)
            page = _file("login.html").replace(b"<!--error-->", b'<p role="alert">That is not the token.</p>')
            return HttpResponse("401 Unauthorized", "text/html; charset=utf-8", page, _SAFE)
        cookie = f"{COOKIE}={quote(token, safe='')}; HttpOnly; SameSite=Strict; Path=/"
        headers = (("Location", PREFIX), ("Set-Cookie", cookie), *_SAFE)
        return HttpResponse("303 See Other", "text/plain", b"", headers)

    # --- the stream --------------------------------------------------------------------------------------------

    async def _stream(self, writer: asyncio.StreamWriter, *, may_act: bool) -> None:
        """Keeps the connection, as one of the viewers', until the viewer is gone."""
        if len(self.viewers) >= VIEWERS_MAX:
            writer.write(
                b"HTTP/1.1 503 Service Unavailable\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"
            )
            return
        head = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nCache-Control: no-store\r\n"
        writer.write(f"{head}Connection: close\r\n\r\nretry: 2000\n\n".encode())
        writer.write(_event("hello", {**self.beginning(), "may_act": may_act}))
        self.viewers.add(writer)
        if self._task is None or self._task.done():
            self._places = self.inspector.places()
            self._seen = self.inspector.events(limit=0).last
            self._task = asyncio.get_running_loop().create_task(self._tell())
        try:
            await writer.wait_closed()
        except OSError:
            pass
        finally:
            self.viewers.discard(writer)

    async def _tell(self) -> None:
        while self.viewers:
            await asyncio.sleep(EVERY_S)
            data = _event("change", self.change())
            for writer in list(self.viewers):
                if writer.is_closing():
                    self.viewers.discard(writer)
                elif writer.transport.get_write_buffer_size() < UNREAD_BYTES_MAX:
                    writer.write(data)

    def beginning(self) -> dict[str, Any]:
        """Returns what the page shows first."""
        return {
            "status": self.inspector.status(),
            "network": self.inspector.network(),
            "events": self.inspector.events(limit=200).events,
        }

    def change(self) -> dict[str, Any]:
        """Returns what has changed since the last call."""
        before, self._places = self._places, self.inspector.places()
        counts: dict[str, int] = {}
        moves: list[list[str | None]] = []
        moved = 0
        for client, broker in self._places.items():
            counts[broker] = counts.get(broker, 0) + 1
            was = before.get(client)
            if was != broker:
                moved += 1
                if len(moves) < MOVES_MAX:
                    moves.append([client, was, broker])
        network = self.inspector.network()
        known, self._network = self._network, [[one.broker for one in network.places], network.links]
        found = self.inspector.events(after=self._seen, limit=EVENTS_MAX)
        self._seen = found.last
        return {
            "status": self.inspector.status(),
            "places": counts,
            "moves": moves,
            "moved": moved,
            "events": found.events,
            "network": network if known != self._network else None,
        }


def _event(name: str, value: object) -> bytes:
    return b"event: " + name.encode() + b"\ndata: " + msgspec.json.encode(value) + b"\n\n"


def _file(name: str) -> bytes:
    return resources.files("roamq.net.ops").joinpath("web", name).read_bytes()
