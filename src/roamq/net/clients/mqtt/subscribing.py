"""What a SUBSCRIBE asks for, filter by filter, and the SUBACK that answers it."""

from collections.abc import Mapping, Sequence
from typing import Final

import msgspec

from roamq.core.errors import SelectorError
from roamq.core.filters import Filter
from roamq.core.selectors import parse_selector
from roamq.net.clients.mqtt.answers import explanation
from roamq.net.clients.mqtt.codec import ReasonCode, Suback, Subscribe, SubscriptionRequest
from roamq.net.clients.mqtt.codec.topics import has_wildcard
from roamq.net.clients.mqtt.limits import Limits
from roamq.net.clients.mqtt.state import Subscription
from roamq.net.clients.mqtt.subscriptions import SubscriptionSet, asked_for

FILTER_PROPERTY: Final = "filter"
"""The user property of SUBSCRIBE that holds a selector."""


class Subscribing(msgspec.Struct, frozen=True):
    """One topic filter of a SUBSCRIBE, well-formed and supported; the client may not be allowed it."""

    subscription: Subscription
    filter: Filter
    is_new: bool
    """No subscription with this topic filter existed."""
    replay: bool
    """Send the retained messages that match ([MQTT-3.3.1-9] to -11)."""
    replaced: Filter | None
    """What the same topic filter stood for before, if its selector was another."""


class Examined(msgspec.Struct, frozen=True):
    """A SUBSCRIBE that the protocol has examined; `subscribed` takes it with one reason per `wanted`."""

    packet_id: int
    wanted: tuple[Subscribing, ...]
    reasons: tuple[ReasonCode | None, ...]
    """One per topic filter of the packet: why it was refused already, or `None` for the next of `wanted`."""
    reason_string: str | None = None


def examine(packet: Subscribe, subscriptions: SubscriptionSet, limits: Limits) -> Examined:
    """What of a SUBSCRIBE can be granted as far as the protocol goes; the machine decides on the rest."""
    wanted: list[Subscribing] = []
    reasons: list[ReasonCode | None] = []
    new: dict[str, Filter] = {}  # wanted by this packet, and not held before
    shapes: set[str] = set()  # likewise
    selector = packet.properties.user_property(FILTER_PROPERTY)
    unreadable, told = _check_selector(selector, limits)
    if unreadable is not None:
        return Examined(packet.packet_id, (), (unreadable,) * len(packet.requests), told)
    selector_bytes, costs = subscriptions.selector_bytes, subscriptions.cost_bytes
    for request in packet.requests:
        try:
            refusal = _unsupported(packet, request, limits)
            selector_bytes += len(selector or "")
            if selector and selector_bytes > limits.selectors_bytes_max:
                refusal = refusal or ReasonCode.QUOTA_EXCEEDED
            is_more = (
                request.topic_filter not in new and subscriptions.filter_of(request.topic_filter) is None
            )
            if is_more and len(subscriptions) + len(new) >= limits.subscriptions_max:
                refusal = refusal or ReasonCode.QUOTA_EXCEEDED
            costs += Subscription(request.topic_filter, selector=selector).cost_bytes
            if is_more and costs > limits.subscriptions_bytes_max:
                refusal = refusal or ReasonCode.QUOTA_EXCEEDED
            if is_more and request.topic_filter.startswith("$share/"):
                begun = sum(topic_filter.startswith("$share/") for topic_filter in new)
                if subscriptions.shared + begun >= limits.shared_subscriptions_max:
                    refusal = refusal or ReasonCode.QUOTA_EXCEEDED
            if refusal is None:
                subscribing = _subscribing(packet, request, selector, subscriptions, new, limits)
                shape = subscribing.filter.shape
                if shape and not subscriptions.has_shape(shape):
                    shapes.add(shape)
                if shape in shapes and subscriptions.shapes + len(shapes) > limits.wildcard_shapes_max:
                    shapes.discard(shape)
                    refusal = ReasonCode.QUOTA_EXCEEDED
            if refusal is None:
                wanted.append(subscribing)
                if is_more or request.topic_filter in new:
                    new[request.topic_filter] = subscribing.filter
        except SelectorError as error:
            refusal, told = ReasonCode.TOPIC_FILTER_INVALID, str(error)
        reasons.append(refusal)
    return Examined(packet.packet_id, tuple(wanted), tuple(reasons), told)


def _check_selector(selector: str | None, limits: Limits) -> tuple[ReasonCode | None, str | None]:
    """Why the selector of a SUBSCRIBE cannot be used, once for all its topic filters; nothing if it can.

    The SUBSCRIBE is valid, but we cannot do what it asks: say where the mistake is.
    """
    if not selector or not selector.strip():
        return None, None
    if len(selector) > limits.selector_bytes_max:
        reason = f"a selector is longer than {limits.selector_bytes_max} characters"
        return ReasonCode.IMPLEMENTATION_SPECIFIC_ERROR, reason
    try:
        parse_selector(selector)
    except SelectorError as error:
        return ReasonCode.IMPLEMENTATION_SPECIFIC_ERROR, str(error)
    return None, None


def _unsupported(packet: Subscribe, request: SubscriptionRequest, limits: Limits) -> ReasonCode | None:
    """Sections 3.2.2.3.11 to 3.2.2.3.13: what CONNACK said is not available."""
    if request.topic_filter.count("/") >= limits.topic_levels_max:
        return ReasonCode.TOPIC_FILTER_INVALID
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
    selector: str | None,
    subscriptions: SubscriptionSet,
    new: Mapping[str, Filter],
    limits: Limits,
) -> Subscribing:
    identifiers = packet.properties.subscription_identifiers
    filter_ = asked_for(request.topic_filter, selector)
    before = new.get(request.topic_filter) or subscriptions.filter_of(request.topic_filter)
    # [MQTT-3.3.1-9] always, [MQTT-3.3.1-10] if it is new, [MQTT-3.3.1-11] never; a shared one never (4.8.2).
    replay = filter_.group is None and (
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
            granted = msgspec.structs.replace(subscribing.subscription, qos=int(reason))
            subscriptions.add(granted, subscribing.filter)
    decided = iter(reasons)
    answers = tuple(next(decided) if reason is None else reason for reason in examined.reasons)
    return Suback(examined.packet_id, answers, explanation(examined.reason_string or reason_string))
