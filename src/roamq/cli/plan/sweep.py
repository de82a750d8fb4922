"""`--sweep` and `--solve-for`: one question asked many times, or backwards."""

import math
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, Final, TypeVar, get_type_hints

import click
import msgspec

from roamq.cli.plan.answer import Answer
from roamq.cli.suggest import did_you_mean
from roamq.core.errors import ConfigError
from roamq.report.exhibits import Cell, Figure, Series, Table
from roamq.report.numbers import span

Q = TypeVar("Q", bound=msgspec.Struct)

POINTS_MAX: Final = 200

INTERVALS: Final = "intervals"

SILENT_S: Final = 1.0
"""Seconds after which a person is told that it takes long; the next message comes after twice the time."""

WHOLE_MAX: Final = 64
"""The largest value that is searched for a whole number, such as the brokers on a path."""

WHOLE_TIMES: Final = 100
"""For larger whole numbers, such as a number of clients, the search goes up to this many times their value."""

NO_VALUE: Final = (1e-3, 1e6)
"""The searched range, if the question has no value to start from."""

RANGE: Final = 1e4
"""The searched range, from the question's value divided by this to the value times this."""


@dataclass(frozen=True, slots=True)
class Measures:
    """How a question's answer is measured."""

    of: Callable[[Any, Sequence[str]], Mapping[str, float | None]]
    """(question, names) -> the named measures and the usual ones; None where a centre is saturated."""
    aliases: Mapping[str, str]
    """Short name -> field."""
    errors: Callable[[Any], Mapping[str, float]] = lambda _: {}
    """Question -> relative standard errors of its fields, which are carried to the answer."""
    unused: Callable[[Any], dict[str, str]] = lambda _: {}
    """Question -> the fields that these measures do not depend on, each with the reason."""
    warnings: Callable[[Any], Sequence[str]] = lambda _: ()
    """Question -> warnings where its answer is a bad approximation."""
    unit: str = "seconds"
    """The unit of the measures that a figure shows."""
    none_means: str = "a centre is saturated"
    """The reason why there may be no answer."""

    def patiently(self) -> "Measures":
        """Returns the same measures, which tell how many answers there are if they take long."""
        patience = _Patience()

        def of(question: Any, names: Sequence[str]) -> Mapping[str, float | None]:
            answers = self.of(question, names)
            patience.one_more()
            return answers

        return replace(self, of=of)


class _Patience:
    """Says on standard error how many answers there are, if they take long."""

    def __init__(self) -> None:
        self._began_s = time.monotonic()
        self._answers = 0
        self._silent_s = SILENT_S

    def one_more(self) -> None:
        self._answers += 1
        since_s = time.monotonic() - self._began_s
        if since_s >= self._silent_s:
            self._silent_s = 2 * since_s
            each_s = since_s / self._answers
            click.echo(
                f"this takes a while: {self._answers} answers so far, of {each_s:.2g} s each", err=True
            )


def unused_where_varied(
    unused: Callable[[Any], dict[str, str]], measures: Measures | None, varied: str | None, question: Any
) -> dict[str, str]:
    """Returns the fields that the answer does not depend on, while `varied` takes values other than its own."""
    if varied is None or measures is None:
        return unused(question)
    now = getattr(question, varied)
    at_work = msgspec.structs.replace(question, **{varied: now or 1})
    reasons = {**measures.unused(at_work), **unused(at_work)}
    with suppress(ValueError):  # mistakes in the errors themselves are reported where they are used
        if varied in measures.errors(at_work):
            reasons["uncertain"] = f"has an error of {varied}, which takes values of its own here"
    return reasons


def sweep(question: Q, text: str, measures: Measures) -> Answer:
    """Asks the question at n values of one field: `key=a:b:n`."""
    key, first, last, points = _parsed_sweep(text)
    field, measures = field_named(type(question), key, measures), measures.patiently()
    values = [first + (last - first) * i / (points - 1) for i in range(points)]
    if _is_whole(question, field):
        values = sorted({float(round(value)) for value in values})
    rows, data = _rows(question, field, values, measures, ())
    if all(answer is None for point in _plain(data) for name, answer in point.items() if name != field):
        raise ConfigError(
            f"{field}: no value from {first:g} to {last:g} has an answer, for {measures.none_means}; "
            "ask for one of them to see which"
        )
    if (
        len({tuple(answer for name, answer in point.items() if name != field) for point in _plain(data)})
        == 1
        < len(data)
    ):
        raise ConfigError(f"{field}: nothing depends on it in this question")
    columns = [name for name in data[0] if name != INTERVALS]
    return Answer(
        data={"sweep": {"field": field, "points": data}},
        tables=[Table(title=f"By {field}", columns=columns, rows=rows, note=_note(data, measures))],
        notes=_warnings(question, field, values, measures),
        figure=_figure(field, data, None, measures.unit),
    )


