"""What a server offers and allows. What is not offered is announced in CONNACK, never ignored."""

from typing import Final

import msgspec

from roamq.net.mqtt.codec import PACKET_SIZE_MAX

NEVER: Final = 0xFFFF_FFFF
"""The session expiry interval of a session that does not expire (section 3.1.2.11.2)."""


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """The server's side of the bargain; the defaults offer everything the standard has."""

    receive_maximum: int = 1024
    """QoS 1 and 2 messages a client may have unacknowledged at once."""
    maximum_packet_size: int = PACKET_SIZE_MAX
    topic_alias_maximum: int = 64
    """Aliases a client may set up."""
    outbound_receive_maximum: int = 1024
    """Messages we have unacknowledged at a client at once, if it allows as many."""
    outbound_topic_aliases: int = 10
    """Aliases we set up, if the client allows as many. An aliased message is encoded for its receiver
    alone."""
    maximum_qos: int = 2
    retain_available: bool = True
    wildcard_subscription_available: bool = True
    subscription_identifier_available: bool = True
    shared_subscription_available: bool = True
    keep_alive_max: int = 0
    """Seconds; a client that asks for more, or for none, is told this one (Server Keep Alive). 0: no
    limit."""
    session_expiry_max: int = NEVER
    """Seconds; a client that asks for more is told this one."""
    session_expiry_311: int = NEVER
    """Seconds a 3.1.1 session with Clean Session 0 is kept: its standard names no time."""
    response_information: str | None = None
    """The basis for response topics, told to clients that ask (section 3.2.2.3.15)."""
    authentication_methods: frozenset[str] = frozenset()
    """Methods of enhanced authentication that the shell can carry out."""
    check_payload_format: bool = True
    """Whether a payload that claims to be UTF-8 is checked (section 3.3.2.3.2 leaves it open)."""
    client_id_bytes_max: int = 1024
    subscriptions_max: int = 10_000
    """Per session; more get 0x97 (Quota exceeded)."""
