"""Topic filters of MQTT: their syntax, and which topics they match, cover and share.

A topic filter is kept as a tuple of levels. Two spellings are normalised, because MQTT gives them one
meaning: `+/#` is `#` (both need at least one level), and `/#` needs a second level, since its parent would be
the empty topic, which [MQTT-4.7.3-1] forbids. After that, two tuples are equal exactly if they match the same
topics.
"""

import re
from sys import intern

from roamq.core.errors import SelectorError

Levels = tuple[str, ...]

_NAMES = re.compile(r"[^/+#]+")

LENGTH_MAX_BYTES = 65_535
"""[MQTT-4.7.3-3]; selectors have the same limit."""


def parse_topic_filter(text: str) -> Levels:
    """Read a topic filter into its normalised levels, or raise `SelectorError`."""
    _check_text(text, "a topic filter")
    levels = tuple(text.split("/"))
    if text.count("+") != levels.count("+") or text.count("#") != (levels[-1] == "#"):
        _find_mistake(text, levels)
    if levels == ("+", "#"):
        return ("#",)
    if levels == ("", "#"):
        return ("", "+", "#")
    return levels


def _find_mistake(text: str, levels: Levels) -> None:
    """Raise `SelectorError` with the place of the first wildcard that is not where it may be."""
    position = 0
    for index, level in enumerate(levels):
        if "#" in level and (level != "#" or index != len(levels) - 1):  # [MQTT-4.7.1-1]
            where = position + level.index("#")
            raise SelectorError("'#' must be the whole last level", text=text, position=where)
        if "+" in level and level != "+":  # [MQTT-4.7.1-2]
            where = position + level.index("+")
            raise SelectorError("'+' must be a whole level", text=text, position=where)
        position += len(level) + 1


def print_topic_filter(levels: Levels) -> str:
    return "/#" if levels == ("", "+", "#") else "/".join(levels)


def topic_shape(levels: Levels) -> str:
    """Where a topic filter has its wildcards. A topic and a shape determine the topic filter that matches."""
    return intern(_NAMES.sub("", "/".join(levels)))


def topic_matches(levels: Levels, topic: str) -> bool:
    """Does the filter match this topic?"""
    if not topic or (topic[0] == "$" and _wild(levels[0])):  # [MQTT-4.7.2-1]
        return False
    if levels[0] == "#":
        return True
    parts = topic.split("/")
    depth = len(parts)
    for index, level in enumerate(levels):
        if level == "#":
            return True  # the parent level itself as well: all levels before this one fit
        if index == depth or (level != "+" and level != parts[index]):
            return False
    return len(levels) == depth


def topic_covers(general: Levels, special: Levels) -> bool:
    """Does `general` match every topic that `special` matches?"""
    if _reserved(special[0]) and _wild(general[0]):
        return False
    depth = len(special)
    for index, level in enumerate(general):
        if level == "#":
            return True
        if index == depth or special[index] == "#":
            return False
        if level != "+" and level != special[index]:
            return False
    return len(general) == depth


def topic_overlaps(one: Levels, other: Levels) -> bool:
    """Is there a topic that both match?"""
    if (_reserved(one[0]) and _wild(other[0])) or (_reserved(other[0]) and _wild(one[0])):
        return False
    for level, opposite in zip(one, other, strict=False):
        if level == "#" or opposite == "#":
            return True
        if level != opposite and level != "+" and opposite != "+":
            return False
    if len(one) == len(other):
        return True
    longer = one if len(one) > len(other) else other
    return longer[min(len(one), len(other))] == "#"  # "a/#" matches its parent "a"


def _check_text(text: str, what: str) -> None:
    if not text:
        raise SelectorError(f"{what} has at least one character", text=text, position=0)  # [MQTT-4.7.3-1]
    if (position := text.find("\0")) >= 0:
        raise SelectorError(f"{what} has no null character", text=text, position=position)  # [MQTT-4.7.3-2]
    if len(text) > LENGTH_MAX_BYTES // 4 and len(text.encode(errors="surrogatepass")) > LENGTH_MAX_BYTES:
        shown = text[:40] + "..."
        raise SelectorError(f"{what} is longer than {LENGTH_MAX_BYTES} bytes", text=shown, position=40)


def _reserved(level: str) -> bool:
    return level.startswith("$")


def _wild(level: str) -> bool:
    return level in ("+", "#")
