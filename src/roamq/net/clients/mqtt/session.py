"""One connection of one client, seen from the server: packets come in, packets and inputs of the machine go out.

There is no socket, clock or task in here. The machine brings bytes and the time, and acts on every `ClientInput`. The
machine decides what the protocol cannot know - may the client come in, is a message stored, may the client subscribe -
and calls the methods on the right; the connection answers everything else itself. A broken rule ends in `Closed` with
the reason that the standard names.

    receive(bytes) -> ConnectRequested            accept, refuse
                   -> Publish                     published
                   -> Subscribe, Unsubscribe      examine and subscribed, unsubscribe
                   -> Acknowledged
                   -> Closed
    deliver(event) -> DeliveryOutcome
"""

import struct
from collections.abc import Callable, Sequence
from enum import Enum
from typing import Final

import msgspec

from roamq.core.events import Event, Seconds
from roamq.core.filters import Filter
from roamq.net.clients.mqtt import negotiation
from roamq.net.clients.mqtt.answers import connack_reason, disconnect_reason, encode_answer, explanation
from roamq.net.clients.mqtt.codec import (
    NO_PROPERTIES,
    PINGRESP,
    Auth,
    Connack,
    Connect,
    Decoder,
    Disconnect,
    MqttError,
    Packet,
    Pingreq,
    Properties,
    Puback,
    Pubcomp,
    Publish,
    Pubrec,
    Pubrel,
    ReasonCode,
    Suback,
    Subscribe,
    Unsuback,
    Unsubscribe,
    Version,
    encode,
)
from roamq.net.clients.mqtt.codec.packets import V5, V311
from roamq.net.clients.mqtt.codec.reason_codes import FAILED
from roamq.net.clients.mqtt.inbound import Inbound
from roamq.net.clients.mqtt.inputs import (
    ClientInput,
    Closed,
    ConnectRequested,
)
from roamq.net.clients.mqtt.limits import Limits
from roamq.net.clients.mqtt.negotiation import Terms
from roamq.net.clients.mqtt.outbound import DeliveryOutcome, Outbound
from roamq.net.clients.mqtt.state import SessionState
from roamq.net.clients.mqtt.subscribing import Examined, examine, grant
from roamq.net.clients.mqtt.subscriptions import SubscriptionSet

_SUCCESS: Final = ReasonCode.SUCCESS
_acknowledgement: Final = struct.Struct(">BBH").pack
"""PUBACK or PUBREC in its shortest form: first byte, remaining length, packet id."""
_CONNACKS_311: Final = (b"\x20\x02\x00\x00", b"\x20\x02\x01\x00")
"""CONNACK of 3.1.1 that lets a client in: without a session, and with one."""
_suback_of_one: Final = struct.Struct(">BBHB").pack
"""SUBACK of 3.1.1 for one topic filter: most SUBSCRIBEs have one."""


class ConnectionPhase(Enum):
    """How far the connection has come."""

    NEW = "new"
    """No packet has come yet."""
    PENDING = "pending"
    """CONNECT has come; the machine has not decided."""
    OPEN = "open"
    CLOSED = "closed"


_NEW: Final = ConnectionPhase.NEW
PENDING: Final = ConnectionPhase.PENDING
_OPEN: Final = ConnectionPhase.OPEN
CLOSED: Final = ConnectionPhase.CLOSED
"""For tests on every packet: Python 3.11 takes ten times as long to look into an enumeration."""


