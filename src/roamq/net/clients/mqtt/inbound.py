"""The client -> messages: topic aliases, Receive Maximum, and QoS 2 without duplicates.

QoS 2 is received by method B of figure 4.3: a packet id that is known and not released stands for a message that was
published already. The known ids are part of the session, so that a publisher may move between PUBLISH and PUBREL.
"""

import msgspec

from roamq.net.clients.mqtt.codec import NO_PROPERTIES, MqttError, Publish, Pubrel, ReasonCode, Version
from roamq.net.clients.mqtt.limits import Limits
from roamq.net.clients.mqtt.negotiation import Terms
from roamq.net.clients.mqtt.state import NO_IDS, SessionState


class Inbound:
    """The receiving half of a connection."""

    __slots__ = ("_aliases", "_limits", "_open", "_state", "_unanswered", "_v5")

    def __init__(self, state: SessionState, terms: Terms, limits: Limits) -> None:
        self._state = state
        self._limits = limits
        self._v5 = terms.version is Version.V5
        self._aliases: dict[int, str] = {}  # [MQTT-3.3.2-7] of this connection only
        self._open: set[int] = set()
        """Packet ids of this connection whose exchange is not over: Receive Maximum counts them."""
        self._unanswered: set[int] = set()
        """Packet ids of QoS 2 messages on which the machine has not decided."""

    def publish(self, packet: Publish) -> Publish | ReasonCode | None:
        """The message to publish; or the reason to answer with at once; or None if there is nothing to do.

        A QoS 2 duplicate is answered with `SUCCESS` again, unless the first is not answered yet.
        """
        properties = packet.properties
        if properties is not NO_PROPERTIES:
            packet = self._examine(packet)
        if packet.retain and not self._limits.retain_available:
            # [MQTT-3.2.2-14]
            raise MqttError("RETAIN is not available", ReasonCode.RETAIN_NOT_SUPPORTED)
        if not packet.qos:
            return packet
        if packet.qos > self._limits.maximum_qos:
            # [MQTT-3.2.2-11]
            raise MqttError(f"QoS {packet.qos} is not available", ReasonCode.QOS_NOT_SUPPORTED)
        packet_id = packet.packet_id
        if self._v5:
            self._open.add(packet_id)
            if len(self._open) > self._limits.receive_maximum:
                # [MQTT-3.3.4-7]
                raise MqttError("more messages than Receive Maximum", ReasonCode.RECEIVE_MAXIMUM_EXCEEDED)
        if packet.qos == 2:
            known = self._state.inbound
            if packet_id in known:
                # [MQTT-4.3.3-10] acknowledged again, but not published again
                return None if packet_id in self._unanswered else ReasonCode.SUCCESS
            if known is NO_IDS:
                known = self._state.inbound = set()
            known.add(packet_id)
            self._unanswered.add(packet_id)
        if properties is not NO_PROPERTIES and self._misses_its_format(packet):
            return ReasonCode.PAYLOAD_FORMAT_INVALID
        return packet

    def _examine(self, packet: Publish) -> Publish:
        """Resolve the alias of a PUBLISH with properties, and refuse properties that a client may not send."""
        properties = packet.properties
        if properties.subscription_identifiers:
            # [MQTT-3.3.4-6]
            raise MqttError("subscription identifier from a client", ReasonCode.PROTOCOL_ERROR)
        if not packet.qos and self._misses_its_format(packet):
            raise MqttError("payload is not UTF-8", ReasonCode.PAYLOAD_FORMAT_INVALID)
        alias = properties.topic_alias
        if alias is None:
            return packet
        if not 0 < alias <= self._limits.topic_alias_maximum:
            # [MQTT-3.3.2-8], [MQTT-3.3.2-9], [MQTT-3.2.2-17], [MQTT-3.2.2-18]
            raise MqttError(f"topic alias {alias}", ReasonCode.TOPIC_ALIAS_INVALID)
        if packet.topic:
            self._aliases[alias] = packet.topic
            return packet
        topic = self._aliases.get(alias)
        if topic is None:
            # Section 3.3.2.3.4: no mapping yet
            raise MqttError(f"topic alias {alias} is not set up", ReasonCode.PROTOCOL_ERROR)
        return msgspec.structs.replace(packet, topic=topic)

    def answered(self, packet: Publish, reason: ReasonCode) -> None:
        """Forget the packet id that the PUBACK or PUBREC which goes out settles."""
        if packet.qos == 1:
            self._open.discard(packet.packet_id)
            return
        self._unanswered.discard(packet.packet_id)
        if reason.failed:
            # [MQTT-4.3.3-9] the next PUBLISH with this id is a new message
            self._state.inbound.discard(packet.packet_id)
            self._open.discard(packet.packet_id)

    def pubrel(self, packet: Pubrel) -> ReasonCode:
        """Take a PUBREL; returns the reason code for the PUBCOMP that answers it ([MQTT-4.3.3-11], [MQTT-4.3.3-12])."""
        self._open.discard(packet.packet_id)
        if packet.packet_id not in self._state.inbound:
            return ReasonCode.PACKET_IDENTIFIER_NOT_FOUND
        self._state.inbound.discard(packet.packet_id)
        self._unanswered.discard(packet.packet_id)
        return ReasonCode.SUCCESS

    def _misses_its_format(self, packet: Publish) -> bool:
        """Whether the payload claims to be UTF-8 and is not (section 3.3.2.3.2)."""
        if not packet.properties.payload_format_indicator or not self._limits.check_payload_format:
            return False
        try:
            packet.payload.decode()
        except UnicodeDecodeError:
            return True
        return False
