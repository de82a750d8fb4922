"""Who is linked with whom, and the way around a link that is down; and how long a direct call waits."""

import random
from collections.abc import Mapping

import pytest

from roamq.core.events import BrokerId
from roamq.net.links.linkmap import LinkMap, Path
from roamq.net.links.patience import (
    BACK_OFF_S_MAX,
    BACK_OFF_S_MIN,
    DOUBT_S_MAX,
    DOUBT_S_MIN,
    STEADY_S,
    Patience,
)
from roamq.net.links.protocol import CARRIERS_MAX, LinkedWith


def names(text: str) -> tuple[BrokerId, ...]:
    return tuple(BrokerId(name) for name in text)


def known_by(me: str, links: Mapping[str, str]) -> LinkMap:
    """A broker that has heard of these links."""
    found = LinkMap(BrokerId(me))
    entries = [LinkedWith(BrokerId(one), 1, names(others)) for one, others in links.items()]
    assert found.learn(entries, names("abcdefgh")) == entries
    return found


def test_the_way_leads_through_who_is_linked_with_both() -> None:
    links = known_by("a", {"b": "ac", "d": "a"})

    assert links.way(BrokerId("c"), names("bd")) == names("b")


def test_the_way_is_as_short_as_possible_and_others_are_tried_after_it() -> None:
    links = known_by("a", {"b": "ad", "d": "be", "e": "d", "c": "ae"})
    avoid: list[Path] = []

    while (way := links.way(BrokerId("e"), names("bc"), avoid)) is not None:
        avoid.append(way)

    assert avoid == [names("c"), names("bd")]


def test_nobody_is_asked_who_has_not_said_that_he_carries_links() -> None:
    """So it is with brokers of the release before, and where detours are turned off."""
    links = known_by("a", {"b": ""})

    assert links.way(BrokerId("c"), names("bd")) is None


def test_no_way_leads_to_a_broker_that_is_down_though_it_was_linked_in_its_own_last_words() -> None:
    links = known_by("a", {"b": "a", "c": "abd", "d": "ab"})

    assert links.way(BrokerId("c"), names("bd")) is None


def test_a_way_leads_neither_back_nor_through_too_many() -> None:
    chain = "abcdefgh"
    links = known_by("a", {one: chain[at - 1] + chain[at + 1 : at + 2] for at, one in enumerate(chain) if at})

    assert links.way(BrokerId(chain[CARRIERS_MAX + 1]), names("b")) == names(chain[1 : CARRIERS_MAX + 1])
    assert links.way(BrokerId(chain[CARRIERS_MAX + 2]), names("b")) is None


def test_ways_lead_to_brokers_that_joined_later_and_never_through_them() -> None:
    links = LinkMap(BrokerId("a"))
    links.learn(
        [
            LinkedWith(BrokerId("b"), 1, names("c"), names("de")),
            LinkedWith(BrokerId("c"), 1, names("b"), names("f")),
        ],
        names("abc"),
    )

    assert links.way(BrokerId("e"), names("b")) == names("b")
    assert links.way(BrokerId("f"), names("b")) == names("bc")
    assert links.is_reached(BrokerId("f"), names("b"))
    assert not links.is_reached(BrokerId("g"), names("bc"))
    assert links.way(BrokerId("f"), names("e")) is None


def test_who_has_called_is_news_and_goes_to_those_that_did_not() -> None:
    links = LinkMap(BrokerId("b"))
    said = links.say(names("c"), 1, names("d"))
    assert said == LinkedWith(BrokerId("b"), 1, names("c"), names("d"))
    assert links.say(names("c"), 2, names("d")) is None
    assert links.say(names("c"), 2) == LinkedWith(BrokerId("b"), 2, names("c"))

    other = LinkMap(BrokerId("c"))
    news = other.learn([said], names("bc"))
    assert [other.news_for(one, news) for one in names("bde")] == [[], [], news]


def test_only_news_goes_on_and_the_later_word_holds() -> None:
    links = known_by("a", {"b": "ac"})

    assert links.learn([LinkedWith(BrokerId("b"), 1, names("a"))], names("abc")) == []
    later = LinkedWith(BrokerId("b"), 2, names("a"))
    assert links.learn([later], names("abc")) == [later]
    assert links.way(BrokerId("c"), names("b")) is None