class ServerConnection:
    """The server's side of one connection."""

    __slots__ = (
        "_decoder",
        "_early",
        "_inbound",
        "_new_client_id",
        "_plain_qos",
        "connect",
        "limits",
        "outbound",
        "output",
        "phase",
        "received_at",
        "state",
        "subscriptions",
        "terms",
    )

    def __init__(self, limits: Limits, new_client_id: Callable[[], str]) -> None:
        self.limits = limits
        self.phase = _NEW
        self.output: list[bytes] = []
        self.received_at: Seconds = 0.0
        """The time when the last packet came."""
        self._new_client_id = new_client_id
        self._decoder = Decoder(max_packet_size=limits.maximum_packet_size)
        self._early: list[Packet] | None = None
        """Packets that the client sent before the broker answered its CONNECT."""
        # Fields that are known from CONNECT on, and from `accept` on.
        self.connect: Connect
        self.terms: Terms
        self.state: SessionState
        self.subscriptions: SubscriptionSet
        self.outbound: Outbound
        self._inbound: Inbound | None = None
        self._plain_qos = 0
        """The highest QoS at which a PUBLISH without properties changes nothing in the state of the connection."""

    # --- bytes ---------------------------------------------------------------------------------------------

    def receive(self, data: bytes, now: Seconds) -> list[ClientInput]:
        """Read bytes, and return the inputs that they mean, in order."""
        if self.phase is CLOSED:
            return []
        failure: MqttError | None = None
        try:
            packets = self._decoder.feed(data)
        except MqttError as error:
            # Drop the traceback, which would hold this frame, and the socket, until the collector runs.
            failure, packets = error.with_traceback(None), error.decoded
        if packets:
            self.received_at = now
        inputs: list[ClientInput] = []
        self._handle_all(packets, inputs, now)
        if failure is not None:
            self._fail(failure, inputs, now)
        return inputs

    @property
    def reading_paused(self) -> bool:
        """Whether the machine has not decided on CONNECT: further reads would only pile up packets here."""
        return self.phase is PENDING

    @property
    def unread_connect(self) -> int | None:
        """How many bytes at the end of the last read belong to a second CONNECT, which may hold a password."""
        return self._decoder.unread_connect

    @property
    def inbound(self) -> Inbound:
        """The receiving half. Clients that only subscribe, or publish plainly, never need it."""
        if self._inbound is None:
            self._inbound = Inbound(self.state, self.terms, self.limits)
        return self._inbound

    def take_output(self) -> list[bytes]:
        """Take the pieces to write, in order; from now on the caller owns them."""
        pieces = self.output[:]
        self.output.clear()  # the list itself is shared with `outbound`
        return pieces

    def _handle_all(self, packets: Sequence[Packet], inputs: list[ClientInput], now: Seconds) -> None:
        try:
            for packet in packets:
                if self.phase is _OPEN:
                    if type(packet) is Publish:
                        if (
                            packet.qos <= self._plain_qos
                            and not packet.retain
                            and packet.properties is NO_PROPERTIES
                        ):
                            inputs.append(packet)
                        else:
                            self._on_publish(packet, inputs)
                    elif type(packet) is Puback:
                        self.outbound.puback(packet, inputs)
                    else:
                        self._handle(packet, inputs, now)
                elif self.phase is CLOSED:
                    # [MQTT-3.1.4-6], [MQTT-3.14.4-1]
                    return
                else:
                    self._handle_before_open(packet, inputs, now)
        except MqttError as error:
            self._fail(error, inputs, now)

    def _handle_before_open(self, packet: Packet, inputs: list[ClientInput], now: Seconds) -> None:
        if self.phase is _NEW:
            assert isinstance(packet, Connect), "the decoder lets nothing else come first"
            self._on_connect(packet, inputs)
        elif isinstance(packet, Auth):
            raise _auth_without_method()
        elif isinstance(packet, Connect):
            raise _second_connect()
        elif self._early is None:
            self._early = [packet]
        else:
            self._early.append(packet)

    def _handle(self, packet: Packet, inputs: list[ClientInput], now: Seconds) -> None:
        """Handle a packet of an open connection; `_handle_all` does PUBLISH and PUBACK, which come by the thousand."""
        match packet:
            case Subscribe() | Unsubscribe():
                if self.terms.packet_size_max is not None:
                    self._check_answer_fits(packet, self.terms.packet_size_max)
                inputs.append(packet)
            case Pubrec():
                reason = self.outbound.pubrec(packet, inputs)
                if reason is not None:
                    self._send(Pubrel(packet.packet_id, reason))
            case Pubrel():
                self._send(Pubcomp(packet.packet_id, self.inbound.pubrel(packet)))
            case Pubcomp():
                self.outbound.pubcomp(packet, inputs)
            case Pingreq():
                self._send(PINGRESP)  # [MQTT-3.12.4-1]
            case Disconnect():
                self._on_disconnect(packet, inputs, now)
            case Auth():
                raise _auth_without_method()
            case Connect():
                raise _second_connect()
            case _:
                raise MqttError(f"{type(packet).__name__} from a client", ReasonCode.PROTOCOL_ERROR)

    def _check_answer_fits(self, packet: Subscribe | Unsubscribe, most: int) -> None:
        """[MQTT-3.1.2-24]: an answer that is too large for the client can be neither sent nor left out."""
        count = len(packet.requests if isinstance(packet, Subscribe) else packet.topic_filters)
        if len(encode(Unsuback(packet.packet_id, (_SUCCESS,) * count), self.terms.version)) > most:
            raise MqttError("the answer exceeds the Maximum Packet Size", ReasonCode.PACKET_TOO_LARGE)

    # --- coming in -----------------------------------------------------------------------------------------

    def _on_connect(self, packet: Connect, inputs: list[ClientInput]) -> None:
        self.connect = packet
        self.phase = PENDING
        assigned = "" if packet.client_id else self._new_client_id()
        try:
            self.terms = negotiation.negotiate(packet, self.limits, assigned)
        except MqttError as error:
            error.version = packet.version
            raise
        if self.terms.packet_size_max is not None:
            smallest = negotiation.connack(packet, self.terms, self.limits, session_present=False)
            if encode_answer(smallest, self.terms) is None:
                # [MQTT-3.1.2-24]: not even CONNACK may be sent, and nothing comes before it ([MQTT-3.2.0-1])
                self.phase = ConnectionPhase.CLOSED
                return
        inputs.append(ConnectRequested(packet, self.terms.client_id))

    def accept(
        self,
        state: SessionState | None,
        now: Seconds,
        *,
        user_properties: tuple[tuple[str, str], ...] = (),
    ) -> list[ClientInput]:
        """Let the client in, with its session or a new one. Return the inputs that it has sent meanwhile.

        A client that sends user properties of the same names gets `user_properties`, so that no client is told what it
        does not know. The context may hand events over right after.
        """
        assert self.phase is PENDING
        # [MQTT-3.1.2-4], [MQTT-3.2.2-2]: with Clean Start the machine has ended the old session.
        assert state is None or not self.connect.clean_start
        present = state is not None  # [MQTT-3.2.2-3]
        terms = self.terms
        self.state = state if state is not None else SessionState(client_id=terms.client_id)
        self.state.connected(self.connect.will, terms.session_expiry)
        self.subscriptions = SubscriptionSet(self.state)
        self.outbound = Outbound(self.state, terms, self.subscriptions, self.output)
        self._inbound = None
        # Without an agreed Receive Maximum there is nothing to count at QoS 1 either.
        self._plain_qos = 1 if terms.version is V311 and self.limits.maximum_qos else 0
        self.phase = _OPEN
        self.received_at = now
        if terms.version is V311:
            self.output.append(_CONNACKS_311[present])
        else:
            self._send(self._connack(present, user_properties))
        if present:
            self.outbound.resume()
        inputs: list[ClientInput] = []
        if self._early is not None:
            early, self._early = self._early, None
            self._handle_all(early, inputs, now)
        return inputs

    def _connack(self, present: bool, user_properties: tuple[tuple[str, str], ...]) -> Connack:
        connack = negotiation.connack(self.connect, self.terms, self.limits, session_present=present)
        if not user_properties:
            return connack
        known = {name for name, _ in self.connect.properties.user_properties}
        told = tuple(pair for pair in user_properties if pair[0] in known)
        properties = msgspec.structs.replace(connack.properties, user_properties=told)
        return msgspec.structs.replace(connack, properties=properties)

    def join(self, earlier: SessionState) -> None:
        """Join the session that the client was not made to wait for: it has come, and becomes part of this one."""
        for topic_filter, subscription in earlier.subscriptions.items():
            if topic_filter not in self.state.subscriptions:
                self.subscriptions.add(subscription)
        self.outbound.join(earlier)
        self.state.join(earlier)

    def refuse(
        self, reason: ReasonCode, reason_string: str = "", server_reference: str | None = None
    ) -> None:
        """Send a client away that was not let in ([MQTT-3.2.2-7]); no session was touched."""
        assert self.phase is ConnectionPhase.PENDING
        properties = explanation(reason_string, server_reference)
        self._refuse(reason, properties, self.connect.version)

    # --- publishing ----------------------------------------------------------------------------------------

    def _on_publish(self, packet: Publish, inputs: list[ClientInput]) -> None:
        """Check a PUBLISH that may change the state of the connection; `_handle_all` takes the others."""
        result = self.inbound.publish(packet)
        if isinstance(result, Publish):
            inputs.append(result)
        elif result is not None:
            self.published(packet, result)

    def published(self, packet: Publish, reason: ReasonCode = _SUCCESS, reason_string: str = "") -> None:
        """Acknowledge a message that the broker has stored or refuses ([MQTT-3.3.4-1]).

        The machine calls this in the order in which messages came ([MQTT-4.6.0-2], [MQTT-4.6.0-3]). At QoS 0 the client
        gets no answer. 3.1.1 has no word for a refusal: there the message is acknowledged all the same.
        """
        if not packet.qos:
            return
        if packet.qos == 2 or self.terms.version is V5:
            self.inbound.answered(packet, reason)
        if self.phase is not _OPEN:
            return
        if reason is _SUCCESS or self.terms.version is Version.V311:
            self.output.append(_acknowledgement(0x40 if packet.qos == 1 else 0x50, 2, packet.packet_id))
            return
        answer = Puback if packet.qos == 1 else Pubrec
        self._send(answer(packet.packet_id, reason, explanation(reason_string)))

    # --- subscribing ---------------------------------------------------------------------------------------

    def examine(self, packet: Subscribe) -> Examined:
        """The part of the SUBSCRIBE that the protocol allows; the machine decides on the rest, with `subscribed`."""
        return examine(packet, self.subscriptions, self.limits)

    def grant(self, examined: Examined, reasons: Sequence[ReasonCode], reason_string: str = "") -> Suback:
        """Take the machine's decision on each of `examined.wanted`, by a granted QoS or a failure; `answer` follows."""
        return grant(examined, reasons, reason_string, self.subscriptions)

    def answer(self, suback: Suback) -> None:
        """Send the SUBACK of `grant`."""
        if len(suback.reasons) == 1 and self.terms.version is V311:
            if self.phase is not CLOSED:
                (reason,) = suback.reasons  # [MQTT-3.9.3-2] of 3.1.1: one code for every failure
                self.output.append(
                    _suback_of_one(0x90, 3, suback.packet_id, reason if reason < FAILED else FAILED)
                )
            return
        self._send(suback)

    def subscribed(self, examined: Examined, reasons: Sequence[ReasonCode], reason_string: str = "") -> None:
        """Grant, and send the SUBACK at once."""
        self.answer(self.grant(examined, reasons, reason_string))

    def unsubscribe(self, packet: Unsubscribe) -> list[Filter]:
        """Drop the subscriptions and answer. Return the filter of each that was there."""
        removed: list[Filter] = []
        reasons: list[ReasonCode] = []
        for topic_filter in packet.topic_filters:  # [MQTT-3.10.4-6]
            filter_ = self.subscriptions.remove(topic_filter)
            reasons.append(ReasonCode.NO_SUBSCRIPTION_EXISTED if filter_ is None else _SUCCESS)
            if filter_ is not None:
                removed.append(filter_)
        self._send(Unsuback(packet.packet_id, tuple(reasons)))  # [MQTT-3.10.4-4], [MQTT-3.10.4-5]
        return removed

    # --- delivering ----------------------------------------------------------------------------------------

    def deliver(self, event: Event, now: Seconds) -> DeliveryOutcome:
        """Send an event to the client; the context hands over no more than `terms.window` at once."""
        return self.outbound.deliver(event, now)

    # --- leaving -------------------------------------------------------------------------------------------

    def keep_alive_deadline(self) -> Seconds | None:
        """The time when the client counts as gone unless a packet comes before ([MQTT-3.1.2-22])."""
        if self.phase is not _OPEN or not self.terms.keep_alive:
            return None
        return self.received_at + 1.5 * self.terms.keep_alive

    def check_keep_alive(self, now: Seconds) -> list[ClientInput]:
        deadline = self.keep_alive_deadline()
        if deadline is None or now < deadline:
            return []
        return self.close(ReasonCode.KEEP_ALIVE_TIMEOUT, now, "keep alive timed out")

    def close(
        self, reason: ReasonCode, now: Seconds, detail: str = "", server_reference: str | None = None
    ) -> list[ClientInput]:
        """Close the connection from our side, with DISCONNECT if its version has one and the client is in
        ([MQTT-3.14.0-1])."""
        if self.phase is ConnectionPhase.CLOSED:
            return []
        if self.phase is ConnectionPhase.PENDING:
            self.refuse(reason, detail, server_reference)
            return []
        if self.phase is ConnectionPhase.OPEN and self.terms.version is Version.V5:
            properties = explanation(detail, server_reference)
            self._send(Disconnect(disconnect_reason(reason), properties))
        return self._closed(reason, detail, now, by_client=False)

    def abandon(self) -> None:
        """Close the connection in whatever state our own failure has left it."""
        self.phase = ConnectionPhase.CLOSED

    def lost(self, now: Seconds) -> list[ClientInput]:
        """End a connection whose socket closed without DISCONNECT."""
        if self.phase is ConnectionPhase.CLOSED:
            return []
        return self._closed(ReasonCode.UNSPECIFIED_ERROR, "connection lost", now, by_client=False)

    def _on_disconnect(self, packet: Disconnect, inputs: list[ClientInput], now: Seconds) -> None:
        expiry = packet.properties.session_expiry_interval
        self.state.expiry_interval = negotiation.disconnect_expiry(expiry, self.terms, self.limits)
        if packet.reason is ReasonCode.NORMAL_DISCONNECTION:
            # [MQTT-3.14.4-3], [MQTT-3.1.2-10]
            self.state.will = None
        inputs.extend(self._closed(packet.reason, "client disconnected", now, by_client=True))

    def _closed(self, reason: ReasonCode, detail: str, now: Seconds, *, by_client: bool) -> list[ClientInput]:
        was_open = self.phase is ConnectionPhase.OPEN
        self.phase = ConnectionPhase.CLOSED
        if not was_open:
            return []
        self.state.disconnected(now)
        return [Closed(reason, detail, by_client)]

    def _fail(self, error: MqttError, inputs: list[ClientInput], now: Seconds) -> None:
        """Say why, and close ([MQTT-4.13.1-1], [MQTT-4.13.2-1])."""
        if self.phase is ConnectionPhase.OPEN:
            inputs.extend(self.close(error.reason, now, str(error)))
        elif self.phase is not ConnectionPhase.CLOSED:
            # Before CONNECT was read, the peer may not speak MQTT: send no answer then ([MQTT-3.1.4-1]).
            version = error.version or (
                self.connect.version if self.phase is ConnectionPhase.PENDING else None
            )
            if version is not None:
                self._refuse(error.reason, explanation(str(error)), version)
            self.phase = ConnectionPhase.CLOSED

    # --- sending -------------------------------------------------------------------------------------------

    def _send(self, packet: Packet) -> None:
        if self.phase is ConnectionPhase.CLOSED:
            return  # [MQTT-3.14.4-1] the machine answers an earlier packet, and the client reads no more
        data = encode_answer(packet, self.terms)
        if data is not None:
            self.output.append(data)

    def _refuse(self, reason: ReasonCode, properties: Properties, version: Version) -> None:
        # [MQTT-3.2.2-6], [MQTT-3.2.2-7]
        most = self.connect.properties.maximum_packet_size if self.phase is ConnectionPhase.PENDING else None
        for explained in (properties, NO_PROPERTIES):
            data = encode(Connack(False, connack_reason(reason), explained), version)
            if most is None or len(data) <= most:  # [MQTT-3.1.2-24]
                self.output.append(data)
                break
        self.phase = ConnectionPhase.CLOSED


def _second_connect() -> MqttError:
    # [MQTT-3.1.0-2]
    return MqttError("second CONNECT", ReasonCode.PROTOCOL_ERROR)


def _auth_without_method() -> MqttError:
    # [MQTT-4.12.0-7]; a CONNECT that names a method is refused (`negotiation`)
    return MqttError("AUTH without an authentication method", ReasonCode.PROTOCOL_ERROR)
