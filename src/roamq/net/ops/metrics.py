"""Tells operators how a broker is, from its state: metrics for Prometheus and health on loopback, structured logs.

GET  /metrics       Prometheus text
GET  /health        200 {"status": "ok", ...}, or 503 with what is wrong
GET  /api/...       questions of operators and their programs (`api.py`)
GET  /console       the page for people, if the configuration has a token for it (`console.py`)
POST /reload        read users and access rules again, as SIGHUP does
POST /drain         hand the sessions to other brokers

A request that changes something needs the operators' token (`Authorization: Bearer TOKEN`). A page in a browser on the
same host can reach loopback too, so requests with a foreign Host or with an Origin are refused.
"""

import asyncio
import hmac
import json
import logging
import math
import time
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric

from roamq.core.context import Mode
from roamq.net.ops.activity import Activity
from roamq.net.ops.alarms import Alarms
from roamq.net.ops.api import PREFIX as API
from roamq.net.ops.api import Api, HttpRequest, HttpResponse
from roamq.net.ops.console import PREFIX as CONSOLE
from roamq.net.ops.console import Console
from roamq.net.shell import Shell

if TYPE_CHECKING:
    from roamq.net.ops.records import RecordWriter

REQUEST_BYTES_MAX: Final = 8192
REQUEST_S_MAX: Final = 5.0


class Described(NamedTuple):
    """The description of a metric: gauge, counter or histogram; its labels; what the metric says."""

    kind: str
    about: str
    labels: tuple[str, ...] = ()


METRICS: Final = {
    "roamq_connections": Described("gauge", "Open connections"),
    "roamq_contexts": Described("gauge", "Contexts held, by mode", ("mode",)),
    "roamq_stored_events": Described("gauge", "Events stored, one copy each"),
    "roamq_stored_bytes": Described("gauge", "Bytes of events stored"),
    "roamq_retained_messages": Described("gauge", "Retained messages"),
    "roamq_known_clients": Described("gauge", "Clients whose place is known"),
    "roamq_link_up": Described("gauge", "Whether the link is up", ("peer",)),
    "roamq_link_carriers": Described(
        "gauge", "Brokers that the link runs through; 0: it is direct", ("peer",)
    ),
    "roamq_links_carried": Described("gauge", "Links of other brokers that run through this one"),
    "roamq_link_outbox_frames": Described("gauge", "Frames not acknowledged", ("peer",)),
    "roamq_link_outbox_bytes": Described("gauge", "Bytes not acknowledged", ("peer",)),
    "roamq_link_outbox_messages_bytes": Described(
        "gauge", "What messages cost that are not acknowledged, events left out", ("peer",)
    ),
    "roamq_link_sent_messages": Described(
        "counter", "Messages put on links, by kind of traffic; begun here, or passed_on", ("kind", "way")
    ),
    "roamq_link_sent_bytes": Described("counter", "Bytes put on links, by kind of traffic", ("kind",)),
    "roamq_link_cut_off": Described("gauge", "Whether the neighbour is cut off", ("peer",)),
    "roamq_link_cut_offs": Described("counter", "How often the neighbour was cut off", ("peer",)),
    "roamq_alarm": Described("gauge", "1 for every alarm that is raised", ("alarm", "about")),
    "roamq_journal_bytes": Described("gauge", "Journal since the last snapshot"),
    "roamq_records_waiting": Described("gauge", "Records not in the folder yet"),
    "roamq_handoff_seconds": Described(
        "histogram", "CONNECT to CONNACK of clients from other brokers", ("scheme",)
    ),
    "roamq_handoff_first_message_seconds": Described(
        "histogram", "CONNECT to the first message of clients from other brokers", ("scheme",)
    ),
    "roamq_delay_p95_seconds": Described(
        "gauge", "95% of the messages of the last minute took no longer; observed and predicted", ("kind",)
    ),
    "roamq_utilisation": Described(
        "gauge", "Share of the last minute that the broker worked; observed and predicted", ("kind",)
    ),
    "roamq_messages_per_second": Described(
        "gauge", "Messages in and out, of the last minute: observed, and what the broker can bear", ("kind",)
    ),
    "roamq_full_in_seconds": Described("gauge", "Until the broker is full, if its load goes on growing"),
    "roamq_records": Described("counter", "What happened, by kind of record", ("kind",)),
    "roamq_refused": Described("counter", "Connections refused, by bound", ("bound",)),
    "roamq_slow_consumer": Described("counter", "Times a client left too much unread"),
    "roamq_rate_limited": Described("counter", "Times a client was over its rate and not read from"),
    "roamq_login_refused": Described("counter", "Logins refused"),
    "roamq_link_refused": Described("counter", "Connections of would-be brokers refused"),
    "roamq_fault": Described("counter", "Unexpected internal errors"),
    "roamq_stall": Described("counter", "Times the journal could not be written"),
    "roamq_snapshots": Described("counter", "Snapshots made"),
    "roamq_snapshot_failed": Described("counter", "Snapshots that could not be made"),
    "roamq_received_bytes": Described("counter", "Bytes received, of clients"),
    "roamq_sent_bytes": Described("counter", "Bytes sent, of clients"),
}
"""Every metric, by its name without the suffixes that Prometheus adds (`_total`, `_bucket`)."""
_SHELL_COUNTS: Final = frozenset(
    name.removeprefix("roamq_")
    for name, one in METRICS.items()
    if one.kind == "counter" and not one.labels and not name.endswith("_bytes")
)
_FAMILIES: Final = {
    "gauge": GaugeMetricFamily,
    "counter": CounterMetricFamily,
    "histogram": HistogramMetricFamily,
}


