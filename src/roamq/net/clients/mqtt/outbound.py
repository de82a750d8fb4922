"""Events -> the client: quality of service, packet ids, the window, and redelivery after a reconnect.

There is no queue here: events beyond the window wait in the client's context, which hands over no more than the window
at once and is told when one is acknowledged. Nor is there a copy of the events under way: after a reconnect the context
hands the same events over again, and each finds its packet id.
"""

import struct
from enum import Enum
from math import ceil
from typing import Final

from roamq.core.errors import LocalProtocolError
from roamq.core.events import Event, EventId, Seconds
from roamq.net.clients.mqtt.codec import (
    EncodedMessage,
    MqttError,
    Puback,
    Pubcomp,
    Pubrec,
    ReasonCode,
    Receiver,
)
from roamq.net.clients.mqtt.codec.packets import V5
from roamq.net.clients.mqtt.codec.publishing import DUP, PUBLISH_QOS_0
from roamq.net.clients.mqtt.inputs import Acknowledged, ClientInput
from roamq.net.clients.mqtt.negotiation import Terms
from roamq.net.clients.mqtt.state import RETAINED, InFlight, SessionState
from roamq.net.clients.mqtt.subscriptions import DeliveryRoute, SubscriptionSet

PACKET_ID_MAX: Final = 0xFFFF
_u16: Final = struct.Struct(">H").pack
_NO_ALIASES: Final[dict[str, int]] = {}
_NOTHING_BEGUN: Final[dict[EventId, int]] = {}
"""The table of all connections without such events, as most are; nobody adds to it."""


class DeliveryOutcome(Enum):
    """The outcome of the delivery of an event."""

    IN_FLIGHT = "in flight"
    """Sent at QoS 1 or 2: `Acknowledged` will follow."""
    DONE = "done"
    """Sent at QoS 0: no input will follow."""
    EXPIRED = "expired"
    TOO_LARGE = "too large"
    """The event is larger than the client's maximum packet size, and counts as sent ([MQTT-3.1.2-25])."""
    UNWANTED = "unwanted"
    """No subscription matches any more, or only one with No Local."""


_IN_FLIGHT: Final = DeliveryOutcome.IN_FLIGHT


