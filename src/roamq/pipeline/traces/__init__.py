"""Trace formats, one file each, and the table of their names."""

from roamq.pipeline.traces.base import TraceFormat
from roamq.pipeline.traces.table import FORMATS, format_named

__all__ = ["FORMATS", "TraceFormat", "format_named"]
