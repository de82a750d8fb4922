"""Suggestions for a misspelt name."""

import difflib
from collections.abc import Iterable


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """A clause that names the nearest of `known`, or an empty text where nothing is near."""
    near = difflib.get_close_matches(word.lower(), sorted(known), n=1, cutoff=0.5)
    return f"; did you mean {near[0]!r}?" if near else ""
