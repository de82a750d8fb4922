"""Hypothesis strategies: any valid packet of either version."""

from typing import Any

from hypothesis import strategies as st

from roamq.net.clients.mqtt.codec import packets as k
from roamq.net.clients.mqtt.codec import properties as props
from roamq.net.clients.mqtt.codec import reason_codes as codes
from roamq.net.clients.mqtt.codec.properties import NO_PROPERTIES, Properties

u16s = st.integers(0, 0xFFFF)
u32s = st.integers(0, 0xFFFF_FFFF)
packet_ids = st.integers(1, 0xFFFF)
qos_levels = st.integers(0, 2)
texts = st.text(st.characters(exclude_characters="\0", codec="utf-8"), max_size=20)
binaries = st.binary(max_size=20)
names = st.text(st.characters(exclude_characters="\0+#", codec="utf-8"), min_size=1, max_size=20)

_levels = st.text(st.characters(exclude_characters="\0+#/", codec="utf-8"), max_size=5) | st.just("+")


@st.composite
def _filters(draw: st.DrawFn) -> str:
    levels = draw(st.lists(_levels, min_size=1, max_size=4))
    if draw(st.booleans()):
        levels.append("#")
    topic_filter = "/".join(levels)
    if not topic_filter or topic_filter.startswith("$share/"):
        return "a/b"
    if draw(st.booleans()):
        group = draw(names).replace("/", "") or "group"
        return f"$share/{group}/{topic_filter}"
    return topic_filter


filters = _filters()

_PROPERTY_VALUES: dict[str, st.SearchStrategy[Any]] = {
    "payload_format_indicator": st.booleans(),
    "message_expiry_interval": u32s,
    "content_type": texts,
    "response_topic": names,
    "correlation_data": binaries,
    "subscription_identifiers": st.integers(1, 268_435_455),
    "session_expiry_interval": u32s,
    "assigned_client_identifier": texts,
    "server_keep_alive": u16s,
    "authentication_method": texts,
    "authentication_data": binaries,
    "request_problem_information": st.booleans(),
    "will_delay_interval": u32s,
    "request_response_information": st.booleans(),
    "response_information": texts,
    "server_reference": texts,
    "reason_string": texts,
    "receive_maximum": packet_ids,
    "topic_alias_maximum": u16s,
    "topic_alias": packet_ids,
    "maximum_qos": st.integers(0, 1),
    "retain_available": st.booleans(),
    "user_properties": st.tuples(texts, texts),
    "maximum_packet_size": st.integers(1, 0xFFFF_FFFF),
    "wildcard_subscription_available": st.booleans(),
    "subscription_identifier_available": st.booleans(),
    "shared_subscription_available": st.booleans(),
}


@st.composite
def _properties(draw: st.DrawFn, packet: int) -> Properties:
    rows = [row for row in props.TABLE if row.packets & packet]
    fields: dict[str, Any] = {}
    for row in draw(st.lists(st.sampled_from(rows), unique=True, max_size=4)):
        value = _PROPERTY_VALUES[row.field]
        if row.is_tuple:
            size = 3 if row.repeated_in & packet else 1
            fields[row.field] = tuple(draw(st.lists(value, min_size=1, max_size=size)))
        else:
            fields[row.field] = draw(value)
    if "authentication_data" in fields:
        fields.setdefault("authentication_method", "m")
    return Properties(**fields) if fields else NO_PROPERTIES


def properties(packet: int, v5: bool) -> st.SearchStrategy[Properties]:
    return st.just(NO_PROPERTIES) | _properties(packet) if v5 else st.just(NO_PROPERTIES)


def _reasons(allowed: dict[int, codes.ReasonCode], v5: bool) -> st.SearchStrategy[codes.ReasonCode]:
    return st.sampled_from(sorted(allowed.values())) if v5 else st.just(codes.ReasonCode.SUCCESS)


def wills(v5: bool) -> st.SearchStrategy[k.Will]:
    return st.builds(
        k.Will,
        topic=names,
        payload=binaries,
        qos=qos_levels,
        retain=st.booleans(),
        properties=properties(props.WILL, v5),
    )


