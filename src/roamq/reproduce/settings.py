"""Settings: what a paper leaves open, one value each, as text: `edge=turn, last hop=regular`.

A claim is judged in every setting that the paper allows. `decides` says which of its parameters tell the settings in
which all sentences hold from those in which they do not.
"""

import itertools
from collections.abc import Iterable, Mapping, Sequence

NAMED = 4
"""Of what was found most often, so many combinations of values are named; if there are more, the others are."""


def text_of(parameters: Mapping[str, object]) -> str:
    """`{"edge": "turn", "end, h": 20.0}` -> `edge=turn, end h=20`."""
    return ", ".join(
        f"{name}={value:g}" if isinstance(value, float) else f"{name}={value}"
        for name, value in parameters.items()
    )


def parameters_of(setting: str) -> dict[str, str]:
    """The parameters of a setting, as text; a part without `=` is its own name."""
    parts = (part.partition("=") for part in setting.split(", ") if part)
    return {name: value for name, _, value in parts}


def within(part: str, setting: str) -> bool:
    """Whether `part` fixes some of the parameters of `setting`, and no other."""
    return parameters_of(part).items() <= parameters_of(setting).items()


def decides(found: Mapping[str, str]) -> str:
    """Which parameters decide what was found in each setting: the fewest that tell all findings apart.

    Empty if one number alone was varied: `threshold` says more then. At most three parameters are named.
    """
    settings = {setting: parameters_of(setting) for setting in found}
    names = list(dict.fromkeys(name for parameters in settings.values() for name in parameters))
    varied = [name for name in names if len({p.get(name) for p in settings.values()}) > 1]
    for count in range(1, min(3, len(varied)) + 1):
        for chosen in itertools.combinations(varied, count):
            groups = _grouped(chosen, settings, found)
            if all(len(findings) == 1 for findings in groups.values()):
                return _told(chosen, groups)
    return ""


def _grouped(
    chosen: Sequence[str], settings: Mapping[str, Mapping[str, str]], found: Mapping[str, str]
) -> dict[tuple[str, ...], set[str]]:
    groups: dict[tuple[str, ...], set[str]] = {}
    for setting, parameters in settings.items():
        groups.setdefault(tuple(parameters.get(name, "") for name in chosen), set()).add(found[setting])
    return groups


def _told(chosen: Sequence[str], groups: Mapping[tuple[str, ...], set[str]]) -> str:
    by_finding: dict[str, list[tuple[str, ...]]] = {}
    for values, findings in groups.items():
        by_finding.setdefault(next(iter(findings)), []).append(values)
    most = max(by_finding, key=lambda finding: len(by_finding[finding]))
    parts = []
    for finding, combinations in by_finding.items():
        if len(combinations) <= NAMED or finding != most:
            parts.append(f"{finding} with {_values(chosen, combinations)}")
    if len(by_finding[most]) > NAMED:
        parts.append(f"{most} with the other {len(by_finding[most])} of {len(groups)} combinations")
    return f"{' and '.join(chosen)} decide{'s' if len(chosen) == 1 else ''}: {'; '.join(parts)}"


def _values(names: Sequence[str], groups: Iterable[tuple[str, ...]]) -> str:
    return " or ".join(
        ", ".join(f"{name}={value}" if value else name for name, value in zip(names, values, strict=True))
        for values in groups
    )
