"""One connection of one client, seen from the server: packets in, packets and meanings out.

No socket, no clock, no task: the shell brings bytes and the time, writes `take_output()`, and hands every
`Input` to the broker. What needs the broker's word - may it come in, is it stored, may it subscribe - waits
for the shell to call back; all else is answered here. Whatever breaks a rule ends in `Closed` with the
reason the standard names.

    receive(bytes) -> ConnectRequested            accept, refuse, challenge
                   -> Publish                     published
                   -> Subscribe, Unsubscribe      examine and subscribed, unsubscribe
                   -> Acknowledged, SessionChanged
                   -> Closed
    deliver(event) -> Outcome
"""

import struct
from collections.abc import Callable, Sequence
from enum import Enum
from typing import Final

import msgspec

from roamq.core.events import Event, Seconds
from roamq.core.filters import Filter
from roamq.net.mqtt import negotiation
from roamq.net.mqtt.answers import connack_reason, disconnect_reason, encode_answer, explanation
from roamq.net.mqtt.codec import (
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
    Subscribe,
    Unsuback,
    Unsubscribe,
    Version,
    encode,
)
from roamq.net.mqtt.codec.topics import parse_share
from roamq.net.mqtt.inbound import Inbound
from roamq.net.mqtt.inputs import (
    AuthenticationStep,
    Closed,
    ConnectRequested,
    Input,
)
from roamq.net.mqtt.limits import Limits
from roamq.net.mqtt.negotiation import Terms
from roamq.net.mqtt.outbound import Outbound, Outcome
from roamq.net.mqtt.state import SessionState
from roamq.net.mqtt.subscribing import Examined, examine, grant
from roamq.net.mqtt.subscriptions import SubscriptionSet

_SUCCESS: Final = ReasonCode.SUCCESS
_acknowledgement: Final = struct.Struct(">BBH").pack
"""PUBACK or PUBREC in its shortest form: first byte, remaining length, packet id."""


class Phase(Enum):
    """How far the connection has come."""

    NEW = "new"
    """Nothing was said yet."""
    PENDING = "pending"
    """CONNECT has come; the shell has not decided."""
    OPEN = "open"
    CLOSED = "closed"


