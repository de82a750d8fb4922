"""CONNECT -> the terms of a connection, and the CONNACK with the terms that differ from the client's wishes."""

import msgspec

from roamq.core.events import ClientId
from roamq.net.clients.mqtt.codec import (
    PACKET_SIZE_MAX,
    Connack,
    Connect,
    MqttError,
    Properties,
    ReasonCode,
    Version,
)
from roamq.net.clients.mqtt.codec.packets import V5, V311
from roamq.net.clients.mqtt.limits import NEVER, Limits


class Terms(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """The terms on which client and server agreed for one connection."""

    version: Version
    client_id: ClientId
    assigned_client_id: bool
    keep_alive: int
    session_expiry: int
    window: int
    """QoS 1 and 2 messages that the broker may have unacknowledged at the client."""
    packet_size_max: int | None
    """Bytes of the largest packet that the client accepts; None if it named no bound."""
    topic_alias_max: int
    """Topic aliases that the broker may set up."""
    problem_information: bool
    """Whether the client wants reason strings and user properties on answers."""


def negotiate(connect: Connect, limits: Limits, assigned: str) -> Terms:
    """The terms, or `MqttError` with the reason to refuse the client. `assigned` is the id for a client that brings
    none."""
    asked = connect.properties
    v5 = connect.version is V5
    _check_will(connect, limits)
    if asked.authentication_method is not None:
        # [MQTT-4.12.0-1]: this server has no method of enhanced authentication
        raise MqttError(
            f"authentication method {asked.authentication_method!r} is unknown",
            ReasonCode.BAD_AUTHENTICATION_METHOD,
        )
    return Terms(
        version=connect.version,
        client_id=_client_id(connect, limits, assigned),
        assigned_client_id=not connect.client_id,
        keep_alive=_keep_alive(connect, limits) if v5 else connect.keep_alive,
        session_expiry=_session_expiry(connect, limits),
        # [MQTT-4.9.0-1], [MQTT-3.3.4-9]; absent means 65535
        window=min(asked.receive_maximum or 0xFFFF, limits.outbound_receive_maximum),
        packet_size_max=asked.maximum_packet_size,
        # [MQTT-3.1.2-26], [MQTT-3.1.2-27]
        topic_alias_max=min(asked.topic_alias_maximum or 0, limits.outbound_topic_aliases),
        problem_information=asked.request_problem_information is not False,
    )


def _check_will(connect: Connect, limits: Limits) -> None:
    will = connect.will
    if will is None:
        return
    if will.topic.count("/") >= limits.topic_levels_max:
        raise MqttError("too many levels in the topic of the will", ReasonCode.TOPIC_NAME_INVALID)
    if will.qos > limits.maximum_qos:
        # [MQTT-3.2.2-12]
        raise MqttError(f"will at QoS {will.qos}", ReasonCode.QOS_NOT_SUPPORTED)
    if will.retain and not limits.retain_available:
        # [MQTT-3.2.2-13]
        raise MqttError("retained will", ReasonCode.RETAIN_NOT_SUPPORTED)


def _client_id(connect: Connect, limits: Limits, assigned: str) -> ClientId:
    client_id = connect.client_id
    if not client_id:
        if connect.version is Version.V311 and not connect.clean_start:
            # [MQTT-3.1.3-8] of 3.1.1: a client that wants its session kept must have a name.
            raise MqttError("no client id, but Clean Session 0", ReasonCode.CLIENT_IDENTIFIER_NOT_VALID)
        # [MQTT-3.1.3-6]
        return ClientId(assigned)
    # A character takes four bytes at most.
    if 4 * len(client_id) > limits.client_id_bytes_max < len(client_id.encode()):
        # [MQTT-3.1.3-8]
        raise MqttError("client id is too long", ReasonCode.CLIENT_IDENTIFIER_NOT_VALID)
    return ClientId(client_id)


def _keep_alive(connect: Connect, limits: Limits) -> int:
    most = limits.keep_alive_max
    if most and not 0 < connect.keep_alive <= most:
        return most
    return connect.keep_alive


def _session_expiry(connect: Connect, limits: Limits) -> int:
    if connect.version is V311:
        return 0 if connect.clean_start else limits.session_expiry_311
    # Section 3.1.2.11.2: absent is 0.
    return min(connect.properties.session_expiry_interval or 0, limits.session_expiry_max)


def connack(connect: Connect, terms: Terms, limits: Limits, *, session_present: bool) -> Connack:
    """The CONNACK that lets the client in: terms that differ from its wishes, and features that are not offered
    ([MQTT-3.1.4-5])."""
    if terms.version is Version.V311:
        return Connack(session_present)
    asked = connect.properties
    expiry_changed = terms.session_expiry != (asked.session_expiry_interval or 0)
    size_limited = limits.maximum_packet_size < PACKET_SIZE_MAX
    wants_response = asked.request_response_information is True  # [MQTT-3.1.2-28]
    return Connack(
        session_present,
        ReasonCode.SUCCESS,
        Properties(
            session_expiry_interval=terms.session_expiry if expiry_changed else None,
            receive_maximum=limits.receive_maximum if limits.receive_maximum < 0xFFFF else None,
            maximum_qos=limits.maximum_qos if limits.maximum_qos < 2 else None,  # [MQTT-3.2.2-9]
            retain_available=None if limits.retain_available else False,
            maximum_packet_size=limits.maximum_packet_size if size_limited else None,
            # [MQTT-3.1.3-7], [MQTT-3.2.2-16]
            assigned_client_identifier=terms.client_id if terms.assigned_client_id else None,
            topic_alias_maximum=limits.topic_alias_maximum or None,
            wildcard_subscription_available=None if limits.wildcard_subscription_available else False,
            subscription_identifier_available=None if limits.subscription_identifier_available else False,
            shared_subscription_available=None if limits.shared_subscription_available else False,
            # [MQTT-3.2.2-21], [MQTT-3.2.2-22]
            server_keep_alive=terms.keep_alive if terms.keep_alive != connect.keep_alive else None,
            response_information=limits.response_information if wants_response else None,
        ),
    )


def disconnect_expiry(expiry: int | None, terms: Terms, limits: Limits) -> int:
    """The session expiry after a DISCONNECT that may change it (section 3.14.2.2.2)."""
    if expiry is None:
        return terms.session_expiry
    if expiry and not terms.session_expiry:
        raise MqttError("session expiry set on DISCONNECT, but 0 on CONNECT", ReasonCode.PROTOCOL_ERROR)
    return min(expiry, limits.session_expiry_max) if expiry != NEVER else limits.session_expiry_max
