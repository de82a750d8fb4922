"""What a SUBSCRIBE asks for, filter by filter, and the SUBACK that answers it."""

from collections.abc import Mapping, Sequence
from typing import Final

import msgspec

from roamq.core.errors import SelectorError
from roamq.core.filters import Filter
from roamq.net.mqtt.answers import explanation
from roamq.net.mqtt.codec import ReasonCode, Suback, Subscribe, SubscriptionRequest
from roamq.net.mqtt.codec.topics import has_wildcard, parse_share
from roamq.net.mqtt.limits import Limits
from roamq.net.mqtt.state import Subscription
from roamq.net.mqtt.subscriptions import SubscriptionSet

FILTER_PROPERTY: Final = "filter"
"""The user property of SUBSCRIBE that holds a selector."""


class Subscribing(msgspec.Struct, frozen=True):
    """One topic filter of a SUBSCRIBE, well-formed and supported; the client may not be allowed it."""

    subscription: Subscription
    filter: Filter
    share: str | None
    """The group of a shared subscription."""
    is_new: bool
    """No subscription with this topic filter existed."""
    replay: bool
    """Send the retained messages that match ([MQTT-3.3.1-9] to -11)."""
    replaced: Filter | None
    """What the same topic filter stood for before, if its selector was another."""


class Examined(msgspec.Struct, frozen=True):
    """A SUBSCRIBE that the protocol has had its say on; `subscribed` takes it with one reason per
    `wanted`."""

    packet_id: int
    wanted: tuple[Subscribing, ...]
    reasons: tuple[ReasonCode | None, ...]
    """One per topic filter of the packet: why it was refused already, or `None` for the next of `wanted`."""
    reason_string: str | None = None


def examine(packet: Subscribe, subscriptions: SubscriptionSet, limits: Limits) -> Examined:
    """What of a SUBSCRIBE can be granted as far as the protocol goes; the rest is the shell's to say."""
    wanted: list[Subscribing] = []
    reasons: list[ReasonCode | None] = []
    told: str | None = None
    new: dict[str, Filter] = {}  # wanted by this packet, and not held before
    for request in packet.requests:
        try:
            refusal = _unsupported(packet, request, limits)
            is_more = (
                request.topic_filter not in new and subscriptions.filter_of(request.topic_filter) is None
            )
            if is_more and len(subscriptions) + len(new) >= limits.subscriptions_max:
                refusal = refusal or ReasonCode.QUOTA_EXCEEDED
            if refusal is None:
                subscribing = _subscribing(packet, request, subscriptions, new, limits)
                wanted.append(subscribing)
                if is_more or request.topic_filter in new:
                    new[request.topic_filter] = subscribing.filter
        except SelectorError as error:
            # The SUBSCRIBE is valid, but we cannot do what it asks; say where the mistake is.
            refusal, told = ReasonCode.IMPLEMENTATION_SPECIFIC_ERROR, str(error)
        reasons.append(refusal)
    return Examined(packet.packet_id, tuple(wanted), tuple(reasons), told)


def _unsupported(packet: Subscribe, request: SubscriptionRequest, limits: Limits) -> ReasonCode | None:
    """Sections 3.2.2.3.11 to 3.2.2.3.13: what CONNACK said is not available."""
    shared = request.topic_filter.startswith("$share/")
    if shared and not limits.shared_subscription_available:
        return ReasonCode.SHARED_SUBSCRIPTIONS_NOT_SUPPORTED
    if has_wildcard(request.topic_filter) and not limits.wildcard_subscription_available:
        return ReasonCode.WILDCARD_SUBSCRIPTIONS_NOT_SUPPORTED
    if packet.properties.subscription_identifiers and not limits.subscription_identifier_available:
        return ReasonCode.SUBSCRIPTION_IDENTIFIERS_NOT_SUPPORTED
    return None


def _subscribing(
    packet: Subscribe,
    request: SubscriptionRequest,
    subscriptions: SubscriptionSet,
    new: Mapping[str, Filter],
    limits: Limits,
) -> Subscribing:
    share = parse_share(request.topic_filter)
    identifiers = packet.properties.subscription_identifiers
    selector = packet.properties.user_property(FILTER_PROPERTY)
    filter_ = Filter.parse(share.topic_filter if share else request.topic_filter, selector)
    before = new.get(request.topic_filter) or subscriptions.filter_of(request.topic_filter)
    # [MQTT-3.3.1-9] always, [MQTT-3.3.1-10] if it is new, [MQTT-3.3.1-11] never; a shared one never (4.8.2).
    replay = share is None and (
        request.retain_handling == 0 or (request.retain_handling == 1 and before is None)
    )
    return Subscribing(
        subscription=Subscription(
            request.topic_filter,
            min(request.qos, limits.maximum_qos),  # [MQTT-3.2.2-10]
            request.no_local,
            request.retain_as_published,
            identifiers[0] if identifiers else 0,
            selector,
        ),
        filter=filter_,
        share=share.group if share else None,
        is_new=before is None,
        replay=replay and limits.retain_available,
        replaced=before if before != filter_ else None,
    )


def grant(
    examined: Examined, reasons: Sequence[ReasonCode], reason_string: str, subscriptions: SubscriptionSet
) -> Suback:
    """Keep what was granted, and answer: one packet, a reason per filter, in order.

    ([MQTT-3.8.4-1], [MQTT-3.8.4-2], [MQTT-3.8.4-5], [MQTT-3.8.4-6], [MQTT-3.8.4-7], [MQTT-3.9.3-1])
    """
    for subscribing, reason in zip(examined.wanted, reasons, strict=True):
        if not reason.failed:
            subscriptions.add(msgspec.structs.replace(subscribing.subscription, qos=int(reason)))
    decided = iter(reasons)
    answers = tuple(next(decided) if reason is None else reason for reason in examined.reasons)
    return Suback(examined.packet_id, answers, explanation(examined.reason_string or reason_string))
