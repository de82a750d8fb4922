"""What one live broker is made from, checked and plain: `config.py` reads it, the machine runs on it."""

from typing import Any, Final

import msgspec

from roamq.core.events import BrokerId
from roamq.net.mqtt.limits import Limits

MIB: Final = 1024 * 1024


class Rule(msgspec.Struct, frozen=True, kw_only=True):
    """Who may do what: the first rule that fits decides. `%c` and `%u` stand for client id and user name."""

    user: str = "*"
    """A user name, `*` for everybody, `anonymous` for who gave none."""
    may: frozenset[str] = frozenset({"publish", "subscribe"})
    """Some of `publish`, `subscribe`; empty to forbid."""
    topics: tuple[str, ...] = ("#",)


class AccessRules(msgspec.Struct, frozen=True, kw_only=True):
    """The rules in force. Nothing is allowed that no rule allows."""

    rules: tuple[Rule, ...] = (Rule(),)
    anonymous: bool = True
    """Whether a client may come without a user name."""


class Quotas(msgspec.Struct, frozen=True, kw_only=True):
    """Bounds that keep one client from harming others; what happens at each is in docs/live.md."""

    session_bytes_max: int = 64 * MIB
    """Events stored for one client; more are dropped, oldest kept."""
    store_bytes_max: int = 1024 * MIB
    """Events stored by the broker, one copy each."""
    retained_max: int = 100_000
    retained_bytes_max: int = 256 * MIB
    outbox_bytes_max: int = 256 * MIB
    """For a neighbour that is down or slow: beyond it, events for it are dropped; what brokers say to each other is
    kept, for it is little and cannot be missed."""
    sessions_max: int = 100_000
    publish_rate_max: float = 0.0
    """PUBLISH packets a second and client; 0 for no limit. A faster client is not read from for a while."""


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """One broker of a live network."""

    me: BrokerId
    brokers: tuple[BrokerId, ...]
    links: tuple[tuple[str, str], ...]
    overlay: str = "flooding"
    scheme: str = "proactive"
    scheme_options: dict[str, Any] = {}
    limits: Limits = Limits()
    quotas: Quotas = Quotas()
    access: AccessRules = AccessRules()
    handoff_timeout_s: float = 1.0
    """How long CONNACK waits for a previous broker that does not answer."""
    references: dict[str, str] = {}
    """Broker -> host:port, told to clients that are sent there (Server Reference)."""
