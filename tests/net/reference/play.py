"""Plays one sequence against a network and the model at once: every observable answer must be one the model allows.

The network comes to rest after each action, so that the model says exactly what each client must have been sent. Within
a burst it does not: there, clients move and publish while the news of what they did before is on its way, and what each
client got by the end of the burst must be what one broker would have sent.
"""

from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from itertools import count, permutations
from random import Random
from typing import Any, Protocol

from roamq.net.clients.mqtt.codec import (
    Disconnect,
    Properties,
    Puback,
    Pubcomp,
    Publish,
    Pubrec,
    Pubrel,
    ReasonCode,
    Suback,
    Subscribe,
    SubscriptionRequest,
    Unsuback,
    Unsubscribe,
    Version,
    Will,
)
from tests.net.borders import CELLS, options_for
from tests.net.network import Line, Network
from tests.net.reference.actions import CLIENTS, FOREVER, Action
from tests.net.reference.model import EMPTY, GROUP, Message, Model, Options, ReferenceWill, Seen, matches

SETTLE_S = 0.6
GROUPED = GROUP.split("/", 2)[2]


class DisagreementError(AssertionError):
    """The network did what the model does not allow."""


class World(Protocol):
    """Where a sequence is played."""

    failures: list[Exception]

    def connect(
        self,
        client: str,
        *,
        clean: bool,
        expiry: int,
        will: Will | None,
        version: Version,
        receive_maximum: int | None,
        topic_alias_maximum: int | None,
        answers: bool,
        wait: None,
    ) -> Line: ...

    def run(self, seconds: float) -> None:
        """Let that much time pass, if time is simulated, or come to rest."""


def simulated(
    scheme: str, brokers: int, seed: int, overlay: str = "flooding", *, is_plain: bool = True
) -> Network:
    """Brokers whose links have random delays: each message another one, or, but for `is_plain`, each way its own."""
    random = Random(seed)
    delays = None
    if not is_plain and seed % 2:
        names = [f"b{number}" for number in range(1, brokers + 1)]
        delays = {way: random.choice((0.0, 0.001, 0.06)) for way in permutations(names, 2)}
    delay = lambda: random.choice((0.0, 0.001, 0.02, 0.04))  # noqa: E731
    given: dict[str, Any] = {}
    if scheme == "prehandoff" and not is_plain:
        # Clients are at home everywhere, and every other broker expects them.
        given = {"cells": CELLS, "scheme_options": options_for(brokers), "shows_tickets": seed % 3 > 0}
    return Network(scheme, delay, brokers, overlay=overlay, link_delays=delays, **given)


