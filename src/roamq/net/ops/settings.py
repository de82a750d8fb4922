"""The settings of one live broker, checked and plain: `configuration.py` reads them, the machine runs on them."""

from typing import Any, Final, Literal

import msgspec

from roamq.core.events import BrokerId
from roamq.net.clients.mqtt.limits import Limits

MIB: Final = 1024 * 1024
ANONYMOUS: Final = "anonymous"
"""The name in rules for clients that gave no user name."""
ANYBODY: Final = "*"


class Rule(msgspec.Struct, frozen=True, kw_only=True):
    """Who may do what: the first rule that fits decides. `%c`, `%u` and `%{NAME}` stand for client id, user name and a
    claim of the user's token."""

    user: str = "*"
    """A user name, `*` for everybody, `anonymous` for clients that gave none."""
    may: frozenset[str] = frozenset({"publish", "subscribe"})
    """Some of `publish`, `subscribe`; empty to forbid."""
    topics: tuple[str, ...] = ("#",)
    claims: dict[str, str] = {}
    """Claims with values: the rule fits only clients whose token has them."""


class AccessRules(msgspec.Struct, frozen=True, kw_only=True):
    """The rules in force. What no rule allows is forbidden."""

    rules: tuple[Rule, ...] = (Rule(),)
    renamed: dict[str, str] = {}
    """Former user -> the user who has its sessions now; `anonymous` for clients that gave no name, `*` for anybody."""


class Quotas(msgspec.Struct, frozen=True, kw_only=True):
    """Limits that keep one client from harming others; docs/live.md says what happens at each."""

    session_bytes_max: int = 64 * MIB
    """Bytes of events stored for one client. A PUBLISH of QoS 1 or 2 at this broker that would exceed it is refused."""
    session_full: Literal["refuse", "drop"] = "refuse"
    """`drop`: an event is dropped for a client that has no room for it, and recorded; its publisher is not told."""
    store_bytes_max: int = 1024 * MIB
    """Bytes of events stored by the broker; it stores one copy of each event."""
    store_bytes_per_client_max: int = 256 * MIB
    """Bytes of stored events of one publisher (client id): one client cannot fill the store for all."""
    retained_max: int = 100_000
    retained_bytes_max: int = 256 * MIB
    retained_per_client_max: int = 10_000
    """Retained messages of one publisher (client id): one client cannot fill the table for all."""
    retained_bytes_per_client_max: int = 64 * MIB
    outbox_bytes_max: int = 256 * MIB
    """Bytes of events that wait for a neighbour that is down or slow; beyond them, events for it are dropped."""
    outbox_messages_bytes_max: int = 16 * MIB
    """Bytes of messages, beside events, that wait for a neighbour. Beyond them the neighbour is cut off: messages that
    can be told again are told when it is back."""
    sessions_max: int = 100_000
    """Sessions at this broker: a CONNECT that would begin one more is refused with 0x97 (Quota exceeded)."""
    sessions_bytes_max: int = 1024 * MIB
    """Bytes of memory for all sessions, with subscriptions and wills, without stored events: a CONNECT or SUBSCRIBE
    that would exceed them gets 0x97."""
    wildcard_shapes_max: int = 1024
    """Ways in which the topic filters of all sessions place their wildcards; a SUBSCRIBE with one more gets 0x97."""
    publish_rate_max: float = 0.0
    """PUBLISH packets a second and client; 0 for no limit. The broker pauses reading from a faster client."""


class ClientClass(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Clients that have a scheme of their own, or its options. A rule fits a client that fits all that the rule
    names."""

    name: str
    scheme: str
    options: dict[str, Any] = {}
    """Options of the scheme."""
    user: str | None = None
    """A user name; `anonymous` for clients that gave none."""
    client_id: str | None = None
    """A pattern of client ids: `*` stands for any characters, `?` for one."""
    user_property: dict[str, str] = {}
    """User properties of CONNECT: name -> value."""


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """The settings of one broker of a live network."""

    me: BrokerId
    brokers: tuple[BrokerId, ...]
    """The brokers of the first configuration: the core of the network."""
    links: tuple[tuple[str, str], ...]
    overlay: str = "interest"
    scheme: str = "proactive"
    scheme_options: dict[str, Any] = {}
    classes: tuple[ClientClass, ...] = ()
    """Classes of clients that have another scheme, or other options; the first whose rule fits decides."""
    limits: Limits = Limits()
    quotas: Quotas = Quotas()
    access: AccessRules = AccessRules()
    publishes: dict[str, tuple[str, ...]] = {}
    """Broker (of the first configuration, or this one) -> topic filters of all that may be published there. At a broker
    that is not named, anything may be published."""
    handoff_timeout_s: float = 5.0
    """Seconds that CONNACK waits for a previous broker that does not answer."""
    subscribe_timeout_s: float = 1.0
    """Seconds that SUBACK waits for brokers that do not say that they know of the subscription."""
    late_after_s: float = 1.0
    """Seconds that a moving session waits for events from behind a broker that does not answer; they follow later."""
    records_steps: bool = False
    """Whether every step of a message is recorded."""
    positions: dict[str, tuple[float, float]] = {}
    """Broker -> latitude and longitude, if the configuration has them."""
    mates: tuple[BrokerId, ...] = ()
    """Other processes of the same broker: they leave the network when it leaves."""
    at: tuple[BrokerId, ...] = ()
    """For a broker that joined later: the brokers of the core that it is linked with."""
    references: dict[str, str] = {}
    """Broker -> host:port, which clients that are sent there are told (Server Reference)."""
