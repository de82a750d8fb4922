"""Sequences of what clients do: drawn at random, written as plain tuples, and shrunk."""

from collections.abc import Callable
from random import Random
from typing import Any

from tests.net.reference.model import GROUP, Options

CLIENTS = ("c0", "c1", "c2")
TOPICS = ("a", "a/b", "b")
FILTERS = ("#", "a/#", "a/b", "+", "b")
Action = tuple[Any, ...]
FOREVER = 100_000


def draw(random: Random, length: int, *, is_live: bool = False, more: Random | None = None) -> list[Action]:
    """A random sequence. It begins with clients that are connected and subscribe, so that something can happen.

    Brokers that run in real time are given nothing that takes long, nor anything that depends on the instant. `more`
    draws windows, topic aliases and acknowledgements of any order into it: older seeds go without.
    """
    begun: list[Action] = [("connect", client, 5, False, FOREVER, None, False) for client in CLIENTS]
    for client in CLIENTS:
        topic_filter = random.choice((*FILTERS, GROUP))
        begun.append(("subscribe", client, topic_filter, Options(1 + random.randrange(2))))
    drawn = begun + [draw_one(random, is_live) for _ in range(random.randint(3, length))]
    return drawn if more is None else [one for action in drawn for one in draw_more(more, action)]


def draw_more(random: Random, action: Action) -> list[Action]:
    """The action with all that it leaves open, and perhaps an acknowledgement after it."""
    match action[0]:
        case "connect":
            *said, mute = action
            mute = mute or random.random() < 0.2
            window = random.choice((None, None, 1, 2, 4)) if action[2] == 5 else None
            aliases = random.choice((0, 0, 1, 3)) if action[2] == 5 else 0
            action = (*said, mute, window, aliases)
            if mute and window and random.random() < 0.4:
                return [action, *(draw_filling(random) for _ in range(window + 1))]
        case "publish":
            action = (*action, random.choice((0, 0, 0, 1, 2)))
        case "acknowledge":
            action = (*action, random.choice((0, 0, 1, 2)), random.random() < 0.15)
        case "burst" if random.random() < 0.5:
            action = (*action, *draw_volley(random))
    if action[0] in ("burst", "wait") or random.random() < 0.7:
        return [action]
    skipped, is_refused = random.choice((0, 1, 1, 2)), random.random() < 0.1
    return [
        action,
        (
            "acknowledge",
            random.choice(CLIENTS),
            random.randint(1, 2),
            random.random() < 0.6,
            skipped,
            is_refused,
        ),
    ]


def draw_filling(random: Random) -> Action:
    """One of some messages that fill a window."""
    client, topic = random.choice(CLIENTS), random.choice(TOPICS)
    return ("publish", client, topic, 1 + random.randrange(2), False, True, None, random.choice((0, 1)))


def draw_volley(random: Random) -> list[Action]:
    """One client publishes, and another, which confirms what needs one packet and leaves the rest, is elsewhere before
    all brokers have heard of it."""
    publisher, reader = random.sample(CLIENTS, 2)
    topic = random.choice(TOPICS)
    published = [(0.001, "publish", publisher, topic, qos, False, True, None) for qos in (2, 1)]
    soon = random.choice((0.001, 0.005, 0.02, 0.04))
    moved = (0.001, "connect", reader, 5, False, FOREVER, None, False)
    return [*published, (soon, "confirm", reader), moved]


def draw_one(random: Random, is_live: bool) -> Action:
    client = random.choice(CLIENTS)
    weights = {
        "connect": 7,
        "publish": 9,
        "subscribe": 4,
        "drop": 2,
        "disconnect": 2,
        "acknowledge": 2,
        "unsubscribe": 1,
        "wait": 0 if is_live else 2,
        "burst": 0 if is_live else 2,
    }
    match random.choices(list(weights), list(weights.values()))[0]:
        case "connect":
            return draw_connect(random, client, is_live)
        case "publish":
            return draw_publish(random, client, is_live)
        case "subscribe":
            return ("subscribe", client, random.choice((*FILTERS, GROUP)), draw_options(random))
        case "unsubscribe":
            return ("unsubscribe", client, random.choice((*FILTERS, GROUP)))
        case "disconnect":
            expiry = random.choice((None, None, 0, 6, FOREVER))
            return ("disconnect", client, random.random() < 0.3, None if is_live and expiry == 6 else expiry)
        case "acknowledge":
            return ("acknowledge", client, random.randint(1, 3), random.random() < 0.6)
        case "wait":
            return ("wait", random.choice((1, 5, 8)))
        case "burst":
            return ("burst", *(draw_hasty(random) for _ in range(random.randint(2, 8))))
        case kind:
            return (kind, client)


def draw_connect(random: Random, client: str, is_live: bool) -> Action:
    """Client, version, Clean Start, expiry, will (delay, QoS, retain), whether it acknowledges nothing."""
    clean, mute = random.random() < 0.3, random.random() < 0.25
    delay = random.choice((None, None, 0, 100) if is_live else (None, None, 0, 4, 100))
    will = None if delay is None else (delay, random.randrange(3), random.random() < 0.2)
    if random.random() < 0.2:
        will = None if will is None else (0, *will[1:])
        return ("connect", client, 4, clean, 0 if clean else FOREVER, will, mute)
    expiry = random.choice((0, FOREVER, FOREVER) if is_live else (0, 6, FOREVER, FOREVER))
    return ("connect", client, 5, clean, expiry, will, mute)


def draw_publish(random: Random, client: str, is_live: bool) -> Action:
    """Client, topic, QoS, retain, whether it has a payload, expiry."""
    expiry = 7 if not is_live and random.random() < 0.15 else None
    has_payload = random.random() < 0.9
    return (
        "publish",
        client,
        random.choice(TOPICS),
        random.randrange(3),
        random.random() < 0.3,
        has_payload,
        expiry,
    )


def draw_options(random: Random) -> Options:
    if random.random() < 0.5:
        return Options(random.randrange(3))
    return Options(
        random.randrange(3),
        random.random() < 0.3,
        random.random() < 0.5,
        random.randrange(3),
        random.choice((0, 3, 9)),
    )


def draw_hasty(random: Random) -> Action:
    """What may happen while the news of the action before is on its way, and how soon after that."""
    client, after = random.choice(CLIENTS), random.choice((0.001, 0.01, 0.03, 0.05, 0.1))
    match random.choices(("connect", "publish", "drop"), (4, 6, 1))[0]:
        case "connect":
            return (after, "connect", client, 5, False, FOREVER, None, False)
        case "publish":
            topic, qos = random.choice(TOPICS), 1 + random.randrange(2)
            return (after, "publish", client, topic, qos, random.random() < 0.2, True, None)
        case kind:
            return (after, kind, client)


def shrink(actions: list[Action], fails: Callable[[list[Action]], bool]) -> list[Action]:
    """The shortest sequence that fails, as far as leaving out one action after the other finds it."""
    is_shorter = True
    while is_shorter:
        is_shorter = False
        for place in range(len(actions)):
            for shorter in _without(actions[place]):
                candidate = [*actions[:place], *shorter, *actions[place + 1 :]]
                if fails(candidate):
                    actions, is_shorter = candidate, True
                    break
            if is_shorter:
                break
    return actions


def _without(action: Action) -> list[list[Action]]:
    """What may stand in an action's place: nothing, or a burst with one part less."""
    if action[0] != "burst":
        return [[]]
    parts = action[1:]
    less = [("burst", *parts[:place], *parts[place + 1 :]) for place in range(len(parts))]
    return [[], *([burst] for burst in less if len(burst) > 1)]