class Play:
    """One sequence."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.model = Model(CLIENTS)
        self.lines: dict[str, Line] = {}
        self.unread: dict[str, list[tuple[Line, int]]] = {client: [] for client in CLIENTS}
        """The connections of a client, and how many messages on each were looked at."""
        self.numbers = count(1)
        self.packet_ids = {client: count(1) for client in CLIENTS}
        self.entered: dict[int, str] = {}
        """Where messages entered, by number."""
        self.latest: dict[tuple[Line, str], int] = {}
        """The last message that came on a connection, of those that entered at one broker."""
        self.aliases: dict[tuple[Line, int], str] = {}
        """What publishers have made their topic aliases stand for."""
        self.finished: Counter[Line] = Counter()
        """How many messages of QoS 1 and 2 were acknowledged on a connection, to the end."""

    def run(self, actions: Iterable[Action]) -> None:
        for action in actions:
            self.calm_down()
            if action[0] == "burst":
                self.open_windows(CLIENTS)
                self.burst(action[1:])
            else:
                self.do(*action)
            self.rest()
            self.compare(action)
        self.bring_all_back()
        if self.world.failures:
            raise DisagreementError(f"an input failed: {self.world.failures[0]!r}")

    def open_windows(self, clients: Iterable[str]) -> None:
        """A burst is too short to see how soon a window is filled, and whether a subscription that changes is for what
        waits already is open."""
        for client in clients:
            session = self.model.sessions.get(client)
            if session is None or session.window is None or not session.is_connected:
                continue
            action = ("connect", client, 5, False, FOREVER, None, False)
            self.do(*action)
            self.rest()
            self.compare(action)

    # --- time -----------------------------------------------------------------------------------------------

    def calm_down(self) -> None:
        """No deadline may fall into the time that an action takes: which came first would be open."""
        while any(at - self.model.now < 4 * SETTLE_S for at in self.model.deadlines()):
            self.rest()
            self.compare(("rest",))

    def rest(self, seconds: float = SETTLE_S) -> None:
        """Let time pass, and not end the moment after a deadline: what it causes must have arrived."""
        while any(abs(at - self.model.now - seconds) < 0.2 for at in self.model.deadlines()):
            seconds += 0.1
        self.pass_time(seconds)

    def pass_time(self, seconds: float) -> None:
        self.world.run(seconds)
        self.model.advance(self.model.now + seconds)

    # --- actions --------------------------------------------------------------------------------------------

    def do(self, kind: str, *details: Any) -> None:
        match kind:
            case "connect":
                old = self.lines.get(details[0])
                present = self.connect(*details)
                self.rest()
                self.check_connected(details[0], old, present)
            case "wait":
                self.rest(details[0])
            case _:
                if kind in ("subscribe", "unsubscribe"):
                    self.open_windows(details[:1])
                line = self.lines.get(details[0])
                if line is not None and not line.is_closed:
                    self.ask(kind, line, *details)

    def burst(self, parts: Iterable[Action]) -> None:
        """Actions that follow each other sooner than news of them travels. Who is gone after them comes back: what was
        on its way to it may have missed it."""
        dropped: set[str] = set()
        for after, kind, *details in parts:
            self.pass_time(after)
            line, session = self.lines.get(details[0]), self.model.sessions.get(details[0])
            if kind != "publish" and (session is None or not session.expiry):
                continue  # the session would end with its connection
            dropped |= {details[0]} if kind == "drop" else set()
            if kind == "connect":
                self.connect(*details)
            elif line is not None and line.is_open:
                self.ask(kind, line, *details)
        for client in sorted(dropped):
            self.pass_time(0.01)
            self.connect(client, 5, False, FOREVER, None, False)

    def connect(
        self,
        client: str,
        version: int,
        clean: bool,
        expiry: int,
        willed: tuple[int, int, bool] | None,
        mute: bool,
        window: int | None = None,
        aliases: int = 0,
    ) -> bool:
        """Returns what Session Present must be."""
        will = said = None
        if willed is not None:
            delay, qos, retain = willed
            message = Message(next(self.numbers), "a/b", qos, retain, client)
            will = ReferenceWill(message, delay)
            properties = Properties(will_delay_interval=delay if version == 5 else None)
            payload = str(message.number).encode()
            said = Will(topic="a/b", payload=payload, qos=qos, retain=retain, properties=properties)
        line = self.world.connect(
            client,
            clean=clean,
            expiry=expiry,
            will=said,
            version=Version(version),
            receive_maximum=window,
            topic_alias_maximum=aliases or None,
            answers=not mute,
            wait=None,
        )
        line.releases = True
        line.packet_ids = self.packet_ids[client]
        self.lines[client] = line
        self.unread[client].append((line, 0))
        return self.model.connect(client, clean, expiry, will, mute, window)

    def check_connected(self, client: str, old: Line | None, present: bool) -> None:
        line = self.lines[client]
        if line.connack is None or line.connack.reason.failed or line.is_closed:
            raise DisagreementError(f"{client} was not let in: {line.packets}")
        if line.is_present != present:
            raise DisagreementError(f"{client}: Session Present is {line.is_present}, must be {present}")
        if old is not None and not old.is_closed:
            raise DisagreementError(f"{client}: the old connection is open")
        if old is not None and any(isinstance(p, Disconnect) for p in old.packets):
            reason = next(p.reason for p in old.packets if isinstance(p, Disconnect))
            if reason is not ReasonCode.SESSION_TAKEN_OVER:
                raise DisagreementError(f"{client}: the old connection was closed with {reason!r}")
        releases = sum(isinstance(packet, Pubrel) for packet in line.packets)
        session = self.model.sessions[client]
        if session.is_mute and releases != session.released:
            raise DisagreementError(f"{client}: {releases} PUBREL, must be {session.released}")

    def ask(self, kind: str, line: Line, client: str, *details: Any) -> None:
        match kind:
            case "drop":
                line.drop()
                self.model.drop(client)
            case "disconnect":
                self.disconnect(line, client, *details)
            case "subscribe":
                self.subscribe(line, client, *details)
            case "unsubscribe":
                self.unsubscribe(line, client, *details)
            case "acknowledge":
                self.acknowledge(line, client, *details)
            case "confirm":
                self.confirm(line, client)
            case "publish":
                self.publish(line, client, *details)

    def disconnect(self, line: Line, client: str, with_will: bool, expiry: int | None) -> None:
        if line.version is Version.V311:
            with_will, expiry = False, None
        if self.model.sessions[client].expiry == 0:
            expiry = None  # [MQTT-3.14.2.2.2]: it must not become more than zero
        reason = ReasonCode.DISCONNECT_WITH_WILL if with_will else ReasonCode.NORMAL_DISCONNECTION
        line.send(Disconnect(reason, Properties(session_expiry_interval=expiry)))
        line.drop()
        self.model.disconnect(client, with_will, expiry)

    def subscribe(self, line: Line, client: str, topic_filter: str, options: Options) -> None:
        if line.version is Version.V311:
            options = Options(options.qos)
        if topic_filter == GROUP:
            options = options._replace(no_local=False)  # [MQTT-3.8.3-4]
        request = SubscriptionRequest(
            topic_filter,
            options.qos,
            options.no_local,
            options.retain_as_published,
            options.retain_handling,
        )
        identifiers = (options.identifier,) if options.identifier else ()
        packet_id = next(self.packet_ids[client])
        line.send(Subscribe(packet_id, (request,), Properties(subscription_identifiers=identifiers)))
        self.model.subscribe(client, topic_filter, options)
        self.rest()
        answers = [p.reasons for p in line.packets if isinstance(p, Suback) and p.packet_id == packet_id]
        if answers != [(ReasonCode(options.qos),)]:
            raise DisagreementError(f"{client}: SUBACK {answers}, must be {options.qos}")

    def unsubscribe(self, line: Line, client: str, topic_filter: str) -> None:
        packet_id = next(self.packet_ids[client])
        line.send(Unsubscribe(packet_id, (topic_filter,)))
        existed = self.model.unsubscribe(client, topic_filter)
        self.rest()
        answers = [p.reasons for p in line.packets if isinstance(p, Unsuback) and p.packet_id == packet_id]
        must = (ReasonCode.SUCCESS if existed else ReasonCode.NO_SUBSCRIPTION_EXISTED,)
        if len(answers) != 1 or (line.version is Version.V5 and answers != [must]):
            raise DisagreementError(f"{client}: UNSUBACK {answers}, must be {must}")

    def acknowledge(
        self,
        line: Line,
        client: str,
        how_many: int,
        is_complete: bool,
        skipped: int = 0,
        is_refused: bool = False,
    ) -> None:
        """Acknowledge messages of a connection that does not by itself, but for the first ones that are skipped."""
        if line.answers:
            return
        done = {p.packet_id for p in line.acknowledged}
        waiting = [p for p in line.publishes if p.qos and p.packet_id not in done]
        reason = ReasonCode.SUCCESS
        if is_refused and line.version is Version.V5:
            reason, is_complete = ReasonCode.UNSPECIFIED_ERROR, True
        for packet in waiting[skipped : skipped + how_many]:
            line.acknowledged.append(packet)
            answer = Puback if packet.qos == 1 else Pubrec
            line.send(answer(packet.packet_id, reason))
            is_over = packet.qos == 1 or is_complete
            self.finished[line] += is_over
            if packet.qos == 2 and not reason.failed:
                self.rest()
                if is_complete:
                    line.send(Pubcomp(packet.packet_id))
            told = tuple(sorted(packet.properties.subscription_identifiers))
            self.model.acknowledge(
                client,
                int(packet.payload or EMPTY),
                packet.qos,
                told if line.version is Version.V5 else None,
                is_retained=packet.retain,
                is_complete=is_over,
                skipped=sum(alike(other, packet) for other in waiting[:skipped]),
            )

    def confirm(self, line: Line, client: str) -> None:
        """Acknowledge what needs one packet, on a connection that does not by itself."""
        done = {p.packet_id for p in line.acknowledged}
        for packet in [
            p for p in line.publishes if p.qos == 1 and p.packet_id not in done and not line.answers
        ]:
            line.acknowledged.append(packet)
            line.send(Puback(packet.packet_id))
            told = tuple(sorted(packet.properties.subscription_identifiers))
            self.model.acknowledge(
                client,
                int(packet.payload or EMPTY),
                1,
                told if line.version is Version.V5 else None,
                is_retained=packet.retain,
                is_complete=True,
            )

    def publish(
        self,
        line: Line,
        client: str,
        topic: str,
        qos: int,
        retain: bool,
        has_payload: bool,
        expiry: int | None,
        alias: int = 0,
    ) -> None:
        if line.version is Version.V311:
            expiry, alias = None, 0
        message = Message(next(self.numbers), topic, qos, retain, client)
        if expiry is not None:
            message = replace(message, expires_at=self.model.now + expiry)
        payload = str(message.number).encode() if has_payload else b""
        properties = Properties(message_expiry_interval=expiry, topic_alias=alias or None)
        packet_id = next(self.packet_ids[client]) if qos else 0
        is_known = alias > 0 and self.aliases.get((line, alias)) == topic
        self.aliases[line, alias] = topic
        self.entered[message.number] = line.broker
        said = "" if is_known else topic
        line.send(Publish(said, payload, qos, retain, packet_id=packet_id, properties=properties))
        self.model.publish(message, has_payload)

    # --- what clients got -----------------------------------------------------------------------------------

    def take(self, client: str, is_hasty: bool) -> list[Seen]:
        """What has come since the last look, on any connection of the client."""
        came: list[Seen] = []
        for place, (line, read) in enumerate(self.unread[client]):
            publishes = line.publishes[read:]
            self.unread[client][place] = (line, read + len(publishes))
            for packet in publishes:
                number = int(packet.payload or EMPTY)
                # Within a burst a client may change its version.
                identifiers = () if is_hasty else tuple(sorted(packet.properties.subscription_identifiers))
                self.check_order(client, line, packet)
                dup = packet.dup and not is_hasty
                entry = (number, packet.topic, packet.qos, packet.retain, identifiers, dup)
                if not (is_hasty and packet.dup and entry in came):  # not acknowledged when the client moved
                    came.append(entry)
        self.unread[client] = self.unread[client][-1:]
        return came

    def check_order(self, client: str, line: Line, packet: Publish) -> None:
        """[MQTT-4.6.0-6]: what entered at one broker comes in that order, on each connection.

        A message that a group hands on, or that was retained, has another place.
        """
        number = int(packet.payload or EMPTY)
        session = self.model.sessions.get(client)
        is_shared = session is None or (GROUP in session.subscriptions and matches(GROUPED, packet.topic))
        if not packet.qos or packet.retain or is_shared or self.entered.get(number, "?") == "?":
            return
        key = (line, self.entered[number])
        if number < self.latest.get(key, 0):
            raise DisagreementError(f"{client}: {number} came after {self.latest[key]}, on one connection")
        self.latest[key] = number

    def compare(self, action: Action) -> None:
        """What each client was sent must be what the model says, but for what the standard leaves open."""
        is_hasty = action[0] == "burst"
        for client, line in self.lines.items():
            got = self.take(client, is_hasty)
            due, self.model.due[client] = self.model.due[client], []
            wanted = [message.seen for message in due]
            if line.version is Version.V311 or is_hasty:
                wanted = [(*entry[:4], (), entry[5] and not is_hasty) for entry in wanted]
            session = self.model.sessions.get(client)
            if session is not None and session.window is not None and not is_hasty:
                self.take_window(client, line, got)
            if is_hasty:
                wanted = list(
                    dict.fromkeys(wanted)
                )  # sent, not acknowledged, and sent again: `take` counts one
            self.take_shares(client, got, list(wanted), is_plain=line.version is Version.V311 or is_hasty)
            must = sorted(w for w in wanted if w[2] or action[0] not in ("connect", "burst"))
            may = [w for w in wanted if w not in must]
            left = sorted(g for g in got if g not in may)
            if is_hasty:
                must = sorted(set(must))  # sent, not acknowledged, and sent again at the next connection
                empty = {entry for entry in left if entry[0] == EMPTY}
                left = sorted([*empty, *(entry for entry in left if entry[0] != EMPTY)])
            if left != must:
                raise DisagreementError(f"{action}: {client} got {left}, must get {must}")

    def take_shares(self, client: str, got: list[Seen], due: list[Seen], *, is_plain: bool) -> None:
        """Leave out what the client got as a member of the shared group: each message once in the network.

        What it gets for another subscription as well comes twice, a copy for each (section 4.8.2).
        """
        session = self.model.sessions.get(client)
        for entry in list(got):
            number, _, qos, retain, came_for, dup = entry
            if entry in due:
                due.remove(entry)
                continue
            if number == EMPTY and dup:  # of a group that the client may have left since
                got.remove(entry)
                continue
            if session is None or GROUP not in session.subscriptions:
                continue
            message = self.model.pool.get(number)
            if number == EMPTY:
                got.remove(entry)
            elif (
                message is not None and not dup and qos == min(message.qos, session.subscriptions[GROUP].qos)
            ):
                identifier = session.subscriptions[GROUP].identifier
                identifiers = (identifier,) if identifier else ()
                if not is_plain and came_for != identifiers:
                    continue
                got.remove(entry)
                del self.model.pool[number]
                if session.is_mute and qos:
                    sent = replace(message, qos=qos, retain=retain, identifiers=identifiers, shared=message)
                    session.unacknowledged.append(replace(sent, sent_on=session.connection))

    def take_window(self, client: str, line: Line, got: list[Seen]) -> None:
        """Leave out what came to a client with a Receive Maximum: the first of what waits, and no more than it takes.

        What it gets as a member of the group is looked at elsewhere. Messages of QoS 0 may be dropped, or wait as well.
        """
        session = self.model.sessions[client]
        now, here = self.model.now, session.connection
        for entry in list(got):
            for place, message in enumerate(session.unacknowledged):
                if message.sent_on == here:
                    continue
                if message.seen == entry:
                    got.remove(entry)
                    session.unacknowledged[place] = replace(message, sent_on=here)
                    if not message.qos:
                        del session.unacknowledged[place]
                    break
                if message.number >= entry[0] or self.entered.get(message.number) != self.entered.get(
                    entry[0]
                ):
                    continue  # what entered at different brokers has no order, nor have copies of one message
                if message.qos and not message.retain and not message.has_expired(now):
                    break  # this one is next; in which order retained messages come is open
        unfinished = sum(packet.qos > 0 for packet in line.publishes) - self.finished[line]
        assert session.window is not None
        if unfinished > session.window:
            raise DisagreementError(f"{client}: {unfinished} are in flight, it takes {session.window}")
        waiting = [
            message
            for message in session.unacknowledged
            if message.sent_on != here and message.qos and (message.dup or not message.has_expired(now))
        ]
        if waiting and not unfinished and not session.released and line.is_open:
            raise DisagreementError(f"{client}: {waiting[0]} does not come, and nothing is in flight")

    def bring_all_back(self) -> None:
        """At the end every session is taken up: whatever was stored for it comes, and nobody's share is left."""
        for client in list(self.model.sessions):
            action = ("connect", client, 5, False, FOREVER, None, False)
            self.calm_down()
            self.do(*action)
            self.rest()
            self.compare(action)
        self.compare(("rest",))
        members = self.model.members()
        for number, message in self.model.pool.items():
            is_open = message.qos == 0 or number in self.model.spare or message.expires_at is not None
            if members and not is_open:
                raise DisagreementError(f"no member got {message}")


def alike(one: Publish, other: Publish) -> bool:
    """Does a client that acknowledges these see the same message?"""
    return (one.payload, one.qos, one.retain, one.properties.subscription_identifiers) == (
        other.payload,
        other.qos,
        other.retain,
        other.properties.subscription_identifiers,
    )