class Outbound:
    """The sending half of a connection."""

    __slots__ = (
        "_alias_max",
        "_aliases",
        "_output",
        "_size_max",
        "_state",
        "_subscriptions",
        "_window",
        "begun",
        "further",
        "is_particular",
        "quota",
        "routes",
        "v5",
    )

    def __init__(
        self, state: SessionState, terms: Terms, subscriptions: SubscriptionSet, output: list[bytes]
    ) -> None:
        self._state = state
        self._subscriptions = subscriptions
        self.routes = subscriptions.routes
        self._output = output
        self.v5 = terms.version is V5
        self._size_max = terms.packet_size_max
        self._window = terms.window
        self.quota = terms.window
        """How many more QoS 1 and 2 messages the broker may send now ([MQTT-4.9.0-1])."""
        self._alias_max = terms.topic_alias_max
        self.is_particular = terms.packet_size_max is not None or (self.v5 and terms.topic_alias_max > 0)
        """Whether packets for this client differ from packets for other clients of its version."""
        self._aliases: dict[str, int] = {} if terms.topic_alias_max else _NO_ALIASES
        self.begun: dict[EventId, int] = _NOTHING_BEGUN
        if state.outbound:
            self.begun = {entry.event_id: id_ for id_, entry in state.outbound.items()}
        """Event -> packet id, of events that earlier connections left under way, until the context hands them over
        again."""
        self.further: tuple[str, ...] = ()
        """Shared groups of the event that was sent last, for the first time: the client gets a copy for each."""

    def resume(self) -> None:
        """Send the outstanding PUBRELs again, in order ([MQTT-4.4.0-1]); the context hands the PUBLISHes over."""
        for packet_id, entry in self._state.outbound.items():
            if entry.released:
                self._output.append(b"\x62\x02" + _u16(packet_id))

    def join(self, earlier: SessionState) -> None:
        """Take over the messages that an earlier session left under way, as if this session had begun with them."""
        if earlier.outbound and self.begun is _NOTHING_BEGUN:
            self.begun = {}
        for packet_id, entry in earlier.outbound.items():
            if packet_id not in self._state.outbound:
                self.begun[entry.event_id] = packet_id
                if entry.released:
                    self._output.append(b"\x62\x02" + _u16(packet_id))

    def deliver(self, event: Event, now: Seconds) -> DeliveryOutcome:
        """Send an event. The context hands over no more than the window; more would be a bug."""
        if self.begun:
            packet_id = self.begun.pop(event.id, 0)
            if packet_id:
                return self._deliver_again(packet_id, event, now)
        route = self.routes.get(event.topic) or self._subscriptions.route(event)
        if route is None:
            return DeliveryOutcome.UNWANTED
        expires_at = event.expires_at
        if expires_at is not None and now >= expires_at:
            # [MQTT-3.3.2-5]
            return DeliveryOutcome.EXPIRED
        self.further = route.further
        event_id, qos = event.id, event.qos
        if route.qos < qos:
            qos = route.qos  # [MQTT-3.8.4-8]
        # [MQTT-3.3.1-12], [MQTT-3.3.1-13]; a replayed message is marked as retained (section 3.3.1.3).
        retain = event.retain and (route.retain_as_published or event_id[0] == RETAINED)
        first = PUBLISH_QOS_0 | qos << 1 | retain
        if not qos:
            return (
                DeliveryOutcome.DONE if self._send(event, route, first, 0, now) else DeliveryOutcome.TOO_LARGE
            )
        state = self._state
        packet_id = state.last_packet_id + 1
        if packet_id > PACKET_ID_MAX or packet_id in state.outbound:
            packet_id = self._next_packet_id()
        message = event.properties
        pieces = None
        if message.__class__ is EncodedMessage and not (
            self.is_particular or route.identifiers or expires_at is not None
        ):
            assert isinstance(message, EncodedMessage)
            pieces = message.pieces_5 if self.v5 else message.pieces_311
        if pieces is not None and pieces[0][0] == first:
            self._output += (pieces[0], _u16(packet_id), pieces[1])
        elif not self._send(event, route, first, packet_id, now):
            return DeliveryOutcome.TOO_LARGE
        if self.quota:
            self.quota -= 1
        else:
            self._spend_quota()
        state.last_packet_id = packet_id
        state.outbound[packet_id] = InFlight(event_id, qos, False, retain, route.identifiers, route.is_shared)
        return _IN_FLIGHT

    def withhold(self, event: Event) -> DeliveryOutcome:
        """Do not send an event again that another connection began to send: the client may not read it any more."""
        packet_id = self.begun.pop(event.id)
        entry = self._state.outbound.get(packet_id)
        if entry is None or entry.event_id != event.id:
            return DeliveryOutcome.DONE
        if not entry.released and self._give_up(packet_id, entry):
            return DeliveryOutcome.UNWANTED
        return DeliveryOutcome.IN_FLIGHT

    def _deliver_again(self, packet_id: int, event: Event, now: Seconds) -> DeliveryOutcome:
        """Send an event again that another connection began to send: with its packet id and QoS, DUP set, even if it
        has expired since ([MQTT-4.4.0-1], [MQTT-3.3.1-1], [MQTT-4.3.3-7], [MQTT-3.10.4-3])."""
        entry = self._state.outbound.get(packet_id)
        if entry is None or entry.event_id != event.id:
            return DeliveryOutcome.DONE  # acknowledged before the context handed it over again
        if entry.released:
            return DeliveryOutcome.IN_FLIGHT  # `resume` has sent its PUBREL
        route = DeliveryRoute(entry.qos, entry.retain, entry.identifiers)
        first = PUBLISH_QOS_0 | DUP | entry.qos << 1 | entry.retain
        if self._send(event, route, first, packet_id, now):
            self._spend_quota()
            return DeliveryOutcome.IN_FLIGHT
        return DeliveryOutcome.TOO_LARGE if self._give_up(packet_id, entry) else DeliveryOutcome.IN_FLIGHT

    def _give_up(self, packet_id: int, entry: InFlight) -> bool:
        """Give up an event that cannot be sent again. True if its packet id is free.

        At QoS 2 the client may hold the packet id as received, so the broker releases it first. A client that does not
        know the id says so in PUBCOMP, which frees it as well.
        """
        if entry.qos == 1:
            del self._state.outbound[packet_id]
            return True
        entry.released = True
        self._output.append(b"\x62\x02" + _u16(packet_id))
        return False

    def _send(self, event: Event, route: DeliveryRoute, first: int, packet_id: int, now: Seconds) -> bool:
        """Append the packet to the output; False if it is larger than the client takes ([MQTT-3.1.2-24])."""
        message = event.properties
        if type(message) is not EncodedMessage:
            message = EncodedMessage(event.topic, event.payload)
        pieces: tuple[bytes, ...]
        receiver = None
        try:
            if self.v5 and (route.identifiers or event.expires_at is not None or self._alias_max):
                receiver = self._receiver(event, route, now)
                pieces = (message.for_receiver(first, packet_id, receiver),)
            elif packet_id:
                head, tail = message.around_packet_id(self.v5, first)
                pieces = (head, _u16(packet_id), tail)
            else:
                pieces = (message.qos_0(self.v5, retain=first != PUBLISH_QOS_0),)
        except OverflowError:
            return False  # longer than MQTT can say: it came without properties and almost filled a packet
        if self._size_max is not None and sum(map(len, pieces)) > self._size_max:
            return False
        if receiver is not None and receiver.topic_alias and not receiver.omit_topic:
            self._aliases[event.topic] = receiver.topic_alias
        self._output += pieces
        return True

    def _receiver(self, event: Event, route: DeliveryRoute, now: Seconds) -> Receiver:
        expiry = None
        if event.expires_at is not None:
            # [MQTT-3.3.2-6] the rest of its lifetime
            expiry = max(0, ceil(event.expires_at - now))
        alias = self._aliases.get(event.topic, 0)
        if alias:
            return Receiver(alias, True, expiry, route.identifiers)
        if len(self._aliases) < self._alias_max:
            # [MQTT-3.3.2-8], [MQTT-3.3.2-11]: 1 to what the client allows
            return Receiver(len(self._aliases) + 1, False, expiry, route.identifiers)
        return Receiver(0, False, expiry, route.identifiers)

    def _next_packet_id(self) -> int:
        """An unused packet id ([MQTT-2.2.1-4]), counted on from the last one so that no id is used again soon."""
        in_use = self._state.outbound
        if len(in_use) >= PACKET_ID_MAX:
            raise LocalProtocolError("all packet ids are in use")
        packet_id = self._state.last_packet_id % PACKET_ID_MAX + 1
        while packet_id in in_use:
            packet_id = packet_id % PACKET_ID_MAX + 1
        return packet_id

    def _spend_quota(self) -> None:
        if not self.quota:
            # [MQTT-4.9.0-2], [MQTT-3.3.4-9]
            raise LocalProtocolError("more than the window was handed over")
        self.quota -= 1

    def _restore_quota(self) -> None:
        """Allow one more message; the quota never exceeds its first value, whatever the client repeats (section
        4.9)."""
        if self.quota < self._window:
            self.quota += 1

    def puback(self, packet: Puback, inputs: list[ClientInput]) -> None:
        entry = self._state.outbound.get(packet.packet_id)
        if entry is None:
            return  # for a message of an earlier time: harmless
        if entry.qos != 1:
            raise MqttError("PUBACK for a QoS 2 message", ReasonCode.PROTOCOL_ERROR)
        del self._state.outbound[packet.packet_id]
        if self.quota < self._window:
            self.quota += 1
        _acknowledged(entry.event_id, inputs)

    def pubrec(self, packet: Pubrec, inputs: list[ClientInput]) -> ReasonCode | None:
        """The reason of the PUBREL to answer with, or None for no answer."""
        entry = self._state.outbound.get(packet.packet_id)
        if entry is None:
            # Section 4.3.3: PUBREL answers a PUBREC that is no failure
            return None if packet.reason.failed else ReasonCode.PACKET_IDENTIFIER_NOT_FOUND
        if entry.qos != 2:
            raise MqttError("PUBREC for a QoS 1 message", ReasonCode.PROTOCOL_ERROR)
        if packet.reason.failed:
            # [MQTT-4.4.0-2]
            del self._state.outbound[packet.packet_id]
            self._done(entry, inputs)
            return None
        # [MQTT-4.3.3-4]; the event counts as read with PUBCOMP, when the packet id is free as well.
        entry.released = True
        return ReasonCode.SUCCESS

    def pubcomp(self, packet: Pubcomp, inputs: list[ClientInput]) -> None:
        entry = self._state.outbound.get(packet.packet_id)
        if entry is None:
            return
        if not entry.released:
            raise MqttError("PUBCOMP before PUBREC", ReasonCode.PROTOCOL_ERROR)
        del self._state.outbound[packet.packet_id]
        self._done(entry, inputs)

    def _done(self, entry: InFlight, inputs: list[ClientInput]) -> None:
        self._restore_quota()
        _acknowledged(entry.event_id, inputs)


def _acknowledged(event_id: EventId, inputs: list[ClientInput]) -> None:
    if inputs and (last := inputs[-1]).__class__ is Acknowledged:
        assert isinstance(last, Acknowledged)
        last.event_ids.append(event_id)
    else:
        inputs.append(Acknowledged([event_id]))
