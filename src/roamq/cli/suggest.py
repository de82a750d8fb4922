"""Suggestions for a misspelt name."""

from collections.abc import Iterable

from roamq.core.choices import nearest


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """Returns a clause that names the nearest of `known`, or an empty text if none is near."""
    near = nearest(word, known, cutoff=0.5)
    return f"; did you mean {near!r}?" if near else ""
