"""Topic filters: which topics they select, and which of them are shared."""

import pytest

from roamq.net.mqtt.codec.topics import Share, matches, parse_share


@pytest.mark.parametrize(
    ("topic_filter", "topic", "expected"),
    [
        # The examples of sections 4.7.1.2, 4.7.1.3 and 4.7.2.
        ("sport/tennis/player1/#", "sport/tennis/player1", True),
        ("sport/tennis/player1/#", "sport/tennis/player1/ranking", True),
        ("sport/tennis/player1/#", "sport/tennis/player1/score/wimbledon", True),
        ("sport/#", "sport", True),
        ("sport/#", "sports", False),
        ("#", "anything/at/all", True),
        ("sport/tennis/+", "sport/tennis/player1", True),
        ("sport/tennis/+", "sport/tennis/player1/ranking", False),
        ("sport/+", "sport", False),
        ("sport/+", "sport/", True),
        ("+/+", "/finance", True),
        ("/+", "/finance", True),
        ("+", "/finance", False),
        ("#", "$SYS/monitor/Clients", False),
        ("+/monitor/Clients", "$SYS/monitor/Clients", False),
        ("$SYS/#", "$SYS/monitor/Clients", True),
        ("$SYS/monitor/+", "$SYS/monitor/Clients", True),
        ("ACCOUNTS", "Accounts", False),
        ("a/b", "a/b", True),
        ("a/b", "a/b/c", False),
        ("a/b/c", "a/b", False),
        ("a//b", "a//b", True),
        ("a/+/b", "a//b", True),
    ],
)
def test_matches(topic_filter: str, topic: str, expected: bool) -> None:
    assert matches(topic_filter, topic) is expected


def test_a_shared_filter_names_its_group() -> None:
    assert parse_share("$share/consumers/a/+/#") == Share("consumers", "a/+/#")
    assert parse_share("$share/consumers//finance") == Share("consumers", "/finance")
    assert parse_share("$shared/consumers/a") is None
