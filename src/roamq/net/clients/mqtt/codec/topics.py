"""Topic names and topic filters: which are valid, and which shared group a filter names (section 4.7, 4.8.2)."""

from functools import lru_cache
from typing import Final, NamedTuple

from roamq.core.errors import SelectorError
from roamq.core.topics import parse_topic_filter
from roamq.net.clients.mqtt.codec.errors import MqttError
from roamq.net.clients.mqtt.codec.primitives import text
from roamq.net.clients.mqtt.codec.reason_codes import ReasonCode

SHARE_PREFIX: Final = "$share/"
REMEMBERED_TOPIC_BYTES_MAX: Final = 256
"""Most bytes of a topic name that is kept; longer names are checked anew each time, so that the memory stays small
whoever fills it."""


def topic_name(raw: bytes) -> str:
    """The topic name of a PUBLISH. The caller must judge an empty one: MQTT 5 allows it beside an alias."""
    name = text(raw)
    if "+" in name or "#" in name:
        # [MQTT-3.3.2-2], [MQTT-4.7.0-1]
        raise MqttError(f"topic name {name!r} contains a wildcard", ReasonCode.TOPIC_NAME_INVALID)
    return name


@lru_cache(maxsize=16384)
def seen_topic_name(raw: bytes) -> str:
    """`topic_name`, kept: publishers repeat themselves, and equal topics become one string object."""
    return topic_name(raw)


def check_filter(topic_filter: str) -> None:
    """Raise if the topic filter is not valid, including the filter inside `$share/...`."""
    if not topic_filter.startswith(SHARE_PREFIX) and _is_well_formed(topic_filter):
        return
    share = parse_share(topic_filter)
    try:
        parse_topic_filter(
            share.topic_filter if share else topic_filter
        )  # [MQTT-4.7.1-1], -2, [MQTT-4.7.3-1]
    except SelectorError as error:
        raise MqttError(f"topic filter: {error}", ReasonCode.TOPIC_FILTER_INVALID) from None


def _is_well_formed(topic_filter: str) -> bool:
    """Whether a string of MQTT is a topic filter. If not, `parse_topic_filter` says what is wrong."""
    if not topic_filter:
        return False
    rest = topic_filter.find("#")
    if rest >= 0 and (rest != len(topic_filter) - 1 or (rest and topic_filter[rest - 1] != "/")):
        return False
    return "+" not in topic_filter or topic_filter.count("+") == topic_filter.split("/").count("+")


class Share(NamedTuple):
    """A shared subscription: `$share/{group}/{topic_filter}`."""

    group: str
    topic_filter: str


def parse_share(topic_filter: str) -> Share | None:
    """The group and the filter of a shared subscription; None for an ordinary subscription."""
    if not topic_filter.startswith(SHARE_PREFIX):
        return None
    group, slash, rest = topic_filter[len(SHARE_PREFIX) :].partition("/")
    if not group or not slash or "+" in group or "#" in group:
        # [MQTT-4.8.2-1], [MQTT-4.8.2-2]
        raise MqttError(f"{topic_filter!r} is not $share/NAME/FILTER", ReasonCode.TOPIC_FILTER_INVALID)
    return Share(group, rest)


def has_wildcard(topic_filter: str) -> bool:
    return "+" in topic_filter or "#" in topic_filter
