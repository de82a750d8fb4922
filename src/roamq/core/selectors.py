"""Selectors: the conjunctions of JMS, read into one constraint per attribute, and printed back.

    selector   = predicate { AND predicate }            parentheses may group; TRUE and FALSE are predicates
    predicate  = name ( = | <> ) literal
               | name ( < | <= | > | >= ) number
               | name [NOT] BETWEEN number AND number
               | name [NOT] IN ( literal { , literal } )         all of one type
               | name [NOT] LIKE 'prefix%' [ESCAPE 'c']
               | name IS [NOT] NULL
    name       = a Java identifier, or any text in "double quotes"

Only what stays exact under covering is in the language: a disjunction is two subscriptions, strings have no
order (as in JMS), and of the patterns only a prefix. `constraints` says what a predicate means for each type.
"""

import math
import re
from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache
from itertools import pairwise
from typing import Final, NamedTuple, NoReturn, TypeVar

from roamq.core import constraints as c
from roamq.core.errors import SelectorError
from roamq.core.events import Value
from roamq.core.topics import LENGTH_MAX_BYTES

T = TypeVar("T")

Predicates = tuple[tuple[str, c.Constraint], ...]
"""One constraint per attribute, sorted by its name."""

TERMS_MAX: Final = 1024
"""The number of terms that one selector may have: each costs time at every event that comes by."""
DEPTH_MAX: Final = 16
"""The number of parentheses that may be open at once."""
_REMEMBERED: Final = 1024

KEYWORDS = frozenset(("AND", "OR", "NOT", "BETWEEN", "IN", "LIKE", "ESCAPE", "IS", "NULL", "TRUE", "FALSE"))

_TOKEN = re.compile(
    r"""
      (?P<space>\s+)
    | (?P<number>[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?)
    | (?P<string>'(?:[^']|'')*')
    | (?P<quoted>"(?:[^"]|"")+")
    | (?P<word>[^\W\d][\w$]*|\$[\w$]*)
    | (?P<sign><>|<=|>=|[=<>(),])
    """,
    re.VERBOSE,
)
_PLAIN_NAME = re.compile(r"(?:[^\W\d]|\$)[\w$]*")

_TWICE = "a filter is a conjunction: subscribe twice instead of using OR"
_NO_GROUP = "NOT stands only before BETWEEN, IN, LIKE and NULL; for a disjunction subscribe twice"


class _Token(NamedTuple):
    kind: str  # number, string, name, keyword, sign, end
    text: str
    position: int


@lru_cache(_REMEMBERED)
def parse_selector(text: str) -> Predicates | None:
    """Read a selector; `None` if no event can match it. Raises `SelectorError` where it cannot be read.

    The time grows as n log n. Selectors are read again when a session comes back: what was read lately is remembered.
    """
    if len(text) > LENGTH_MAX_BYTES:
        shown = text[:40] + "..."
        raise SelectorError(
            f"a selector is longer than {LENGTH_MAX_BYTES} characters", text=shown, position=40
        )
    said: dict[str, list[c.Constraint]] = {}
    satisfiable = True
    for name, constraint in _Parser(text).conjunction():
        if constraint is None:
            satisfiable = False  # and read on: a mistake further right still deserves its message
        else:
            said.setdefault(name, []).append(constraint)
    said.pop("", None)
    if not satisfiable:
        return None
    found: list[tuple[str, c.Constraint]] = []
    for name in sorted(said):
        met = c.meet_all(said[name])
        if met is None:
            return None
        found.append((name, met))
    return tuple(found)


