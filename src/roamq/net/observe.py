"""What operators see: metrics for Prometheus, health, structured logs. Read from the state when asked, on loopback.

GET  /metrics       Prometheus text
GET  /health        200 {"status": "ok", ...}, or 503 with what is wrong
POST /reload        read the access rules anew, as SIGHUP does
POST /drain         hand the sessions to other brokers
"""

import asyncio
import json
import logging
import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, Final

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from roamq.core.context import Mode
from roamq.net.shell import Shell

if TYPE_CHECKING:
    from roamq.net.recording import Recorder

REQUEST_BYTES_MAX: Final = 8192
REQUEST_S_MAX: Final = 5.0
_SHELL_COUNTS: Final = {
    "slow_consumer": "Times a client left too much unread",
    "rate_limited": "Times a client was over its rate and not read from",
    "login_refused": "Logins refused",
    "link_refused": "Connections of would-be brokers refused",
    "fault": "Inputs that failed for a reason nobody foresaw",
    "stall": "Times the journal could not be written",
    "snapshots": "Snapshots made",
}


class BrokerCollector:
    """The state of one broker as metrics."""

    def __init__(self, shell: Shell, recorder: "Recorder | None") -> None:
        self.shell = shell
        self.recorder = recorder

    def collect(self) -> Iterator[Metric]:
        shell = self.shell
        machine = shell.machine
        yield _gauge("roamq_connections", "Open connections", len(shell.clients))
        modes = [context.mode for context in machine.scheme.contexts.values()]
        contexts = GaugeMetricFamily("roamq_contexts", "Contexts held, by mode", labels=["mode"])
        for mode in Mode:
            contexts.add_metric([mode.value], modes.count(mode))
        yield contexts
        yield _gauge("roamq_stored_events", "Events stored, one copy each", len(machine.scheme.buffer))
        yield _gauge("roamq_stored_bytes", "Bytes of events stored", machine.scheme.buffer.bytes)
        yield _gauge("roamq_retained_messages", "Retained messages", len(machine.retained))
        yield _gauge("roamq_known_clients", "Clients whose place is known", len(machine.directory))
        links = GaugeMetricFamily("roamq_link_up", "Whether the link is up", labels=["peer"])
        waiting = GaugeMetricFamily("roamq_link_outbox_frames", "Frames not acknowledged", labels=["peer"])
        size = GaugeMetricFamily("roamq_link_outbox_bytes", "Bytes not acknowledged", labels=["peer"])
        up = getattr(shell.neighbours, "links", {})
        for peer, outbox in machine.outbox.items():
            links.add_metric([peer], peer in up)
            waiting.add_metric([peer], len(outbox))
            size.add_metric([peer], machine.outbox_bytes[peer])
        yield links
        yield waiting
        yield size
        yield from self._counters()
        if shell.journal is not None:
            yield _gauge(
                "roamq_journal_bytes", "Journal since the last snapshot", shell.journal.written_bytes
            )
        if self.recorder is not None:
            behind = max(0, shell.node.records - self.recorder.written)
            yield _gauge("roamq_records_waiting", "Records not in the folder yet", behind)

    def _counters(self) -> Iterator[Metric]:
        counts = self.shell.counts
        events = CounterMetricFamily("roamq_records", "What happened, by kind of record", labels=["kind"])
        refused = CounterMetricFamily("roamq_refused", "Connections refused, by bound", labels=["bound"])
        for name, value in sorted(counts.items()):
            if name.startswith("refused "):
                refused.add_metric([name.removeprefix("refused ")], value)
            elif name not in _SHELL_COUNTS and not name.endswith("_bytes"):
                events.add_metric([name], value)
        yield events
        yield refused
        for name, text in _SHELL_COUNTS.items():
            yield CounterMetricFamily(f"roamq_{name}", text, value=counts[name])
        clients: Any = self.shell.clients.values()
        for name in ("received_bytes", "sent_bytes"):
            total = counts[name] + sum(getattr(client, name) for client in clients)
            yield CounterMetricFamily(
                f"roamq_{name}", f"Bytes {name.partition('_')[0]}, of clients", value=total
            )


def _gauge(name: str, text: str, value: float) -> GaugeMetricFamily:
    return GaugeMetricFamily(name, text, value=value)


class Observatory:
    """The HTTP port for operators and their programs; one short request per connection."""

    def __init__(
        self,
        collector: BrokerCollector,
        health: Callable[[], dict[str, Any]],
        actions: dict[str, Callable[[dict[str, Any]], dict[str, Any]]],
    ) -> None:
        self.registry = CollectorRegistry()
        self.registry.register(collector)
        self.health = health
        self.actions = actions
        self._server: asyncio.Server | None = None

    async def start(self, host: str, port: int) -> int:
        self._server = await asyncio.start_server(self._serve, host, port, limit=REQUEST_BYTES_MAX)
        bound: int = self._server.sockets[0].getsockname()[1]
        return bound

    def close(self) -> None:
        if self._server is not None:
            self._server.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            async with asyncio.timeout(REQUEST_S_MAX):
                head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
                body = await reader.readexactly(min(_content_length(head), REQUEST_BYTES_MAX))
            status, kind, answer = self.answer(head.partition("\r\n")[0], body)
            writer.write(
                f"HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {len(answer)}\r\n"
                "Connection: close\r\n\r\n".encode()
                + answer
            )
            async with asyncio.timeout(REQUEST_S_MAX):
                await writer.drain()
        except (TimeoutError, OSError, ValueError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            pass  # whoever asked is gone or does not speak HTTP
        finally:
            writer.close()

    def answer(self, request: str, body: bytes = b"") -> tuple[str, str, bytes]:
        """Status line, content type and body for a request line."""
        method, _, rest = request.partition(" ")
        path = rest.partition(" ")[0].partition("?")[0]
        if method == "GET" and path == "/metrics":
            return "200 OK", "text/plain; version=0.0.4; charset=utf-8", generate_latest(self.registry)
        if method == "GET" and path == "/health":
            health = self.health()
            status = "200 OK" if health["status"] == "ok" else "503 Service Unavailable"
            return status, "application/json", _json(health)
        action = self.actions.get(path)
        if action is None:
            return "404 Not Found", "application/json", _json({"error": f"there is no {path}"})
        if method != "POST":
            return "405 Method Not Allowed", "application/json", _json({"error": f"POST to {path}"})
        try:
            return "200 OK", "application/json", _json(action(json.loads(body or b"{}")))
        except ValueError as error:
            return "400 Bad Request", "application/json", _json({"error": str(error)})


def _content_length(head: str) -> int:
    for line in head.split("\r\n")[1:]:
        name, _, value = line.partition(":")
        if name.strip().lower() == "content-length":
            return int(value)
    return 0


def _json(value: object) -> bytes:
    return json.dumps(value, default=str).encode() + b"\n"


class JsonLines(logging.Formatter):
    """A log line as one JSON object."""

    def format(self, record: logging.LogRecord) -> str:
        line = {
            "time": f"{time.strftime('%Y-%m-%dT%H:%M:%S', time.gmtime(record.created))}.{int(record.msecs):03d}Z",
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return json.dumps(line, ensure_ascii=False)


def set_up_logs(broker: str, *, as_json: bool, level: str = "INFO") -> None:
    """Logs go to standard error; no secret and no payload is ever part of one."""
    handler = logging.StreamHandler()
    plain = logging.Formatter(f"%(asctime)s {broker} %(levelname)s %(name)s: %(message)s")
    handler.setFormatter(JsonLines() if as_json else plain)
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel("WARNING")
    logging.getLogger("roamq").setLevel(level)
