"""How long clients are connected, away, at a site, between two sites: durations, statistics, fits and their test.

Counting and choosing run as Spark expressions over all sojourns; only the fits need code, and get at most
`fit_samples` durations per group in a function over Arrow batches. The choice is by a hash of client and time, so it
is the same on every machine and every run.
"""

from collections.abc import Iterator
from typing import Any, Final

import numpy as np
import pyarrow as pa
from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType

from roamq.models.fitting import REPLICATES, fit_durations
from roamq.pipeline.silver import CONNECTED, DISCONNECTED
from roamq.pipeline.tables import CCDF, CONNECTIVITY, FIT, conform, struct_of
from roamq.pipeline.vectorised import arrow_function

ON: Final = "on"
OFF: Final = "off"
STAY: Final = "stay"
HANDOFF: Final = "handoff"

EVERYTHING: Final = "*"
FIT_MIN: Final = 20
"""Fewer durations are described but not fitted."""

STEPS_PER_DECADE: Final = 20
SHARES_ABOVE: Final = tuple(10 ** (-step / STEPS_PER_DECADE) for step in range(1, 3 * STEPS_PER_DECADE + 1))
"""From 0.89 down to 0.001 in equal steps of the logarithm: a CCDF is drawn on logarithmic axes."""

_HASH_RANGE: Final = 1_000_000_007
_GROUP: Final = ("dataset", "period", "grouping", "value")


def durations(sojourns: DataFrame) -> DataFrame:
    """Sojourns -> (dataset, period, client_class, site, duration_s, complete, draw); `draw` is uniform in [0, 1).

    A handoff is the time from last seen at one site to first seen at the next, where the client stayed connected; it
    belongs to the site it leads to.
    """
    length = _between("begin", "end")
    is_stay = (F.col("state") == CONNECTED) & F.col("site").isNotNull()
    is_handoff = is_stay & (F.col("next_site") != F.col("site")) & (F.col("end") >= F.col("next_begin"))
    periods = F.array(
        F.when(
            F.col("on_since").isNotNull(),
            _duration(ON, None, _between("on_since", "end"), F.col("on_complete")),
        ),
        F.when(F.col("state") == DISCONNECTED, _duration(OFF, None, length, F.col("complete"))),
        F.when(is_stay, _duration(STAY, F.col("site"), length, F.col("complete"))),
        F.when(
            is_handoff,
            _duration(HANDOFF, F.col("next_site"), _between("last_seen", "next_begin"), F.lit(True)),
        ),
    )
    draw = F.pmod(F.xxhash64("client", "begin", "state"), F.lit(_HASH_RANGE)) / _HASH_RANGE
    measured = sojourns.select("dataset", "client_class", draw.alias("draw"), F.inline(periods))
    return measured.where("duration_s > 0")  # which is not so where there is no such period either


def _between(begin: str, end: str) -> Column:
    return (F.unix_micros(end) - F.unix_micros(begin)) / 1_000_000


def _duration(period: str, site: Column | None, duration_s: Column, complete: Column) -> Column:
    place = F.lit(None).cast("string") if site is None else site
    return F.struct(
        F.lit(period).alias("period"),
        place.alias("site"),
        duration_s.alias("duration_s"),
        complete.alias("complete"),
    )


def connectivity(sojourns: DataFrame, fit_samples: int) -> DataFrame:
    """Sojourns -> gold `connectivity`: one row per group and fitted family, the best first by AIC.

    Fits use complete durations alone; `censored` says how many had an end that nobody saw. Groups: everything, each
    client class, each site.
    """
    measured = durations(sojourns)
    counted = group_counts(measured)
    samples = chosen_samples(measured.where("complete"), counted, fit_samples)
    described = (*_GROUP, "n", "censored", "mean_s")
    grouped = samples.groupBy(*described).agg(F.collect_list("duration_s").alias("durations_s"))
    fit = arrow_function(_fit_batch, ArrayType(struct_of(FIT)))
    fitted = grouped.withColumn("fits", fit("durations_s", F.col("grouping") != "site"))
    return conform(fitted.select(*described, F.inline("fits")), CONNECTIVITY)


def ccdf(sojourns: DataFrame) -> DataFrame:
    """Sojourns -> gold `ccdf`: points of the complementary distribution, dense in the tail; exact, by counting.

    A duration has the steps that lie between the share of durations below it and the share up to it.
    """
    counted = durations(sojourns).where("complete").groupBy("dataset", "period", "duration_s").count()
    group = Window.partitionBy("dataset", "period")
    up_to = group.orderBy("duration_s").rowsBetween(Window.unboundedPreceding, Window.currentRow)
    ranked = counted.withColumns(
        {"up_to": F.sum("count").over(up_to), "of": F.sum("count").over(group)}
    ).select(
        *("dataset", "period", "duration_s"),
        _steps_within(F.col("up_to") - F.col("count")).alias("before"),
        _steps_within(F.col("up_to")).alias("last"),
    )
    steps = F.explode(F.sequence(F.col("before") + 1, F.col("last")))
    points = ranked.where("last > before").select("dataset", "period", "duration_s", steps.alias("step"))
    shares = F.array(*map(F.lit, SHARES_ABOVE))
    return conform(points.withColumn("share_above", F.element_at(shares, F.col("step"))), CCDF)