def described_metrics() -> Iterator[tuple[str, str, tuple[str, ...], str]]:
    """Yields the name that Prometheus shows, the kind, the labels and the meaning of every metric."""
    for name, one in METRICS.items():
        yield (f"{name}_total" if one.kind == "counter" else name), one.kind, one.labels, one.about


def _family(name: str) -> Any:
    described = METRICS[name]
    return _FAMILIES[described.kind](name, described.about, labels=described.labels)


def _value(name: str, value: float) -> Metric:
    family = _family(name)
    family.add_metric([], value)
    found: Metric = family
    return found


class BrokerCollector:
    """Turns the state of one broker into metrics."""

    def __init__(
        self, shell: Shell, recorder: "RecordWriter | None", activity: Activity, alarms: Alarms
    ) -> None:
        self.shell = shell
        self.recorder = recorder
        self.activity = activity
        self.alarms = alarms

    def collect(self) -> Iterator[Metric]:
        shell = self.shell
        now = shell.live.status()
        yield _value("roamq_connections", len(shell.clients))
        contexts = _family("roamq_contexts")
        for mode in Mode:
            contexts.add_metric([mode.value], now.contexts[mode])
        yield contexts
        yield _value("roamq_stored_events", now.stored_events)
        yield _value("roamq_stored_bytes", now.stored_bytes)
        yield _value("roamq_retained_messages", now.retained_messages)
        yield _value("roamq_known_clients", now.known_clients)
        links, waiting = _family("roamq_link_up"), _family("roamq_link_outbox_frames")
        size, carriers = _family("roamq_link_outbox_bytes"), _family("roamq_link_carriers")
        messages = _family("roamq_link_outbox_messages_bytes")
        cut_off, cut_offs = _family("roamq_link_cut_off"), _family("roamq_link_cut_offs")
        up = getattr(shell.neighbours, "up", {})
        through = getattr(shell.neighbours, "through", {})
        for peer, frames in now.outbox_frames.items():
            links.add_metric([peer], peer in up)
            if peer in up:
                carriers.add_metric([peer], len(through.get(peer, ())))
            waiting.add_metric([peer], frames)
            size.add_metric([peer], now.outbox_bytes[peer])
            messages.add_metric([peer], now.outbox_messages_bytes[peer])
            cut_off.add_metric([peer], peer in now.cut_off)
            cut_offs.add_metric([peer], now.cut_offs[peer])
        yield from (links, carriers, waiting, size, messages, cut_off, cut_offs)
        messages, size = _family("roamq_link_sent_messages"), _family("roamq_link_sent_bytes")
        for kind, sent in now.link_traffic.items():
            messages.add_metric([kind, "begun"], sent.begun)
            messages.add_metric([kind, "passed_on"], sent.passed_on)
            size.add_metric([kind], sent.bytes)
        yield from (messages, size)
        yield _value("roamq_links_carried", len(getattr(shell.neighbours, "carried", ())))
        raised = _family("roamq_alarm")
        for alarm in self.alarms.raised():
            raised.add_metric([alarm.alarm, alarm.about or ""], 1)
        yield raised
        yield from self._counters()
        yield from self._delays()
        yield from self._outlook()
        if shell.journal is not None:
            yield _value("roamq_journal_bytes", shell.journal.written_bytes)
        if self.recorder is not None:
            yield _value("roamq_records_waiting", self.recorder.waiting)

    def _delays(self) -> Iterator[Metric]:
        scheme = self.shell.live.machine.settings.scheme
        for name, delays in (
            ("roamq_handoff_seconds", self.activity.handoffs),
            ("roamq_handoff_first_message_seconds", self.activity.first_messages),
        ):
            family = _family(name)
            family.add_metric([scheme], delays.cumulative(), delays.sum_s)
            yield family

    def _outlook(self) -> Iterator[Metric]:
        last = self.activity.forecast.last
        if last is None:
            return
        for name, observed, predicted in (
            ("roamq_delay_p95_seconds", last.delay_observed_s, last.delay_predicted_s),
            ("roamq_utilisation", last.utilisation_observed, last.utilisation_predicted),
        ):
            family = _family(name)
            for kind, value in (("observed", observed), ("predicted", predicted)):
                if value is not None:
                    family.add_metric([kind], value)
            yield family
        rates = _family("roamq_messages_per_second")
        rates.add_metric(["observed"], last.rate)
        if last.load is not None:
            rates.add_metric(["bearable"], last.load.rate_max)
        yield rates
        if last.load is not None and math.isfinite(last.load.full_in_s):
            yield _value("roamq_full_in_seconds", last.load.full_in_s)

    def _counters(self) -> Iterator[Metric]:
        counts = self.shell.counts
        events, refused = _family("roamq_records"), _family("roamq_refused")
        for name, value in sorted(counts.items()):
            if name.startswith("refused "):
                refused.add_metric([name.removeprefix("refused ")], value)
            elif name not in _SHELL_COUNTS and not name.endswith("_bytes"):
                events.add_metric([name], value)
        yield events
        yield refused
        for name in sorted(_SHELL_COUNTS):
            yield _value(f"roamq_{name}", counts[name])
        clients: Any = self.shell.clients.values()
        for name in ("received_bytes", "sent_bytes"):
            total = counts[name] + sum(getattr(client, name) for client in clients)
            yield _value(f"roamq_{name}", total)


