"""A live network in virtual time whose links have a delay: real machines, real MQTT bytes, and lines that a test holds.

Nothing is random unless the test's `delay` is: a line says what the test says, and the test looks at the packets that
came back. `turn` names the next broker, as a round-robin in front of the network would choose it.
"""

import heapq
from collections.abc import Callable, Mapping
from itertools import combinations, count, cycle

from msgspec.structs import replace

from roamq.core.events import BrokerId
from roamq.core.ports import TimerKey
from roamq.net.clients.mqtt.codec import (
    Connack,
    Connect,
    Decoder,
    Disconnect,
    Packet,
    Properties,
    Puback,
    Pubcomp,
    Publish,
    Pubrec,
    Pubrel,
    Suback,
    Subscribe,
    SubscriptionRequest,
    Unsuback,
    Version,
    Will,
    encode,
)
from roamq.net.machine import Machine
from roamq.net.ops.settings import Settings

SCHEMES = ["standard", "proactive", "prefetching", "logging", "home-broker", "prehandoff"]
START = 1000.0


class Line:
    """One connection of a client, held by a test. It acknowledges what comes, unless told not to."""

    def __init__(
        self,
        broker: str,
        version: Version,
        write: Callable[[bytes], None],
        hang_up: Callable[[], None],
    ) -> None:
        self.broker = BrokerId(broker)
        self.version = version
        self._write = write
        self._hang_up = hang_up
        self.packets: list[Packet] = []
        self.is_closed = False
        self.answers = True
        self.releases = False
        """Whether it answers PUBREC even if it does not acknowledge what comes."""
        self._decoder = Decoder(version)
        self._aliases: dict[int, str] = {}
        self.packet_ids = count(1)
        self.acknowledged: list[Publish] = []
        """What a test that answers by hand has acknowledged."""

    # --- saying -------------------------------------------------------------------------------------------

    def send(self, *packets: Packet) -> None:
        if not self.is_closed:
            self._write(b"".join(encode(packet, self.version) for packet in packets))

    def subscribe(self, topic_filter: str, qos: int = 1) -> None:
        self.send(Subscribe(next(self.packet_ids), (SubscriptionRequest(topic_filter, qos),)))

    def publish(self, topic: str, payload: bytes | str, qos: int = 1, *, retain: bool = False) -> None:
        body = payload.encode() if isinstance(payload, str) else payload
        self.send(Publish(topic, body, qos, retain, packet_id=next(self.packet_ids) if qos else 0))

    def disconnect(self) -> None:
        self.send(Disconnect())
        self.drop()

    def drop(self) -> None:
        """The socket is gone, without a word."""
        if not self.is_closed:
            self.is_closed = True
            self._hang_up()

    # --- hearing ------------------------------------------------------------------------------------------

    def hear(self, data: bytes) -> None:
        for packet in self._decoder.feed(data):
            if isinstance(packet, Publish) and packet.properties.topic_alias is not None:
                packet = self._with_topic(packet)
            self.packets.append(packet)
            if self.answers or (self.releases and isinstance(packet, Pubrec)):
                self.answer(packet)

    def _with_topic(self, packet: Publish) -> Publish:
        """The packet with the topic that its alias stands for."""
        alias = packet.properties.topic_alias
        assert alias is not None
        if packet.topic:
            self._aliases[alias] = packet.topic
        return replace(packet, topic=self._aliases[alias])

    def answer(self, packet: Packet) -> None:
        """Acknowledge a packet as a client does."""
        if isinstance(packet, Publish) and packet.qos:
            self.send(Puback(packet.packet_id) if packet.qos == 1 else Pubrec(packet.packet_id))
        elif isinstance(packet, Pubrel):
            self.send(Pubcomp(packet.packet_id))
        elif isinstance(packet, Pubrec):
            self.send(Pubrel(packet.packet_id))

    @property
    def connack(self) -> Connack | None:
        return next((packet for packet in self.packets if isinstance(packet, Connack)), None)

    @property
    def is_present(self) -> bool:
        assert self.connack is not None, "no CONNACK"
        assert not self.connack.reason.failed, self.connack
        return self.connack.session_present

    @property
    def ticket(self) -> str:
        """What the client shows when it connects again."""
        assert self.connack is not None, "no CONNACK"
        return self.connack.properties.user_property("roamq-ticket") or ""

    @property
    def is_open(self) -> bool:
        return self.connack is not None and not self.connack.reason.failed and not self.is_closed

    @property
    def publishes(self) -> list[Publish]:
        return [packet for packet in self.packets if isinstance(packet, Publish)]

    @property
    def payloads(self) -> list[str]:
        return [packet.payload.decode() for packet in self.publishes]

    def has(self, kind: type[Puback] | type[Suback] | type[Unsuback] | type[Pubcomp]) -> int:
        """How many packets of a kind have come."""
        return sum(isinstance(packet, kind) for packet in self.packets)


