"""Lists of what may be published at a broker (`publishes`), in the configuration and in what `roamq join` sends."""

import json
from collections.abc import Iterable
from typing import Any

from roamq.core.errors import ConfigError
from roamq.core.filters import Filter


def fault_of(topics: Iterable[str], overlay: str) -> str | None:
    """Says what is wrong with a list of topic filters in a network with this overlay; None: nothing is."""
    if overlay != "interest":
        return (
            f"network.overlay is {overlay!r}, which makes no use of it; it narrows routing by interest "
            "(`overlay = 'interest'`)"
        )
    for topic in topics:
        try:
            Filter(topic)
        except ConfigError as error:
            return str(error)
        if topic.startswith("$"):
            return (
                f"{topic!r}: topics that begin with $ belong to the server, and clients do not publish there"
            )
    return None


def said(topics: Iterable[str]) -> str:
    """Writes a list of topic filters as a parameter of the query of `POST /api/join`."""
    return json.dumps(list(topics))


def heard(text: str, overlay: str) -> tuple[str, ...]:
    """Reads the topic filters of such a parameter; raises `ValueError` that says what is wrong."""
    found: Any
    try:
        found = json.loads(text)
    except ValueError:
        found = None
    if not isinstance(found, list) or not all(isinstance(one, str) for one in found):
        raise ValueError(f"publishes: {text!r} is no list of topic filters")
    if fault := fault_of(found, overlay):
        raise ValueError(f"publishes: {fault}")
    return tuple(found)