@st.composite
def connects(draw: st.DrawFn, version: k.Version) -> k.Connect:
    v5 = version is k.Version.V5
    user_name = draw(st.none() | texts)
    return k.Connect(
        version=version,
        client_id=draw(texts),
        clean_start=draw(st.booleans()),
        keep_alive=draw(u16s),
        will=draw(st.none() | wills(v5)),
        user_name=user_name,
        password=draw(st.none() | binaries) if v5 or user_name is not None else None,
        properties=draw(properties(props.CONNECT, v5)),
    )


@st.composite
def connacks(draw: st.DrawFn, v5: bool) -> k.Connack:
    allowed = codes.CONNACK_CODES if v5 else codes.CONNACK_CODES_311
    reason = draw(st.sampled_from(sorted(allowed.values())))
    present = draw(st.booleans()) and not reason
    return k.Connack(present, reason, draw(properties(props.CONNACK, v5)))


@st.composite
def publishes(draw: st.DrawFn, v5: bool) -> k.Publish:
    qos = draw(qos_levels)
    carried = draw(properties(props.PUBLISH, v5))
    return k.Publish(
        draw(names) if carried.topic_alias is None else draw(st.just("") | names),
        draw(st.binary(max_size=200)),
        qos,
        draw(st.booleans()),
        qos > 0 and draw(st.booleans()),
        draw(packet_ids) if qos else 0,
        carried,
    )


def _requests(v5: bool) -> st.SearchStrategy[k.SubscriptionRequest]:
    def build(
        topic_filter: str, qos: int, no_local: bool, published: bool, handling: int
    ) -> k.SubscriptionRequest:
        shared = topic_filter.startswith("$share/")
        return k.SubscriptionRequest(
            topic_filter, qos, v5 and no_local and not shared, v5 and published, handling if v5 else 0
        )

    return st.builds(build, filters, qos_levels, st.booleans(), st.booleans(), qos_levels)


def _acks(
    packet: Any, allowed: dict[int, codes.ReasonCode], bit: int, v5: bool
) -> st.SearchStrategy[k.Packet]:
    return st.builds(packet, packet_ids, _reasons(allowed, v5), properties(bit, v5))


def packets(version: k.Version) -> st.SearchStrategy[k.Packet]:
    """Any packet a peer of that version may send, either way."""
    v5 = version is k.Version.V5
    suback_codes = codes.SUBACK_CODES.values() if v5 else [codes.ReasonCode(c) for c in (0, 1, 2, 0x80)]
    unsuback = st.lists(st.sampled_from(sorted(codes.UNSUBACK_CODES.values())), min_size=1, max_size=4)
    kinds: list[st.SearchStrategy[Any]] = [
        connects(version),
        connacks(v5),
        publishes(v5),
        _acks(k.Puback, codes.PUBACK_CODES, props.PUBACK, v5),
        _acks(k.Pubrec, codes.PUBREC_CODES, props.PUBREC, v5),
        _acks(k.Pubrel, codes.PUBREL_CODES, props.PUBREL, v5),
        _acks(k.Pubcomp, codes.PUBCOMP_CODES, props.PUBCOMP, v5),
        st.builds(
            k.Subscribe,
            packet_ids,
            st.lists(_requests(v5), min_size=1, max_size=4).map(tuple),
            properties(props.SUBSCRIBE, v5),
        ),
        st.builds(
            k.Suback,
            packet_ids,
            st.lists(st.sampled_from(sorted(suback_codes)), min_size=1, max_size=4).map(tuple),
            properties(props.SUBACK, v5),
        ),
        st.builds(
            k.Unsubscribe,
            packet_ids,
            st.lists(filters, min_size=1, max_size=4).map(tuple),
            properties(props.UNSUBSCRIBE, v5),
        ),
        st.builds(
            k.Unsuback,
            packet_ids,
            unsuback.map(tuple) if v5 else st.just(()),
            properties(props.UNSUBACK, v5),
        ),
        st.just(k.PINGREQ),
        st.just(k.PINGRESP),
        st.builds(k.Disconnect, _reasons(codes.DISCONNECT_CODES, v5), properties(props.DISCONNECT, v5)),
    ]
    if v5:
        kinds.append(st.builds(k.Auth, _reasons(codes.AUTH_CODES, v5), properties(props.AUTH, v5)))
    return st.one_of(kinds)


versions = st.sampled_from(k.Version)
versioned_packets = versions.flatmap(lambda version: st.tuples(st.just(version), packets(version)))