class ServerConnection:
    """The server's side of one connection."""

    def __init__(self, limits: Limits, new_client_id: Callable[[], str]) -> None:
        self.limits = limits
        self.phase = Phase.NEW
        self.output: list[bytes] = []
        self.received_at: Seconds = 0.0
        """When the last packet came."""
        self._new_client_id = new_client_id
        self._decoder = Decoder(max_packet_size=limits.maximum_packet_size)
        self._early: list[Packet] = []
        """What the client sent before we answered its CONNECT."""
        # Known from CONNECT on, and from `accept` on.
        self.connect: Connect
        self.terms: Terms
        self.state: SessionState
        self.subscriptions: SubscriptionSet
        self.outbound: Outbound
        self._inbound: Inbound
        self._plain_qos = 0
        """Up to which QoS a PUBLISH without properties needs no look at the state of the connection."""

    # --- bytes ---------------------------------------------------------------------------------------------

    def receive(self, data: bytes, now: Seconds) -> list[Input]:
        """What the bytes mean, in order."""
        if self.phase is Phase.CLOSED:
            return []
        failure: MqttError | None = None
        try:
            packets = self._decoder.feed(data)
        except MqttError as error:
            failure, packets = error, error.decoded
        if packets:
            self.received_at = now
        inputs: list[Input] = []
        self._handle_all(packets, inputs, now)
        if failure is not None:
            self._fail(failure, inputs, now)
        return inputs

    @property
    def reading_paused(self) -> bool:
        """The shell has not decided on CONNECT: it should read no more, or what is early piles up here."""
        return self.phase is Phase.PENDING and self.terms.authentication_method is None

    def take_output(self) -> list[bytes]:
        """What is to be written; the shell joins and sends it, once per read."""
        pieces = self.output[:]
        self.output.clear()  # the list itself is shared with `outbound`
        return pieces

    def _handle_all(self, packets: Sequence[Packet], inputs: list[Input], now: Seconds) -> None:
        try:
            for packet in packets:
                if self.phase is Phase.OPEN:
                    if type(packet) is Publish:
                        self._on_publish(packet, inputs)
                    elif type(packet) is Puback:
                        self.outbound.puback(packet, inputs)
                    else:
                        self._handle(packet, inputs, now)
                elif self.phase is Phase.CLOSED:
                    # [MQTT-3.1.4-6], [MQTT-3.14.4-1]
                    return
                else:
                    self._handle_before_open(packet, inputs, now)
        except MqttError as error:
            self._fail(error, inputs, now)

    def _handle_before_open(self, packet: Packet, inputs: list[Input], now: Seconds) -> None:
        if self.phase is Phase.NEW:
            assert isinstance(packet, Connect), "the decoder lets nothing else come first"
            self._on_connect(packet, inputs)
        elif isinstance(packet, Auth):
            self._on_auth(packet, inputs)
        elif isinstance(packet, Connect):
            raise _second_connect()
        elif self.terms.authentication_method is not None and not isinstance(packet, Disconnect):
            # [MQTT-3.1.2-30]
            raise MqttError("packet before authentication is over", ReasonCode.PROTOCOL_ERROR)
        else:
            self._early.append(packet)

    def _handle(self, packet: Packet, inputs: list[Input], now: Seconds) -> None:
        """The packets of an open connection, but for the two that come by the thousand."""
        match packet:
            case Pubrec():
                reason = self.outbound.pubrec(packet, inputs)
                if reason is not None:
                    self._send(Pubrel(packet.packet_id, reason))
            case Pubrel():
                self._send(Pubcomp(packet.packet_id, self._inbound.pubrel(packet, inputs)))
            case Pubcomp():
                self.outbound.pubcomp(packet, inputs)
            case Pingreq():
                self._send(PINGRESP)  # [MQTT-3.12.4-1]
            case Subscribe() | Unsubscribe():
                inputs.append(packet)
            case Disconnect():
                self._on_disconnect(packet, inputs, now)
            case Auth():
                self._on_auth(packet, inputs)
            case Connect():
                raise _second_connect()
            case _:
                raise MqttError(f"{type(packet).__name__} from a client", ReasonCode.PROTOCOL_ERROR)

    # --- coming in -----------------------------------------------------------------------------------------

    def _on_connect(self, packet: Connect, inputs: list[Input]) -> None:
        self.connect = packet
        self.phase = Phase.PENDING
        assigned = "" if packet.client_id else self._new_client_id()
        try:
            self.terms = negotiation.negotiate(packet, self.limits, assigned)
        except MqttError as error:
            error.version = packet.version
            raise
        inputs.append(ConnectRequested(packet, self.terms.client_id))
        if self.terms.authentication_method is not None:
            data = packet.properties.authentication_data or b""
            inputs.append(AuthenticationStep(self.terms.authentication_method, data, again=False))

    def accept(
        self,
        state: SessionState | None,
        now: Seconds,
        *,
        data: bytes | None = None,
        user_properties: tuple[tuple[str, str], ...] = (),
    ) -> list[Input]:
        """Let the client in, with its session or a new one; gives the meaning of what it has sent meanwhile.

        `data` is the last word of enhanced authentication; `user_properties` go to a client that sends any of the
        same names itself, so that nobody is told what it does not know. The context may hand events over right after.
        """
        assert self.phase is Phase.PENDING
        # [MQTT-3.1.2-4], [MQTT-3.2.2-2]: with Clean Start the shell has ended the old session.
        assert state is None or not self.connect.clean_start
        present = state is not None  # [MQTT-3.2.2-3]
        terms = self.terms
        self.state = state if state is not None else SessionState(client_id=terms.client_id)
        self.state.connected(self.connect.will, terms.session_expiry)
        self.subscriptions = SubscriptionSet(self.state)
        self.outbound = Outbound(self.state, terms, self.subscriptions, self.output)
        self._inbound = Inbound(self.state, terms, self.limits)
        # Where no Receive Maximum was agreed on there is nothing to count at QoS 1 either.
        self._plain_qos = 1 if terms.version is Version.V311 and self.limits.maximum_qos else 0
        self.phase = Phase.OPEN
        self.received_at = now
        known = {name for name, _ in self.connect.properties.user_properties}
        told = tuple(pair for pair in user_properties if pair[0] in known)
        connack = negotiation.connack(self.connect, terms, self.limits, session_present=present, data=data)
        if told:
            properties = msgspec.structs.replace(connack.properties, user_properties=told)
            connack = msgspec.structs.replace(connack, properties=properties)
        self._send(connack)
        self.outbound.resume()
        early, self._early = self._early, []
        inputs: list[Input] = []
        self._handle_all(early, inputs, now)
        return inputs

    def join(self, earlier: SessionState) -> None:
        """The session that the client was not made to wait for has come: take up what it left."""
        for topic_filter, subscription in earlier.subscriptions.items():
            if topic_filter not in self.state.subscriptions:
                self.subscriptions.add(subscription)
        self.outbound.take_up(earlier)
        self.state.join(earlier)

    def refuse(
        self, reason: ReasonCode, reason_string: str = "", server_reference: str | None = None
    ) -> None:
        """Send the client away before it was let in ([MQTT-3.2.2-7]); no session was touched."""
        assert self.phase is Phase.PENDING
        properties = explanation(reason_string, server_reference)
        self._refuse(reason, properties, self.connect.version)

    def challenge(self, data: bytes) -> None:
        """The next step of enhanced authentication is the client's ([MQTT-4.12.0-2])."""
        self._send_auth(ReasonCode.CONTINUE_AUTHENTICATION, data)

    def reauthenticated(self, data: bytes = b"") -> None:
        """A client that was in already has proved itself again."""
        assert self.phase is Phase.OPEN
        self._send_auth(_SUCCESS, data)

    def _send_auth(self, reason: ReasonCode, data: bytes) -> None:
        method = self.terms.authentication_method
        assert method is not None, "[MQTT-4.12.0-6]"
        # [MQTT-4.12.0-5]
        self._send(Auth(reason, Properties(authentication_method=method, authentication_data=data)))

    def _on_auth(self, packet: Auth, inputs: list[Input]) -> None:
        method = self.terms.authentication_method
        if method is None:
            # [MQTT-4.12.0-7]
            raise MqttError("AUTH without an authentication method", ReasonCode.PROTOCOL_ERROR)
        if packet.properties.authentication_method != method:
            # [MQTT-4.12.0-5], [MQTT-4.12.1-1]
            raise MqttError("another authentication method", ReasonCode.PROTOCOL_ERROR)
        is_open = self.phase is Phase.OPEN
        if packet.reason is _SUCCESS or (packet.reason is ReasonCode.REAUTHENTICATE and not is_open):
            # [MQTT-4.12.0-3]
            raise MqttError(f"AUTH with {packet.reason.name}", ReasonCode.PROTOCOL_ERROR)
        inputs.append(AuthenticationStep(method, packet.properties.authentication_data or b"", again=is_open))

    # --- publishing ----------------------------------------------------------------------------------------

    def _on_publish(self, packet: Publish, inputs: list[Input]) -> None:
        if packet.qos <= self._plain_qos and not packet.retain and packet.properties is NO_PROPERTIES:
            inputs.append(packet)
            return
        result = self._inbound.publish(packet)
        if isinstance(result, Publish):
            inputs.append(result)
        elif result is not None:
            self.published(packet, result)

    def published(self, packet: Publish, reason: ReasonCode = _SUCCESS, reason_string: str = "") -> None:
        """The broker has the message, safely, or will not have it: acknowledge ([MQTT-3.3.4-1]).

        To be called in the order in which messages came ([MQTT-4.6.0-2], [MQTT-4.6.0-3]). At QoS 0 there is
        nobody to tell. 3.1.1 has no word for a refusal: there the message is acknowledged all the same.
        """
        if not packet.qos:
            return
        if packet.qos == 2 or self.terms.version is Version.V5:
            self._inbound.answered(packet, reason)
        if self.phase is not Phase.OPEN:
            return
        if reason is _SUCCESS or self.terms.version is Version.V311:
            self.output.append(_acknowledgement(0x40 if packet.qos == 1 else 0x50, 2, packet.packet_id))
            return
        answer = Puback if packet.qos == 1 else Pubrec
        self._send(answer(packet.packet_id, reason, explanation(reason_string)))

    # --- subscribing ---------------------------------------------------------------------------------------

    def examine(self, packet: Subscribe) -> Examined:
        """What of the SUBSCRIBE can be granted; whether it may be is for the shell to say, with
        `subscribed`."""
        return examine(packet, self.subscriptions, self.limits)

    def subscribed(self, examined: Examined, reasons: Sequence[ReasonCode], reason_string: str = "") -> None:
        """The shell has decided on each of `examined.wanted`, by a granted QoS or a failure."""
        self._send(grant(examined, reasons, reason_string, self.subscriptions))

    def unsubscribe(self, packet: Unsubscribe) -> list[tuple[Filter, str | None]]:
        """Drop the subscriptions and answer; gives the filter and the shared group of each that was there."""
        removed: list[tuple[Filter, str | None]] = []
        reasons: list[ReasonCode] = []
        for topic_filter in packet.topic_filters:  # [MQTT-3.10.4-6]
            filter_ = self.subscriptions.remove(topic_filter)
            reasons.append(ReasonCode.NO_SUBSCRIPTION_EXISTED if filter_ is None else _SUCCESS)
            if filter_ is not None:
                share = parse_share(topic_filter)
                removed.append((filter_, share.group if share else None))
        self._send(Unsuback(packet.packet_id, tuple(reasons)))  # [MQTT-3.10.4-4], [MQTT-3.10.4-5]
        return removed

    # --- delivering ----------------------------------------------------------------------------------------

    def deliver(self, event: Event, now: Seconds) -> Outcome:
        """Send an event to the client; the context hands over no more than `terms.window` at once."""
        return self.outbound.deliver(event, now)

    # --- leaving -------------------------------------------------------------------------------------------

    def keep_alive_deadline(self) -> Seconds | None:
        """When the client counts as gone unless a packet comes before ([MQTT-3.1.2-22])."""
        if self.phase is not Phase.OPEN or not self.terms.keep_alive:
            return None
        return self.received_at + 1.5 * self.terms.keep_alive

    def check_keep_alive(self, now: Seconds) -> list[Input]:
        deadline = self.keep_alive_deadline()
        if deadline is None or now < deadline:
            return []
        return self.close(ReasonCode.KEEP_ALIVE_TIMEOUT, now, "keep alive timed out")

    def close(
        self, reason: ReasonCode, now: Seconds, detail: str = "", server_reference: str | None = None
    ) -> list[Input]:
        """Close from our side, with DISCONNECT where the version has it and the client is in
        ([MQTT-3.14.0-1])."""
        if self.phase is Phase.CLOSED:
            return []
        if self.phase is Phase.PENDING:
            self.refuse(reason, detail, server_reference)
            return []
        if self.phase is Phase.OPEN and self.terms.version is Version.V5:
            properties = explanation(detail, server_reference)
            self._send(Disconnect(disconnect_reason(reason), properties))
        return self._closed(reason, detail, now, by_client=False)

    def lost(self, now: Seconds) -> list[Input]:
        """The network connection is gone without a word."""
        if self.phase is Phase.CLOSED:
            return []
        return self._closed(ReasonCode.UNSPECIFIED_ERROR, "connection lost", now, by_client=False)

    def _on_disconnect(self, packet: Disconnect, inputs: list[Input], now: Seconds) -> None:
        expiry = packet.properties.session_expiry_interval
        self.state.expiry_interval = negotiation.disconnect_expiry(expiry, self.terms, self.limits)
        if packet.reason is ReasonCode.NORMAL_DISCONNECTION:
            # [MQTT-3.14.4-3], [MQTT-3.1.2-10]
            self.state.will = None
        inputs.extend(self._closed(packet.reason, "client disconnected", now, by_client=True))

    def _closed(self, reason: ReasonCode, detail: str, now: Seconds, *, by_client: bool) -> list[Input]:
        was_open = self.phase is Phase.OPEN
        self.phase = Phase.CLOSED
        if not was_open:
            return []
        self.state.disconnected(now)
        return [Closed(reason, detail, by_client)]

    def _fail(self, error: MqttError, inputs: list[Input], now: Seconds) -> None:
        """[MQTT-4.13.1-1], [MQTT-4.13.2-1]: say why, and close."""
        if self.phase is Phase.OPEN:
            inputs.extend(self.close(error.reason, now, str(error)))
        elif self.phase is not Phase.CLOSED:
            # Before CONNECT was read there may be nobody who speaks MQTT: no answer then ([MQTT-3.1.4-1]).
            version = error.version or (self.connect.version if self.phase is Phase.PENDING else None)
            if version is not None:
                self._refuse(error.reason, explanation(str(error)), version)
            self.phase = Phase.CLOSED

    # --- sending -------------------------------------------------------------------------------------------

    def _send(self, packet: Packet) -> None:
        if self.phase is Phase.CLOSED:
            return  # [MQTT-3.14.4-1] the shell answers what was asked before; nobody listens any more
        data = encode_answer(packet, self.terms)
        if data is not None:
            self.output.append(data)

    def _refuse(self, reason: ReasonCode, properties: Properties, version: Version) -> None:
        # [MQTT-3.2.2-6], [MQTT-3.2.2-7]
        self.output.append(encode(Connack(False, connack_reason(reason), properties), version))
        self.phase = Phase.CLOSED


def _second_connect() -> MqttError:
    # [MQTT-3.1.0-2]
    return MqttError("second CONNECT", ReasonCode.PROTOCOL_ERROR)
