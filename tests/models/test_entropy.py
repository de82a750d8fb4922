"""Entropy rate and predictability, against their definitions spelled out."""

import math
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from roamq.models.entropy import predictability, real_entropy, shortest_new


def by_definition(places: str) -> list[int]:
    """The shortest sequence from each position that does not occur before it, by trying."""
    lengths = []
    for begin in range(len(places)):
        size = 1
        while begin + size <= len(places) and places[begin : begin + size] in places[:begin]:
            size += 1
        lengths.append(size)
    return lengths


@given(st.text(alphabet="abc", max_size=60))
def test_shortest_new_sequences_are_those_of_the_definition(places: str) -> None:
    assert shortest_new(places) == by_definition(places)


def test_a_round_trip_is_predictable_and_chance_is_not() -> None:
    draw = random.Random(1)
    chance = [draw.randrange(8) for _ in range(20_000)]

    assert real_entropy("abc" * 2000) < 0.01
    assert real_entropy(chance) == pytest.approx(3.0, rel=0.1)
    # The estimate grows slowly towards 3 bits, so that the bound comes down slowly towards 1/8.
    assert 1 / 8 < predictability(real_entropy(chance), 8) < 0.35


@pytest.mark.parametrize(("share", "places"), [(0.93, 45), (0.5, 3), (0.2, 100), (0.999, 2)])
def test_predictability_inverts_the_inequality_of_fano(share: float, places: int) -> None:
    left = 1 - share
    entropy = -share * math.log2(share) - left * math.log2(left) + left * math.log2(places - 1)

    assert predictability(entropy, places) == pytest.approx(share, abs=1e-9)


def test_nothing_to_choose_is_certain_and_pure_chance_is_one_in_n() -> None:
    assert predictability(0.0, 5) == 1.0
    assert predictability(0.7, 1) == 1.0
    assert predictability(3.0, 8) == pytest.approx(1 / 8)
    assert real_entropy("a") == 0.0