def test_where_each_is_linked_with_each_nobody_passes_anything_on() -> None:
    links = LinkMap(BrokerId("a"))
    news = links.learn([LinkedWith(BrokerId("b"), 1, names("acd"))], names("abcd"))

    assert [links.news_for(one, news) for one in names("bcd")] == [[], [], []]
    assert links.news_for(BrokerId("e"), news) == news


def test_what_is_said_of_strangers_is_not_kept() -> None:
    links = LinkMap(BrokerId("a"))
    strangers = [LinkedWith(BrokerId("x"), 1, names("a")), LinkedWith(BrokerId("b"), 1, names("x"))]

    assert links.learn(strangers, names("ab")) == []
    assert links.entries == []


def test_a_life_outbids_what_an_earlier_one_said_with_a_clock_that_was_ahead() -> None:
    links = LinkMap(BrokerId("a"))
    assert links.say(names("b"), 10) == LinkedWith(BrokerId("a"), 10, names("b"))

    assert links.learn([LinkedWith(BrokerId("a"), 50, names("bc"))], names("abc")) == [
        LinkedWith(BrokerId("a"), 51, names("b"))
    ]
    assert links.say(names("b"), 11) is None
    assert links.say(names("bc"), 12) == LinkedWith(BrokerId("a"), 52, names("bc"))


@pytest.mark.parametrize("seed", range(20))
def test_all_brokers_in_reach_agree_when_all_news_has_gone_around(seed: int) -> None:
    """Random graphs, links that come and go, messages in any order from different neighbours."""
    chance = random.Random(seed)
    brokers = names("abcdefg")
    maps = {one: LinkMap(one) for one in brokers}
    up: dict[BrokerId, set[BrokerId]] = {one: set() for one in brokers}
    under_way: list[tuple[BrokerId, BrokerId, list[LinkedWith]]] = []

    def tell(one: BrokerId, news: list[LinkedWith]) -> None:
        for other in up[one]:
            if theirs := maps[one].news_for(other, news):
                under_way.append((one, other, theirs))

    def arrive() -> None:
        _, to, entries = under_way.pop(chance.randrange(len(under_way)))
        tell(to, maps[to].learn(entries, brokers))

    for number in range(60):
        one, other = chance.sample(brokers, 2)
        if other in up[one]:
            up[one].discard(other)
            up[other].discard(one)
            under_way[:] = [sent for sent in under_way if {sent[0], sent[1]} != {one, other}]
        else:
            up[one].add(other)
            up[other].add(one)
            under_way += [(one, other, maps[one].entries), (other, one, maps[other].entries)]
        for end in (one, other):
            if (said := maps[end].say(up[end], number)) is not None:
                tell(end, [said])
        for _ in range(min(chance.randrange(10), len(under_way))):
            arrive()
    while under_way:
        arrive()

    for one in brokers:
        reached, more = {one}, {one}
        while more := {next_one for at in more for next_one in up[at]} - reached:
            reached |= more
        told = {entry.broker: set(entry.linked) for entry in maps[one].entries}
        assert {other: told[other] for other in reached if other in told} == {
            other: up[other] for other in reached if other in told
        }, f"seed {seed}"
        assert reached - {one} <= told.keys()


def test_a_neighbour_that_does_not_answer_is_called_less_and_less_often() -> None:
    patience = Patience()
    waits = []
    for _ in range(8):
        patience.unanswered()
        waits.append(patience.wait_s)

    assert waits == sorted(waits)
    assert (waits[0], waits[-1]) == (2 * BACK_OFF_S_MIN, BACK_OFF_S_MAX)
    assert patience.doubt_s == 0.0, "nobody lost a detour by that"


def test_a_connection_that_keeps_breaking_leaves_the_link_with_who_carries_it_for_longer_and_longer() -> None:
    patience = Patience()
    doubts = []
    for _ in range(8):
        patience.broken(1.0)
        doubts.append(patience.doubt_s)
    assert (doubts[0], doubts[1], doubts[-1]) == (DOUBT_S_MIN, 2 * DOUBT_S_MIN, DOUBT_S_MAX)

    patience.broken(STEADY_S)
    assert (patience.wait_s, patience.doubt_s) == (BACK_OFF_S_MIN, 0.0)
