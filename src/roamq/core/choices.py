"""Tells an operator who wrote an unknown word the nearest known word, and all words that there are to choose from."""

from collections.abc import Iterable


def nearest(word: str, known: Iterable[str], cutoff: float = 0.6) -> str | None:
    """The one of `known` that is spelt most like `word`, in capitals or not; None where nothing is near."""
    import difflib  # takes as long to import as all of `core`, and a broker hardly ever needs it

    by_folded = {one.casefold(): one for one in sorted(known, reverse=True)}
    close = difflib.get_close_matches(word.casefold(), by_folded, n=1, cutoff=cutoff)
    return by_folded[close[0]] if close else None


def choose_from(word: object, known: Iterable[object]) -> str:
    """`; did you mean 'b'? choose one of a, b, c`: the end of a sentence that says what is wrong with `word`."""
    names = [str(one) for one in known]
    close = nearest(str(word), names, cutoff=0.5)
    hint = "" if close is None else f" did you mean {close!r}?"
    return f";{hint} choose one of {', '.join(names)}"
