"""The tariff as users write it, and what a run's metrics amount to in its units."""

import pytest

from roamq.models.tariff import Tariff, amounts


def test_a_tariff_is_read_from_text() -> None:
    assert Tariff.parse("delay=2, traffic=0") == Tariff(traffic=0.0, delay=2.0)
    assert str(Tariff.parse("")) == "traffic=0.1, memory=0.01, delay=0.01"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("speed=1", "names: traffic"),
        ("delay", "NAME=PRICE"),
        ("delay=x", "delay is 'x'"),
        ("delay=-1", "0 or more"),
        ("delay=1,traffic=1,delay=2", "delay is named twice"),
    ],
)
def test_a_tariff_that_cannot_be_read_says_what_is_wrong(text: str, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        Tariff.parse(text)


def test_amounts_are_those_of_a_million_messages() -> None:
    measured = {
        "received_once": 2e6,
        "traffic_bytes": 1e10,
        "memory_byte_s": 7.2e12,
        "mobility_delay_s_mean": 0.0036,
    }

    assert amounts(measured) == pytest.approx({"traffic": 5.0, "memory": 1.0, "delay": 1.0})
