"""The table of trace formats: a name, and what it stands for.

Formats that come with RoamQ are listed here; packages of others bring theirs by an entry point of the group
`roamq.traces`, whose name is the format's and whose value is a `TraceFormat` (docs/own-trace-format.md). The format
`mapped` stands for as many as there are mapping files: what it reads, a mapping says (`traces.mapping`).
"""

import re
from collections.abc import Iterator, Mapping
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from typing import Final

from roamq.core.choices import choose_from
from roamq.core.errors import ConfigError
from roamq.pipeline.traces.associations import ASSOCIATIONS
from roamq.pipeline.traces.base import TraceFormat
from roamq.pipeline.traces.cells import CELLS
from roamq.pipeline.traces.counts import COUNTS
from roamq.pipeline.traces.gps import GPS
from roamq.pipeline.traces.mapped import MAPPED, mapped_format
from roamq.pipeline.traces.mapping import Mapping as TraceMapping
from roamq.pipeline.traces.onoff import ONOFF
from roamq.pipeline.traces.records import RECORDS
from roamq.pipeline.traces.sumo import SUMO
from roamq.pipeline.traces.tuples import TUPLES
from roamq.pipeline.traces.wifi import WIFI

GROUP: Final = "roamq.traces"
"""The group of entry points by which other packages bring trace formats."""

_OURS: Final = (ASSOCIATIONS, CELLS, COUNTS, GPS, MAPPED, ONOFF, RECORDS, SUMO, TUPLES, WIFI)
_NAME: Final = re.compile(r"[a-z][a-z0-9_]*")


@cache
def _table() -> Mapping[str, TraceFormat]:
    table = {trace_format.name: trace_format for trace_format in _OURS}
    for point in entry_points(group=GROUP):
        if point.name in table:
            raise ConfigError(
                f"format: {_origin(point)} brings a trace format {point.name!r}, which RoamQ has already; rename it"
            )
        table[point.name] = _load(point)
    return dict(sorted(table.items()))


def _load(point: EntryPoint) -> TraceFormat:
    begin = f"format: {_origin(point)} brings the trace format {point.name!r}, but"
    try:
        trace_format = point.load()
    except Exception as error:
        raise ConfigError(
            f"{begin} {point.value} cannot be loaded: {error}; repair or uninstall it"
        ) from error
    if not isinstance(trace_format, TraceFormat):
        raise ConfigError(f"{begin} {point.value} is not a roamq.pipeline.traces.TraceFormat")
    if trace_format.name != point.name:
        raise ConfigError(f"{begin} {point.value} is named {trace_format.name!r}; give both one name")
    if not _NAME.fullmatch(point.name):
        raise ConfigError(
            f"{begin} the name becomes that of a table: use small letters, digits and _, a letter first"
        )
    return trace_format


def _origin(point: EntryPoint) -> str:
    return f"the package {point.dist.name}" if point.dist is not None else "another package"


class _Formats(Mapping[str, TraceFormat]):
    """The table, loaded when it is first looked at: a broken package then stops only who needs formats."""

    def __getitem__(self, name: str) -> TraceFormat:
        return _table()[name]

    def __iter__(self) -> Iterator[str]:
        return iter(_table())

    def __len__(self) -> int:
        return len(_table())


FORMATS: Final[Mapping[str, TraceFormat]] = _Formats()


def format_named(name: str, mapping: str = "") -> TraceFormat:
    """The format of this name; `mapped` reads what `mapping`, the text of a mapping file, says."""
    if name not in FORMATS:
        raise ConfigError(f"format {name!r} is unknown{choose_from(name, FORMATS)}")
    return mapped_format(TraceMapping.parse(mapping)) if mapping else FORMATS[name]