class _Parser:
    """Recursive descent without the recursion: the language is one flat conjunction."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.tokens = list(self._tokens())
        self.index = 0
        self.terms = 0

    def _tokens(self) -> Iterator[_Token]:
        position = 0
        while position < len(self.text):
            found = _TOKEN.match(self.text, position)
            if found is None:
                bad = self.text[position]
                hint = "this quote is never closed" if bad in "'\"" else f"unexpected character {bad!r}"
                raise SelectorError(hint, text=self.text, position=position)
            kind, token = str(found.lastgroup), found.group()
            if kind == "quoted":
                yield _Token("name", token[1:-1].replace('""', '"'), position)
            elif kind == "word":
                keyword = token.upper()
                is_keyword = keyword in KEYWORDS
                yield _Token("keyword" if is_keyword else "name", keyword if is_keyword else token, position)
            elif kind != "space":
                yield _Token(kind, token, position)
            position = found.end()
        yield _Token("end", "", position)

    # -- reading tokens

    @property
    def next(self) -> _Token:
        return self.tokens[self.index]

    def take(self, *texts: str) -> _Token | None:
        """The next token, if it is one of these keywords or signs."""
        token = self.next
        if token.kind in ("keyword", "sign") and token.text in texts:
            self.index += 1
            return token
        return None

    def expect(self, text: str) -> None:
        if not self.take(text):
            self.fail(f"expected {text}")

    def fail(self, message: str, token: _Token | None = None) -> NoReturn:
        raise SelectorError(message, text=self.text, position=(token or self.next).position)

    # -- grammar

    def conjunction(self) -> Iterator[tuple[str, c.Constraint | None]]:
        depth = 0
        while True:
            while opening := self.take("("):
                depth += 1
                if depth > DEPTH_MAX:
                    self.fail(f"a selector has at most {DEPTH_MAX} parentheses open at once", opening)
            yield self.predicate()
            while depth and self.take(")"):
                depth -= 1
            if self.next.text == "OR" and self.next.kind == "keyword":
                self.fail(_TWICE)
            if not self.take("AND"):
                break
        if depth:
            self.fail("expected AND or )")
        if self.next.kind != "end":
            self.fail("expected AND")

    def predicate(self) -> tuple[str, c.Constraint | None]:
        """One predicate: its attribute and what it accepts; TRUE and FALSE speak of the attribute ''."""
        if truth := self.take("TRUE", "FALSE"):
            return "", c.PRESENT if truth.text == "TRUE" else None
        token = self.next
        self.count_term(token)
        if token.kind != "name":
            if token.text == "NOT" and token.kind == "keyword":
                self.fail(_NO_GROUP)
            self.fail("expected the name of an attribute")
        self.index += 1
        return token.text, self.constraint()

    def count_term(self, token: _Token) -> None:
        """Every predicate is a term, and so is every further value of IN."""
        self.terms += 1
        if self.terms > TERMS_MAX:
            self.fail(f"a selector has at most {TERMS_MAX} terms", token)

    def constraint(self) -> c.Constraint | None:
        if sign := self.take("=", "<>", "<", "<=", ">", ">="):
            return self.comparison(sign.text)
        if self.take("IS"):
            negated = self.take("NOT") is not None
            self.expect("NULL")
            return c.PRESENT if negated else c.MISSING
        negated = self.take("NOT") is not None
        if self.take("BETWEEN"):
            low = self.number()
            self.expect("AND")
            high = self.number()
            return c.outside(low, high) if negated else c.between(low, True, high, True)
        if self.take("IN"):
            return self.choice(negated)
        if self.take("LIKE"):
            return self.pattern(negated)
        return self.fail("expected BETWEEN, IN or LIKE" if negated else "expected a comparison")

    def comparison(self, sign: str) -> c.Constraint | None:
        if sign in ("=", "<>"):
            return _one_of([self.literal()], negated=sign == "<>")
        bound = self.number()
        if sign in ("<", "<="):
            return c.between(-math.inf, True, bound, sign == "<=")
        return c.between(bound, sign == ">=", math.inf, True)

    def choice(self, negated: bool) -> c.Constraint | None:
        self.expect("(")
        values: list[Value] = []
        while True:
            token = self.next
            values.append(self.literal())
            if _type(values[-1]) is not _type(values[0]):
                self.fail("the values of IN have one type", token)
            if not self.take(","):
                break
            self.count_term(token)
        self.expect(")")
        return _one_of(values, negated)

    def pattern(self, negated: bool) -> c.Constraint | None:
        token = self.next
        pattern = self.string("a pattern in single quotes")
        escape = ""
        if self.take("ESCAPE"):
            at = self.next
            escape = self.string("a character in single quotes")
            if len(escape) != 1:
                self.fail("ESCAPE takes one character", at)
        prefix: list[str] = []
        characters = iter(pattern)
        for character in characters:
            if character == escape:
                literal = next(characters, "")
                if literal == "" or literal not in (escape, "%", "_"):
                    self.fail("the escape character stands before %, _ or itself", token)
                prefix.append(literal)
            elif character == "%" and next(characters, None) is None:
                found = "".join(prefix)
                return c.texts("", without_prefixes=[found]) if negated else c.texts(found)
            elif character in "%_":
                self.fail(f"LIKE takes only a prefix, as in 'abc%'; found {pattern!r}", token)
            else:
                prefix.append(character)
        return _one_of(["".join(prefix)], negated)  # a pattern without a wildcard is that word

    # -- literals

    def literal(self) -> Value:
        if truth := self.take("TRUE", "FALSE"):
            return truth.text == "TRUE"
        if self.next.kind == "number":
            return self.number()
        return self.string("a string in single quotes, a number, TRUE or FALSE")

    def string(self, wanted: str) -> str:
        token = self.next
        if token.kind != "string":
            self.fail(f"expected {wanted}")
        self.index += 1
        return token.text[1:-1].replace("''", "'")

    def number(self) -> c.Number:
        token = self.next
        if token.kind == "string":
            self.fail("strings have no order: use =, <>, IN or LIKE")
        if token.kind != "number":
            self.fail("expected a number")
        self.index += 1
        try:
            return _number(token.text)
        except (ValueError, OverflowError):
            self.fail("this number is too large", token)


def _number(text: str) -> c.Number:
    """An integer where the value is one, so that 1600 and 1600.0 print alike."""
    if text.lstrip("+-").isdecimal():
        return int(text)
    value = float(text)
    if math.isinf(value):
        raise OverflowError(text)
    return int(value) if value.is_integer() and abs(value) < 2**53 else value


def _type(value: Value) -> type:
    return float if isinstance(value, int) and not isinstance(value, bool) else type(value)


def _one_of(values: list[Value], negated: bool) -> c.Constraint | None:
    """`IN` or, negated, `NOT IN` over values of one type."""
    if isinstance(values[0], bool):
        chosen = [value for value in values if isinstance(value, bool)]
        return c.booleans({True, False}.difference(chosen) if negated else chosen)
    if isinstance(values[0], str):
        strings = [value for value in values if isinstance(value, str)]
        return c.texts("", without=strings) if negated else c.words(strings)
    numbers = [value for value in values if not isinstance(value, str)]
    return c.excluding(numbers) if negated else c.points(numbers)


# -- printing


def print_selector(predicates: Predicates | None) -> str:
    """The selector that `parse_selector` reads back into the same predicates."""
    if predicates is None:
        return "FALSE"
    return " AND ".join(f"{_name(name)} {part}" for name, con in predicates for part in _print(con))


def _name(name: str) -> str:
    if _PLAIN_NAME.fullmatch(name) and name.upper() not in KEYWORDS:
        return name
    escaped = name.replace('"', '""')
    return f'"{escaped}"'


def _print(constraint: c.Constraint) -> Iterator[str]:
    match constraint:
        case c.Missing():
            yield "IS NULL"
        case c.Present():
            yield "IS NOT NULL"
        case c.Booleans(values):
            yield from _print_set("=", "IN", values, lambda value: str(value).upper())
        case c.Words(values):
            yield from _print_set("=", "IN", values, _quote)
        case c.Texts(prefix, without_prefixes, without):
            if prefix or not (without_prefixes or without):
                yield f"LIKE {_print_pattern(prefix)}"
            for excluded in without_prefixes:
                yield f"NOT LIKE {_print_pattern(excluded)}"
            yield from _print_set("<>", "NOT IN", without, _quote)
        case c.Numbers(intervals):
            if constraint.is_finite():
                yield from _print_set("=", "IN", [interval.low for interval in intervals], repr)
            else:
                yield from _print_intervals(intervals)


def _print_intervals(intervals: tuple[c.Interval, ...]) -> Iterator[str]:
    """Print the outer bounds, then the gaps between intervals: gaps are closed, since only NOT IN and NOT BETWEEN make
    them."""
    first, last = intervals[0], intervals[-1]
    has_low, has_high = first.low != -math.inf, last.high != math.inf
    gaps = [(left.high, right.low) for left, right in pairwise(intervals)]
    if has_low and has_high and first.low_closed and last.high_closed:
        yield f"BETWEEN {first.low!r} AND {last.high!r}"
    else:
        if has_low:
            yield f"{'>=' if first.low_closed else '>'} {first.low!r}"
        if has_high:
            yield f"{'<=' if last.high_closed else '<'} {last.high!r}"
        if not (has_low or has_high or gaps):
            yield "NOT BETWEEN 1 AND 0"  # any number: nothing lies between them
    yield from _print_set("<>", "NOT IN", [low for low, high in gaps if low == high], repr)
    for low, high in gaps:
        if low != high:
            yield f"NOT BETWEEN {low!r} AND {high!r}"


def _print_set(one: str, many: str, values: Iterable[T], show: Callable[[T], str]) -> Iterator[str]:
    shown = [show(value) for value in values]
    if len(shown) == 1:
        yield f"{one} {shown[0]}"
    elif shown:
        yield f"{many} ({', '.join(shown)})"


def _quote(text: str) -> str:
    escaped = text.replace("'", "''")
    return f"'{escaped}'"


def _print_pattern(prefix: str) -> str:
    if not ("%" in prefix or "_" in prefix):
        return _quote(prefix + "%")
    escaped = re.sub(r"[%_\\]", r"\\\g<0>", prefix)
    return f"{_quote(escaped + '%')} ESCAPE '\\'"
