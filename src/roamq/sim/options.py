"""Every parameter of a scenario, with its meaning, unit and default.

These are msgspec structs: unknown fields and wrong types are found when a scenario is read, and the error names
the field. `roamq simulate SCENARIO --show` prints them with the descriptions below.
"""

from typing import Annotated, Any, NamedTuple

from msgspec import Meta, Struct

Seconds = Annotated[float, Meta(ge=0)]
Probability = Annotated[float, Meta(ge=0, lt=1)]


def doc(text: str) -> Meta:
    return Meta(description=text)


class Options(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Base of all parameter groups."""


class NetworkOptions(Options, frozen=True):
    """The brokers and how events travel between them."""

    overlay: Annotated[str, doc("'flooding', 'hierarchy' or 'interest'")] = "flooding"
    brokers: Annotated[list[str], doc("names of the brokers; empty with height and degree")] = []
    links: Annotated[list[tuple[str, str]], doc("pairs of brokers that talk directly")] = []
    height: Annotated[int, Meta(ge=1), doc("hierarchy: levels of the full tree, the root's included")] = 4
    degree: Annotated[int, Meta(ge=1), doc("hierarchy: children of each broker that is not a leaf")] = 4
    covering: Annotated[bool, doc("hierarchy: a subscription stops where a covering one went before")] = False
    advertisements: Annotated[
        bool,
        doc(
            "hierarchy: events go up only where subscriptions came down; interest: a broker is asked only for what "
            "its publishers advertise"
        ),
    ] = False
    late_after_s: Annotated[
        Seconds | None,
        doc("a hand-over waits so long for a broker out of reach; without a value, as long as it takes"),
    ] = None
    areas: Annotated[
        dict[str, tuple[float, float]],
        doc("positions of brokers (latitude, longitude) where a mobility model or scheme needs them"),
    ] = {}
    polygons: Annotated[
        dict[str, Any] | None,
        doc("areas drawn as polygons instead: a GeoJSON file whose features have a property `broker`"),
    ] = None


class LinkOptions(Options, frozen=True):
    """A link between two brokers, in each direction."""

    delay_s: Annotated[Seconds, doc("propagation delay")] = 0.005
    jitter_s: Annotated[Seconds, doc("uniform extra delay up to this; order is kept")] = 0.0
    bandwidth_bps: Annotated[float, Meta(ge=0), doc("bits per second; 0 for no limit")] = 0.0
    frame_bytes: Annotated[
        int,
        Meta(ge=0),
        doc(
            "with a bandwidth: longer messages between brokers go in frames of so many bytes; 0: in one piece"
        ),
    ] = 0
    loss: Annotated[Probability, doc("probability that a transmission is lost and repeated")] = 0.0
    duplication: Annotated[Probability, doc("probability that a transmission arrives twice")] = 0.0
    retransmit_s: Annotated[Seconds, doc("how long a loss delays a message")] = 0.2

    @property
    def is_plain(self) -> bool:
        """Every message takes the same time."""
        return not (self.bandwidth_bps or self.loss or self.duplication or self.jitter_s)


class LastHopOptions(Options, frozen=True):
    """The way from a broker to its clients."""

    delay_s: Annotated[Seconds, doc("one-way delay")] = 0.002
    bandwidth_bps: Annotated[
        float, Meta(ge=0), doc("bits per second shared by a broker's clients; 0: no limit")
    ] = 0.0
    loss: Annotated[Probability, doc("probability that a transmission is lost")] = 0.0
    duplication: Annotated[Probability, doc("probability that a transmission arrives twice")] = 0.0
    retransmit: Annotated[bool, doc("repeat lost transmissions after retransmit_s")] = False
    retransmit_s: Annotated[Seconds, doc("how long a repetition takes")] = 0.05
    detect_s: Annotated[Seconds, doc("how long a broker takes to notice that a client is gone")] = 0.0
    ping_s: Annotated[
        Seconds,
        doc(
            "a broker pings its clients so often, and misses one `detect_s` after the next ping; 0: no pings"
        ),
    ] = 0.0
    in_flight: Annotated[
        int,
        Meta(ge=0),
        doc("so many messages may be on their way to a client that it has not acknowledged; 0: no limit"),
    ] = 0
    redelivers: Annotated[
        bool,
        doc(
            "what a vanished client has not acknowledged is sent again; false: it counts as consumed, and is lost"
        ),
    ] = True
    shows_epoch: Annotated[
        bool, doc("clients show the epoch of their last connection to the next broker")
    ] = True

    @property
    def is_plain(self) -> bool:
        """Every message takes the same time, and no broker waits for an acknowledgement."""
        return not (
            self.bandwidth_bps or self.loss or self.duplication or self.in_flight or not self.redelivers
        )

    def missed_after_s(self, connected_s: float) -> float:
        """Seconds until a broker notices that a client has vanished, which was connected for `connected_s`."""
        if not self.ping_s:
            return self.detect_s
        return self.ping_s - connected_s % self.ping_s + self.detect_s


class ServiceOptions(Options, frozen=True):
    """The time a broker takes. Without this group a broker takes none."""

    operation_s: Annotated[Seconds, doc("per input, whatever it is")] = 0.0
    event_s: Annotated[Seconds, doc("per event, for filtering")] = 0.0
    delivery_s: Annotated[Seconds, doc("per event and connected receiver, for routing it to the client")] = (
        0.0
    )
    send_s: Annotated[Seconds, doc("per message to another broker")] = 0.0
    transfer_s: Annotated[Seconds, doc("per stored event sent or received in a state transfer")] = 0.0
    forward_s: Annotated[Seconds, doc("per event sent or received while a copy is activated")] = 0.0
    message_s: Annotated[
        Seconds,
        doc("per stored event sent to or received from another broker, whatever for: one price for one act"),
    ] = 0.0
    buffer_s: Annotated[Seconds, doc("per event, for each context that buffers it")] = 0.0
    store_s: Annotated[Seconds, doc("per event that any context buffers: it is stored once for all")] = 0.0
    subscription_s: Annotated[Seconds, doc("per subscription that enters or leaves matching")] = 0.0
    queue_bytes: Annotated[int | None, doc("bound of the input queue; events beyond it are dropped")] = None
    window: Annotated[
        int | None,
        doc("flow control: publishers wait while any broker has so many events in its input queue"),
    ] = None
    flow_bytes: Annotated[
        int | None,
        doc("flow control: publishers wait while any broker has so many bytes in its input queue"),
    ] = None
    control_first: Annotated[
        bool, doc("control does not wait behind events and the messages that carry events")
    ] = False
    speed: Annotated[
        dict[str, Annotated[float, Meta(gt=0)]],
        doc("brokers that are slower (below 1) or faster than the others"),
    ] = {}

    def seconds(self, work: "Work") -> float:
        """Service time of one operation with its effects."""
        seconds = self.operation_s + work.deliveries * self.delivery_s + work.sends * self.send_s
        seconds += work.transferred * self.transfer_s + work.forwarded * self.forward_s
        if self.message_s:
            seconds += (work.transferred + work.forwarded) * self.message_s
        if work.kind == "event":
            seconds += self.event_s + self.buffer_s * work.buffered
            if work.buffered:
                seconds += self.store_s
        return seconds + work.subscriptions * self.subscription_s


class Work(NamedTuple):
    """The parts of one operation of a broker that cost time."""

    kind: str
    deliveries: int
    sends: int
    transferred: int
    """Stored events of a state transfer, sent to another broker or received from one."""
    forwarded: int
    """Events forwarded to a copy that is being activated, or received for one."""
    subscriptions: int
    """Subscriptions that entered or left matching."""
    buffered: int
    """Contexts that the last event was stored in."""


class Fault(Options, frozen=True):
    """Something that goes wrong at a time."""

    at_s: Annotated[Seconds, doc("when it begins")]
    kind: Annotated[str, doc("'crash' of a broker or 'cut' of a link")]
    target: Annotated[str, doc("a broker, or two brokers joined by '-'")]
    duration_s: Annotated[Seconds, doc("how long it lasts")] = 1.0
    keep_store: Annotated[bool, doc("crash: whether the broker finds its store again")] = True


class SchemeOfClass(Options, frozen=True):
    """Clients that have a scheme of their own."""

    name: Annotated[str, doc("what the class is called")]
    clients: Annotated[str, doc("which clients: a pattern of client ids, such as 'c1*'")]
    scheme: Annotated[dict[str, Any], doc("their scheme by name, and its options")]


class SchemeChange(Options, frozen=True):
    """Another scheme, or other options, while the network runs."""

    at_s: Annotated[Seconds, doc("when")]
    scheme: Annotated[dict[str, Any], doc("the scheme by name, and its options")]
    client_class: Annotated[str, doc("the class of clients that it is for; empty for all others")] = ""
    brokers: Annotated[list[str], doc("at which brokers; empty for all")] = []


class RecordOptions(Options, frozen=True):
    """What a run writes."""

    level: Annotated[str, doc("'all', 'moves' (no row per event) or 'traffic' (counts only)")] = "all"
    bin_s: Annotated[float, Meta(gt=0), doc("width of the traffic bins")] = 60.0
    buffer_s: Annotated[Seconds, doc("how often buffer levels are written; 0 for never")] = 0.0


TomlTable = dict[str, Any]