class Observatory:
    """The HTTP port for operators and their programs; one short request per connection."""

    def __init__(
        self,
        collector: BrokerCollector,
        health: Callable[[], dict[str, Any]],
        actions: dict[str, Callable[[dict[str, Any]], dict[str, Any]]],
        token: str | None = None,
        api: Api | None = None,
        console: Console | None = None,
    ) -> None:
        """`token`: the token that an operator shows to act; None: nobody may act over this port."""
        self.registry = CollectorRegistry()
        self.registry.register(collector)
        self.health = health
        self.actions = actions
        self._token = token
        self._host = ""
        self.api = api
        self.console = console
        self._server: asyncio.Server | None = None

    async def start(self, host: str, port: int) -> int:
        self._server = await asyncio.start_server(self._serve, host, port, limit=REQUEST_BYTES_MAX)
        self._host = host
        bound: int = self._server.sockets[0].getsockname()[1]
        return bound

    def close(self) -> None:
        if self._server is not None:
            self._server.close()
        if self.console is not None:
            self.console.close()

    def _is_our_name(self, host: str) -> bool:
        """Whether the Host header names this port by address, or as localhost. A name that a stranger lets point at
        this host does not."""
        name = host.rpartition(":")[0] if host.rpartition(":")[2].isdecimal() else host
        return name.lower() in ("localhost", "127.0.0.1", "[::1]", self._host.lower(), f"[{self._host}]")

    def _is_for_us(self, headers: Mapping[str, str]) -> bool:
        """Whether a program or our own page asks to read, and no foreign page in a browser."""
        host = headers.get("host", "")
        origin = headers.get("origin")
        return self._is_our_name(host) and origin in (None, f"http://{host}", f"https://{host}")

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            async with asyncio.timeout(REQUEST_S_MAX):
                head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
                body = await reader.readexactly(min(_content_length(head), REQUEST_BYTES_MAX))
            line, _, rest = head.partition("\r\n")
            headers = _headers(rest)
            request = HttpRequest.parse(head)
            response: HttpResponse | None
            if request.path.startswith((API, CONSOLE)) and not self._is_for_us(headers):
                response = HttpResponse(
                    "403 Forbidden", "application/json", _json({"error": "not for this host"})
                )
            elif self.api is not None and request.path.startswith(API):
                response = await self.api.serve(request)
            elif self.console is not None and request.path.startswith(CONSOLE):
                response = await self.console.serve(request, body, writer)
            else:
                response = HttpResponse(*self.answer(line, body, headers))
            if response is None:
                return
            writer.write(_written(response))
            async with asyncio.timeout(REQUEST_S_MAX):
                await writer.drain()
        except (TimeoutError, OSError, ValueError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            pass  # the client is gone or does not speak HTTP
        finally:
            writer.close()

    def answer(self, request: str, body: bytes, headers: Mapping[str, str]) -> tuple[str, str, bytes]:
        """Answers a request: status line, content type and body. Header names are in lower case."""
        method, _, rest = request.partition(" ")
        path = rest.partition(" ")[0].partition("?")[0]
        if not self._is_our_name(headers.get("host", "")):
            return _forbidden("Host: this is not the name of this port")
        if "origin" in headers:
            return _forbidden("Origin: no page may ask this port")
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
        if self._token is None:
            return _forbidden("operation.token_file: set it in the configuration to act over this port")
        shown = headers.get("authorization", "")
        if not hmac.compare_digest(shown.encode(), f"Bearer {self._token}".encode()):
            error = _json(
                {"error": "Authorization: show the token of `operation.token_file` as `Bearer TOKEN`"}
            )
            return "401 Unauthorized", "application/json", error
        try:
            return "200 OK", "application/json", _json(action(json.loads(body or b"{}")))
        except ValueError as error:
            return "400 Bad Request", "application/json", _json({"error": str(error)})


def _written(response: HttpResponse) -> bytes:
    more = "".join(f"{name}: {value}\r\n" for name, value in response.headers)
    head = f"HTTP/1.1 {response.status}\r\nContent-Type: {response.kind}\r\nContent-Length: {len(response.body)}\r\n"
    return f"{head}{more}Connection: close\r\n\r\n".encode() + response.body


def _headers(text: str) -> dict[str, str]:
    found: dict[str, str] = {}
    for line in text.split("\r\n"):
        name, colon, value = line.partition(":")
        if colon:
            found[name.strip().lower()] = value.strip()
    return found


def _content_length(head: str) -> int:
    return int(_headers(head).get("content-length", 0))


def _forbidden(why: str) -> tuple[str, str, bytes]:
    return "403 Forbidden", "application/json", _json({"error": why})


def _json(value: object) -> bytes:
    return json.dumps(value, default=str).encode() + b"\n"


class JsonLines(logging.Formatter):
    """Writes a log line as one JSON object, with the broker's name and the fields of the line."""

    def __init__(self, broker: str) -> None:
        super().__init__()
        self.broker = broker

    def format(self, record: logging.LogRecord) -> str:
        line = {
            "time": f"{time.strftime('%Y-%m-%dT%H:%M:%S', time.gmtime(record.created))}.{int(record.msecs):03d}Z",
            "broker": self.broker,
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
            **getattr(record, "fields", {}),
        }
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return json.dumps(line, ensure_ascii=False)


def set_up_logs(broker: str, *, as_json: bool, level: str = "INFO") -> None:
    """Sends logs to standard error; no secret and no payload is ever part of one."""
    handler = logging.StreamHandler()
    plain = logging.Formatter(f"%(asctime)s {broker} %(levelname)s %(name)s: %(message)s")
    handler.setFormatter(JsonLines(broker) if as_json else plain)
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel("WARNING")
    logging.getLogger("roamq").setLevel(level)
