"""Trace formats, one file each, and the registry of their names."""

from typing import Final

from roamq.pipeline.traces.associations import ASSOCIATIONS
from roamq.pipeline.traces.base import TraceFormat
from roamq.pipeline.traces.cells import CELLS
from roamq.pipeline.traces.counts import COUNTS
from roamq.pipeline.traces.gps import GPS
from roamq.pipeline.traces.onoff import ONOFF
from roamq.pipeline.traces.records import RECORDS
from roamq.pipeline.traces.wifi import WIFI

FORMATS: Final[dict[str, TraceFormat]] = {
    trace_format.name: trace_format
    for trace_format in (ASSOCIATIONS, CELLS, COUNTS, GPS, ONOFF, RECORDS, WIFI)
}

__all__ = ["FORMATS", "TraceFormat"]