def _plain(data: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    return [{name: value for name, value in point.items() if name != INTERVALS} for point in data]


def solve(question: Q, key: str, target: str, measures: Measures) -> Answer:
    """Finds the value of one field that just meets a target such as `p95=30`."""
    from roamq.models.inverse import interval, meet_target

    field, measures = field_named(type(question), key, measures), measures.patiently()
    name, equals, number = target.partition("=")
    try:
        wanted = float(number)
    except ValueError:
        wanted = math.nan
    if not (equals and wanted > 0 and math.isfinite(wanted)):
        raise ConfigError(f"--target: {target!r} is not of the form p95=30 or mean=10")
    is_whole = _is_whole(question, field)

    def answer(value: float) -> float | None:
        answers = measures.of(_with(question, field, value), (name,))
        if name not in answers:
            raise ConfigError(
                f"--target: unknown {name}; known are {', '.join(answers)} and every percentile"
            )
        return answers[name]

    now = getattr(question, field)
    low, high = (now / RANGE, now * RANGE) if now else NO_VALUE
    if is_whole:
        low, high = 1.0, float(WHOLE_MAX if now <= WHOLE_MAX else WHOLE_TIMES * now)
    solution = meet_target(
        answer, wanted, low=low, high=high, is_whole=is_whole, none_means=measures.none_means
    )
    if solution.is_bound and answer(low) == answer(high):
        raise ConfigError(f"{field}: {name} does not depend on it in this question")

    def solved_with(changes: Mapping[str, float]) -> float | None:
        def changed(value: float) -> float | None:
            return measures.of(msgspec.structs.replace(_with(question, field, value), **changes), (name,))[
                name
            ]

        try:
            return meet_target(changed, wanted, low=low, high=high, is_whole=is_whole, precision=1e-4).value
        except ValueError:
            return None

    errors = {key: error for key, error in measures.errors(question).items() if key != field}
    ends = interval(solved_with, _values(question, errors), errors) if errors else None
    told = f"{solution.value:,.0f}" if is_whole else f"{solution.value:.4g}"
    if errors:
        told = span(solution.value, *ends) if ends else f"{solution.value:.1g} (the data do not say more)"
    around = [solution.value * factor for factor in (0.25, 0.5, 0.75, 0.9, 1, 1.1)]
    if is_whole and solution.value <= WHOLE_MAX:
        around = sorted({max(1.0, solution.value + step) for step in (-2, -1, 0, 1)})
    elif is_whole:
        around = [float(round(value)) for value in around]
    rows, data = _rows(question, field, around, measures, (name,))
    unit = (
        " (the end of what was searched: a larger or smaller value may do as well)"
        if solution.is_bound
        else ""
    )
    return Answer(
        data={
            "solved": {
                "field": field,
                "value": solution.value,
                name: solution.answer,
                "is_bound": solution.is_bound,
                "interval": ends,
            },
            "nearby": data,
        },
        tables=[
            Table(
                title=f"{field} = {told} meets {name} = {wanted:g}{unit}",
                columns=[key for key in data[0] if key != INTERVALS],
                rows=rows,
                note=_note(data, measures),
            )
        ],
        notes=_warnings(question, field, [solution.value], measures),
        figure=_figure(field, data, wanted, measures.unit),
    )


def _warnings(question: Q, field: str, values: Sequence[float], measures: Measures) -> list[str]:
    """Warns about a few of the answers, the first and the last among them: a warning costs as much as an answer."""
    places = sorted({0, len(values) // 2, len(values) - 1})
    return [
        f"take the answer with care: at {field} = {values[place]:.4g}, {warning}"
        for place in places
        for warning in measures.warnings(_with(question, field, values[place]))
    ]


def _note(data: Sequence[Mapping[str, Any]], measures: Measures) -> str:
    has_gaps = any(value is None for point in data for key, value in point.items() if key != INTERVALS)
    return f"no value: {measures.none_means}" if has_gaps else ""


def _rows(
    question: Q, field: str, values: Sequence[float], measures: Measures, names: Sequence[str]
) -> tuple[list[list[Cell]], list[dict[str, Any]]]:
    data: list[dict[str, Any]] = []
    rows: list[list[Cell]] = []
    for value in values:
        asked = _with(question, field, value)
        answers = measures.of(asked, names)
        errors = {key: error for key, error in measures.errors(asked).items() if key != field}
        ends = _intervals(asked, measures, names, errors) if errors else {}
        data.append({field: value, **answers, **({INTERVALS: ends} if errors else {})})
        rows.append([value, *(_cell(answer, ends.get(key, ()), errors) for key, answer in answers.items())])
    return rows, data


def _intervals(
    question: Q, measures: Measures, names: Sequence[str], errors: Mapping[str, float]
) -> dict[str, tuple[float, float] | None]:
    """Measure -> its 95% interval; None where a centre may be saturated."""
    from roamq.models.inverse import interval

    known: dict[tuple[float, ...], Mapping[str, float | None]] = {}

    def at(changes: Mapping[str, float]) -> Mapping[str, float | None]:
        key = tuple(changes.values())
        if key not in known:
            known[key] = measures.of(msgspec.structs.replace(question, **changes), names)
        return known[key]

    values = _values(question, errors)
    return {name: interval(lambda changes, n=name: at(changes)[n], values, errors) for name in at(values)}  # type: ignore[misc]


def _values(question: msgspec.Struct, errors: Mapping[str, float]) -> dict[str, float]:
    return {key: float(getattr(question, key)) for key in errors}


def _cell(answer: float | None, ends: Sequence[float] | None, errors: Mapping[str, float]) -> Cell:
    """Writes a number with as many digits as its interval justifies."""
    if not answer or not errors:
        return answer
    return span(answer, *ends) if ends else f"{answer:.1g} (the data do not say more)"


def _figure(field: str, data: Sequence[Mapping[str, Any]], target: float | None, unit: str) -> Figure:
    x = [point[field] for point in data]
    names = [name for name in data[0] if name not in (field, "utilisation", INTERVALS)]
    series = [
        Series(name=name, x=x, y=[math.nan if point[name] is None else point[name] for point in data])
        for name in names
    ]
    if target is not None:
        series.append(Series(name="target", x=[x[0], x[-1]], y=[target, target]))
    return Figure(title=f"By {field}", kind="line", x_label=field, y_label=unit, series=series)


def _with(question: Q, field: str, value: float) -> Q:
    """Returns the question with another value of the field, checked against the field's limits."""
    changed = round(value) if _is_whole(question, field) else value
    values = {**msgspec.to_builtins(question), field: changed}
    try:
        return msgspec.convert(values, type=type(question))
    except msgspec.ValidationError as error:
        raise ConfigError(f"{field}: {value:g} is out of its limits: {error}") from error


def _is_whole(question: msgspec.Struct, field: str) -> bool:
    return get_type_hints(type(question))[field] is int


def field_named(question: type[msgspec.Struct], key: str, measures: Measures) -> str:
    """Returns the field that `key` stands for, which must be a number."""
    field = measures.aliases.get(key, key.replace("-", "_"))
    kinds = get_type_hints(question)
    known = [name for name, kind in kinds.items() if kind in (int, float, float | None)]
    if not field:
        raise ConfigError("--sweep: name a number of this question, as rate=0.5:4:8")
    if field not in known:
        raise ConfigError(
            f"{key}: no number of this question{did_you_mean(field, [*known, *measures.aliases])}"
        )
    return field


def _parsed_sweep(text: str) -> tuple[str, float, float, int]:
    key, _, span = text.partition("=")
    try:
        first, last, points = span.split(":")
        parsed = (key, float(first), float(last), int(points))
    except ValueError as error:
        raise ConfigError(f"--sweep: {text!r} is not of the form rate=0.5:4:8 (from:to:points)") from error
    if not (math.isfinite(parsed[1]) and math.isfinite(parsed[2]) and 2 <= parsed[3] <= POINTS_MAX):
        raise ConfigError(f"--sweep: {text!r} needs finite ends and 2 to {POINTS_MAX} points")
    return parsed
