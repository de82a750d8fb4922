"""Records: what happened, in one schema. The only evidence there is.

The simulator and the live brokers write these rows, the pipeline reads them, and every metric is a query over
them. One flat row serves all kinds, so that a folder of records is one table; `KINDS` says which columns a kind
fills, and everything else in the row is null.
"""

from typing import Final, NamedTuple

RECORDS_VERSION: Final = 1
"""The version of the meaning of these columns. Files of live brokers state it, and which release wrote them; a new
column makes no new version. Files without a version are read as they are."""
VERSION_KEY: Final = "roamq.records"
"""The key of a file's metadata under which it states the version."""


class Record(NamedTuple):
    """One thing that happened. Column order is the schema's order."""

    kind: str
    time_s: float
    """When it happened, in seconds; for `traffic` and `processing` the end of the bin that was counted."""
    broker: str | None = None
    client: str | None = None
    origin: str | None = None
    """With `sequence`: the event's id."""
    sequence: int | None = None
    peer: str | None = None
    """The other broker: where a client came from, where a context went."""
    detail: str | None = None
    """The kind of traffic, the reason of a drop, the mode a context entered."""
    count: int | None = None  # type: ignore[assignment]  # the column, not the method of tuples
    """How many: receivers, messages, events."""
    hops: int | None = None
    """The number of link traversals, the last hop to the client included."""
    bytes: int | None = None
    duration_s: float | None = None
    """Seconds from publication to delivery, from reconnect to first message, or of service."""


KINDS: Final[dict[str, str]] = {
    "published": "an event entered at `broker` from `client`; `count` = clients subscribed to it anywhere, if "
    "known; `detail`: the topic, where a live broker writes it",
    "delivered": "`client` received the event at `broker`; `duration_s` since publication; `detail`: live, "
    "stored (was buffered here) or transferred (came from another broker)",
    "routed": "the event came to the live `broker` over the link from `peer` (if `records.steps`)",
    "stored": "the live `broker` keeps the event for `client`, which is away or whose session is on its way (if "
    "`records.steps`)",
    "acknowledged": "`client` acknowledged the event to the live `broker`, at QoS 1 or 2 (if `records.steps`)",
    "dropped": "`broker` gave up the event for `client`, or for all behind the neighbour `peer`; `detail`: queue_full, "
    "expired, crashed, link, timeout, outbox_full, broker_departed, late",
    "missed": "events of `origin`, or of any, that `client` was to get at `broker` may be lost: `peer` had them, or "
    "was to send them on; `detail`: broker_departed (it was declared dead), store_lost",
    "connected": "`client` connected at `broker`; `peer` = the broker before, if any",
    "cut_off": "more messages waited at the live `broker` for its neighbour `peer` than may: those that can be told "
    "again were left out",
    "refused": "`broker` did not let `client` in, or refused what it asked for; `detail`: sessions_max (the quota is "
    "full), session_owner (another user's session), store_bytes_max (a PUBLISH), outbox_messages_bytes_max (too much "
    "waits for a broker that is down), will, subscription (`count` of them ended when rules changed)",
    "denied": "the rules of `broker` did not let `client` do what `detail` says: publish TOPIC or subscribe FILTER",
    "disconnected": "`client` left `broker`; `detail`: moved, vanished, closed, timeout",
    "handoff": "`client` got its first message after a reconnect at `broker`; `duration_s` since the reconnect "
    "request; `peer` = the broker before",
    "mode": "the context of `client` entered the mode `detail` at `broker`",
    "transferred": "`broker` sent the context of `client` to `peer`; `count` events, `bytes`",
    "copied": "`broker`, itself a mobile node, took a copy of the event, from `peer` if another gave it; `detail`: "
    "source, carrier, destination or epidemic",
    "region": "the mobile node `client` detected the event in the region of `broker`, to which `count` nodes belonged",
    "role": "the mobile node `broker` became a broker or ceased to be one; `detail`: elected, resigned, vanished",
    "prehandoff": "a virtual consumer of `client`; `detail`: requested or cancelled by `broker` at `peer`; ready, hit "
    "(replaced by the client, which was at `peer`), unready (replaced too early) or missed at `broker`; `count` is the "
    "number of the attempt; wasted at `broker`, with `count` events stored for nobody",
    "traffic": "`count` messages of kind `detail` crossed `hops` links and `bytes`, in the bin that ends at `time_s`",
    "buffer": "`broker` holds `count` stored events of `bytes` for `hops` contexts (copies counted once)",
    "processing": "`broker` handled `count` operations of kind `detail` in `duration_s` of service time, in the bin",
    "violation": "a checker found an invariant broken: `detail` says which",
}

MULTICAST: Final = frozenset(
    {"event", "delivery", "stored_delivery", "subscribe", "unsubscribe", "advertise"}
)
"""Traffic details of regular messages, those that a network of clients at rest would carry ([DIS] section 5.2.1):
`delivery` and `stored_delivery` are the last hop of an event to its client, whichever way it came to the broker. A
client at rest has that hop too, so the sum hardly depends on the scheme (docs/decisions/0037)."""

MIGRATION: Final = frozenset({"context", "mobile_subscribe", "mobile_unsubscribe"})
"""The part of UNICAST that migrates subscriptions: the three messages of [DIS] Eq. 2."""

CONTROL: Final = frozenset({"control", "closing", "marker"})
"""Messages between brokers that bring neither events nor subscriptions. `closing` is the end of a transfer that had
nothing to bring, for which the papers' protocols have no message. `marker` is what orders a handoff where events are
routed by interest (docs/interest.md)."""

UNICAST: Final = MIGRATION | CONTROL | {"stored_event", "event_ids", "forward"}
"""Traffic details that exist because clients move: "all the messages exchanged between the two brokers". `forward` is
each hop from a home broker, which "forwards these events to the client using unicast messages", the last included.

In neither set: `retransmission`, which is a link's own (docs/decisions/0030)."""