def _steps_within(n: Column) -> Column:
    """How many of `SHARES_ABOVE` are passed when the `n` shortest durations are taken away."""
    left = 1 - n / F.col("of")
    steps = F.floor(F.log10(left) * -STEPS_PER_DECADE).cast("int")
    return F.when(left > SHARES_ABOVE[-1], steps).otherwise(len(SHARES_ABOVE))


def group_counts(measured: DataFrame) -> DataFrame:
    """Durations -> per group `n` (complete), `censored` and the exact mean. One pass; groups are sums of cells."""
    cells = measured.groupBy("dataset", "period", "client_class", "site").agg(
        F.count_if("complete").alias("n"),
        F.count_if(~F.col("complete")).alias("censored"),
        # Whole microseconds: their sum is the same in any order.
        F.sum(F.when(F.col("complete"), (F.col("duration_s") * 1_000_000).cast("bigint"))).alias("sum_us"),
    )
    rows = cells.select("dataset", "period", "n", "censored", "sum_us", F.inline(_groups()))
    sums = (
        rows.where("value is not null")
        .groupBy(*_GROUP)
        .agg(
            F.sum("n").alias("n"),
            F.sum("censored").alias("censored"),
            (F.sum("sum_us") / F.sum("n") / 1_000_000).alias("mean_s"),
        )
    )
    return sums.where("n > 0")


def _groups() -> Column:
    """The groups a duration may belong to, as structs (grouping, value); a missing class or site makes none."""
    values = {"all": F.lit(EVERYTHING), "class": F.col("client_class"), "site": F.col("site")}
    return F.array(
        *(F.struct(F.lit(name).alias("grouping"), value.alias("value")) for name, value in values.items())
    )


def chosen_samples(complete: DataFrame, counted: DataFrame, at_most: int) -> DataFrame:
    """For each group about `at_most` durations, or all of them, beside its counts.

    One pass over the durations: the counts are small and are brought to the rows.
    """
    rows = complete.select("dataset", "period", "draw", "duration_s", F.inline(_groups()))
    return rows.join(F.broadcast(counted), list(_GROUP)).where(
        F.col("draw") < F.lit(float(at_most)) / F.col("n")
    )


def _fit_batch(samples: pa.Array, is_wide: pa.Array) -> pa.Array:
    """Lists of durations -> lists of fits, one struct per family.

    Where all clients are of one class, the class and everybody have the same sample: what is equal is fitted once.
    """
    known: dict[tuple[bytes, bool], list[dict[str, Any]]] = {}
    fits = []
    for sample, wide in zip(samples, is_wide.to_pylist(), strict=True):
        ordered = np.sort(sample.values.to_numpy(zero_copy_only=False))
        key = ordered.tobytes(), wide
        if key not in known:
            known[key] = list(fit_rows(ordered, test=wide))
        fits.append(known[key])
    return pa.array(fits, _FITS)


def fit_rows(sample: "np.typing.NDArray[np.float64]", *, test: bool) -> Iterator[dict[str, Any]]:
    """A sorted sample of durations -> one row per family, the best first; too small a sample is only described.

    `test`: with p-values, which cost hundreds of refits: only the few wide groups get them.
    """
    median, p90, p99 = (float(np.quantile(sample, q)) for q in (0.5, 0.9, 0.99))
    described = {"median_s": median, "p90_s": p90, "p99_s": p99, "fitted_on": sample.size, "best": False}
    if sample.size < FIT_MIN:
        yield described
        return
    for number, fit in enumerate(fit_durations(sample, replicates=REPLICATES if test else 0)):
        yield described | {
            "family": fit.family,
            "params": list(fit.params.items()),
            "fit_mean_s": fit.mean,
            "ks_statistic": fit.ks_statistic,
            "ks_pvalue": None if np.isnan(fit.ks_pvalue) else fit.ks_pvalue,
            "aic": fit.aic,
            "best": number == 0,
        }


_ARROW_TYPES: Final = {
    "string": pa.string(),
    "bigint": pa.int64(),
    "boolean": pa.bool_(),
    "double": pa.float64(),
    "map<string,double>": pa.map_(pa.string(), pa.float64()),
}
_FITS: Final = pa.list_(
    pa.struct(
        [(name, _ARROW_TYPES[kind]) for name, kind in (column.split(" ") for column in FIT.split(", "))]
    )
)
