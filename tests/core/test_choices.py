"""Hints at what an operator may have meant."""

from roamq.core.choices import choose_from, nearest


def test_the_nearest_word_is_found_in_capitals_or_not() -> None:
    assert nearest("Intrest", ["interest", "flooding"]) == "interest"
    assert nearest("mqtt", ["MQTT", "ws"]) == "MQTT"
    assert nearest("zebra", ["interest", "flooding"]) is None


def test_a_hint_has_all_choices_in_their_order_and_the_nearest_if_one_is_near() -> None:
    assert choose_from("dsk", ["memory", "disk"]) == "; did you mean 'disk'? choose one of memory, disk"
    assert choose_from("zebra", ["memory", "disk"]) == "; choose one of memory, disk"
    assert choose_from(3, [0, 1, 2]) == "; choose one of 0, 1, 2"
