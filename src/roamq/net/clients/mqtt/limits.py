"""Limits of the server: features and sizes that it offers. CONNACK announces missing ones, and none is ignored."""

from typing import Final, Literal

import msgspec

NEVER: Final = 0xFFFF_FFFF
"""The session expiry interval of a session that does not expire (section 3.1.2.11.2)."""


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """The features that the server offers to clients, and their bounds. The defaults are finite, and suit devices and
    services."""

    receive_maximum: int = 1024
    """QoS 1 and 2 messages that a client may have unacknowledged at once."""
    maximum_packet_size: int = 1024 * 1024
    """Bytes of the largest packet that a client may send; MQTT itself allows 256 MiB."""
    topic_alias_maximum: int = 64
    """Topic aliases that a client may set up."""
    outbound_receive_maximum: int = 1024
    """Messages that the broker may have unacknowledged at a client at once, if the client allows as many."""
    outbound_topic_aliases: int = 10
    """Topic aliases that the broker sets up, if the client allows as many. An aliased message is encoded for its
    receiver alone."""
    maximum_qos: Literal[0, 1, 2] = 2
    retain_available: bool = True
    wildcard_subscription_available: bool = True
    subscription_identifier_available: bool = True
    shared_subscription_available: bool = True
    keep_alive_max: int = 0
    """Seconds; a client that asks for more, or for no keep alive, is told this value (Server Keep Alive). 0: no
    limit."""
    session_expiry_max: int = NEVER
    """Seconds; a client that asks for more is told this value."""
    session_expiry_311: int = NEVER
    """Seconds that a 3.1.1 session with Clean Session 0 is kept: its standard names no time."""
    response_information: str | None = None
    """The basis for response topics, which clients that ask for it get (section 3.2.2.3.15)."""
    check_payload_format: bool = True
    """Whether the broker checks a payload that claims to be UTF-8 (section 3.3.2.3.2 leaves it open)."""
    client_id_bytes_max: int = 1024
    subscriptions_max: int = 10_000
    """Subscriptions of a session; more get 0x97 (Quota exceeded)."""
    subscriptions_bytes_max: int = 32 * 1024 * 1024
    """Bytes of memory that the subscriptions of a session may take: about 1,600 bytes and twice the topic filter each,
    16 to 76 for a level, and twelve times a selector. More get 0x97."""
    shared_subscriptions_max: int = 64
    """Shared subscriptions of a session: they cost more, because the end of each looks at all stored events. More get
    0x97."""
    topic_levels_max: int = 128
    """Levels of a topic or topic filter: a PUBLISH with more gets 0x90, a SUBSCRIBE 0x8F."""
    wildcard_shapes_max: int = 128
    """Ways in which the topic filters of a session may place their wildcards. A topic is matched by at most one filter
    of each way. More get 0x97."""
    selector_bytes_max: int = 8192
    """Characters of one selector; a longer selector gets 0x83."""
    selectors_bytes_max: int = 64 * 1024
    """Characters of all selectors of one session; more get 0x97."""
