"""Topic filters as the codec sees them: which are shared, and what a wrong one says. Matching is the
core's."""

import pytest

from roamq.net.clients.mqtt.codec import MqttError
from roamq.net.clients.mqtt.codec.topics import Share, check_filter, parse_share


def test_a_shared_filter_names_its_group() -> None:
    assert parse_share("$share/consumers/a/+/#") == Share("consumers", "a/+/#")
    assert parse_share("$share/consumers//finance") == Share("consumers", "/finance")
    assert parse_share("$shared/consumers/a") is None


@pytest.mark.parametrize("topic_filter", ["a", "/", "+", "#", "a/+/b/#", "$SYS/#", "$share/g/#", "$shared/x"])
def test_valid_filters_pass(topic_filter: str) -> None:
    check_filter(topic_filter)


def test_the_message_points_at_the_mistake() -> None:
    with pytest.raises(MqttError, match="position 3"):
        check_filter("a/b#")
