"""Traces and records to tables, on Spark; and the same steps as functions for a notebook (docs/pipeline-api.md).

The names in `NAMES` are loaded when they are used, so that `import roamq.pipeline` works without Spark.

>>> import roamq.pipeline as rp
>>> trace = rp.load_trace(spark, "wlan.csv.gz", "wifi")
>>> stays = trace.sojourns()
>>> rp.neighbor_graph(rp.moves(stays)).show()
"""

from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from roamq.pipeline.names import *  # noqa: F403 - a type checker sees what `__getattr__` finds

NAMES: Final = (
    "LoadedTrace",
    "Mapping",
    "Rules",
    "TraceFormat",
    "anonymity",
    "days",
    "duration_curves",
    "entropies",
    "fit_durations",
    "home_and_work",
    "load_trace",
    "moves",
    "neighbor_graph",
    "open_tables",
    "origin_destination",
    "predict_next_site",
    "predict_online",
    "pseudonymise",
    "radius_of_gyration",
    "reidentification_risk",
    "sampled",
    "sojourns",
    "split_at_midnight",
    "stay_points",
    "study_trace",
    "visits",
)
"""What a notebook uses, besides the modules."""


def __getattr__(name: str) -> Any:
    if name not in NAMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from roamq.pipeline import names

    return getattr(names, name)


def __dir__() -> list[str]:
    return sorted([*globals(), *NAMES])