class Network:
    """Brokers that all know each other, and the lines of clients to them."""

    def __init__(
        self,
        scheme: str = "standard",
        delay: float | Callable[[], float] = 0.0,
        brokers: int = 3,
        *,
        link_delays: Mapping[tuple[str, str], float] | None = None,
        cells: Mapping[str, str] | None = None,
        shows_tickets: bool = False,
        **settings: object,
    ) -> None:
        """`link_delays`: from broker to broker, for links that differ from `delay`. `cells`: where clients of MQTT 5
        say they are when they connect to a broker. `shows_tickets`: they show the last ticket that they got."""
        self.now = START
        self.delay = delay if callable(delay) else lambda: delay
        self.link_delays = link_delays or {}
        self._cells = cells or {}
        self._shows_tickets = shows_tickets
        self._heard: dict[str, list[Line]] = {}
        """Client -> its connections, if it shows tickets."""
        names = tuple(BrokerId(f"b{number}") for number in range(1, brokers + 1))
        # A hierarchy needs a tree: here the first broker is the root of the others.
        is_tree = settings.get("overlay") == "hierarchy"
        links = tuple((names[0], name) for name in names[1:]) if is_tree else tuple(combinations(names, 2))
        self.machines = {
            name: Machine(
                Settings(me=name, brokers=names, links=links, scheme=scheme, **settings),  # type: ignore[arg-type]
                self.now,
            )
            for name in names
        }
        self.failures: list[Exception] = []
        self._lines: dict[tuple[BrokerId, int], Line] = {}
        self._due: list[tuple[float, int, Callable[[], None]]] = []
        self._order = count()
        self._numbers = count(1)
        self._last: dict[tuple[BrokerId, BrokerId], float] = {}
        self._timers: dict[tuple[BrokerId, TimerKey], tuple[float, int]] = {}
        self._turns = cycle(names)
        self._busy = False
        self._fed: dict[BrokerId, None] = {}
        """The machines whose outputs nobody has taken, in the order in which they were fed."""
        for a, b in links:
            self.feed(a, lambda m, b=b: m.link_acked(b, 0, self.now))  # type: ignore[misc]
            self.feed(b, lambda m, a=a: m.link_acked(a, 0, self.now))  # type: ignore[misc]
        self.run(0.0 if not callable(delay) else 1.0)

    @property
    def turn(self) -> str:
        return next(self._turns)

    # --- clients ------------------------------------------------------------------------------------------

    def connect(
        self,
        client: str,
        at: str | None = None,
        *,
        clean: bool = False,
        expiry: int = 1000,
        will: Will | None = None,
        version: Version = Version.V5,
        receive_maximum: int | None = None,
        topic_alias_maximum: int | None = None,
        answers: bool = True,
        wait: float | None = 10.0,
        ticket: str | None = None,
    ) -> Line:
        """Connect, and let the network go on until CONNACK has come, for `wait` seconds at most. A client shows the
        `ticket` of its last connection, or asks for one if that is empty."""
        number, broker = next(self._numbers), BrokerId(at or self.turn)
        line = Line(
            broker,
            version,
            lambda data: self.feed(broker, lambda m: m.received(number, data, self.now)),
            lambda: self.feed(broker, lambda m: m.lost(number, self.now)),
        )
        line.answers = answers
        self._lines[broker, number] = line
        self.feed(broker, lambda m: m.opened(number, self.now, "test", "client"))
        properties = Properties()
        if self._shows_tickets and version is Version.V5:
            before = self._heard.setdefault(client, [])
            ticket = next((line.ticket for line in reversed(before) if line.connack is not None), "")
            before.append(line)
        told = [("roamq-ticket", ticket)] if ticket is not None else []
        if broker in self._cells:
            told.append(("roamq-cell", self._cells[broker]))
        if version is Version.V5:
            properties = Properties(
                session_expiry_interval=expiry,
                receive_maximum=receive_maximum,
                topic_alias_maximum=topic_alias_maximum,
                user_properties=tuple(told),
            )
        connect = Connect(
            version=version, client_id=client, clean_start=clean, will=will, properties=properties
        )
        line.send(connect)
        if wait is not None:
            self.run(wait, until=lambda: line.connack is not None or line.is_closed)
        return line

    # --- time ---------------------------------------------------------------------------------------------

    def run(self, seconds: float = 1.0, until: Callable[[], bool] | None = None) -> None:
        """Let everything happen that is due within `seconds`, or until a condition holds."""
        end = self.now + seconds
        while not (until is not None and until()) and self._due and self._due[0][0] <= end:
            self.now, _, action = heapq.heappop(self._due)
            action()
        if until is None:
            self.now = end

    def at(self, time: float, action: Callable[[], None]) -> int:
        number = next(self._order)
        heapq.heappush(self._due, (time, number, action))
        return number

    def feed(self, broker: BrokerId, act: Callable[[Machine], None]) -> None:
        """Give a machine an input, and take its outputs."""
        try:
            act(self.machines[broker])
        except Exception as error:
            self.failures.append(error)
        self._fed[broker] = None
        if not self._busy:
            self._busy = True
            try:
                while self._fed:
                    name = next(iter(self._fed))
                    del self._fed[name]
                    self._take(name)
            finally:
                self._busy = False

    # --- outputs ------------------------------------------------------------------------------------------

    def _take(self, name: BrokerId) -> None:
        out = self.machines[name].take_outputs()
        for to, frames in out.frames.items():
            for frame in frames:
                self._carry(name, to, frame)
        for key, when in out.timers.items():
            if when is None:
                self._timers.pop((name, key), None)
            else:
                number = self.at(when, lambda key=key: self._ring(name, key))  # type: ignore[misc]
                self._timers[name, key] = (when, number)
        for login in out.logins:
            verdict = lambda m, login=login: m.authenticated(login.connection, None, self.now, allowed=True)  # noqa: E731
            self.feed(name, verdict)
        for number, mqtt in out.dirty.items():
            data = b"".join(mqtt.take_output())
            line = self._lines.get((name, number))
            if data and line is not None and not line.is_closed:
                line.hear(data)
        for number in out.closing:
            line = self._lines.get((name, number))
            if line is not None:
                line.drop()

    def _carry(self, source: BrokerId, target: BrokerId, frame: tuple[int, bytes]) -> None:
        delay = self.link_delays.get((source, target)) if self.link_delays else None
        when = max(
            self.now + (self.delay() if delay is None else delay), self._last.get((source, target), 0.0)
        )
        self._last[source, target] = when
        self.at(when, lambda: self._arrive(source, target, frame))

    def _arrive(self, source: BrokerId, target: BrokerId, frame: tuple[int, bytes]) -> None:
        self.feed(target, lambda m: m.link_received(source, *frame, self.now))
        self.feed(source, lambda m: m.link_acked(target, frame[0], self.now))

    def _ring(self, name: BrokerId, key: TimerKey) -> None:
        due = self._timers.get((name, key))
        if due is not None and due[0] <= self.now + 1e-9:
            del self._timers[name, key]
            self.feed(name, lambda m: m.timer(key, self.now))
