"""How long clients are connected, away, at a site, between two sites: durations, statistics, fits and their test.

Counting and choosing run as Spark expressions over all sojourns, and so do the curves of Kaplan and Meier, which know
that a duration whose end was not seen is longer than what was seen of it. Only the fits need code, and get at most
`fit_samples` durations per group in a function over Arrow batches. The choice is by a hash of client and time, so it
is the same on every machine and every run.
"""

from collections.abc import Iterator, Sequence
from typing import Any, Final

import numpy as np
import pyarrow as pa
from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType

from roamq.models.censoring import fit_censored
from roamq.models.fitting import REPLICATES, Floats, fit_durations
from roamq.pipeline.conform import conform, struct_of
from roamq.pipeline.corrections import corrected
from roamq.pipeline.schemas import CCDF, CONNECTIVITY, DURATION_COUNTS, DURATIONS, FIT, arrow_schema
from roamq.pipeline.silver import CONNECTED, DISCONNECTED, UNKNOWN
from roamq.pipeline.vectorised import arrow_function

ON: Final = "on"
OFF: Final = "off"
STAY: Final = "stay"
HANDOFF: Final = "handoff"

EVERYTHING: Final = "*"
SITE_SAMPLES: Final = 500
"""A site's durations are fitted on at most so many: there are many sites, and a fit with censored durations is slow."""
QUANTILES: Final = {"median_s": 0.5, "p90_s": 0.9, "p99_s": 0.99}
ROUNDING: Final = 5e-13
"""A share that is a product of many fractions may miss a quantile by so much, and has reached it."""
FIT_MIN: Final = 20
"""A group with fewer complete durations is described but not fitted."""

STEPS_PER_DECADE: Final = 20
SHARES_ABOVE: Final = tuple(10 ** (-step / STEPS_PER_DECADE) for step in range(1, 3 * STEPS_PER_DECADE + 1))
"""From 0.89 down to 0.001 in equal steps of the logarithm: a CCDF is drawn on logarithmic axes."""

_NAMED: Final = r"(?<=^|, )\w+=.*?(?=, \w+=|$)"
"""A part `name=value` of a client's class."""
_HASH_RANGE: Final = 1_000_000_007
_GROUP: Final = ("dataset", "period", "grouping", "value")
_COUNTED: Final = ("dataset", "period", "client_class", "site", "duration_s")
ANYWHERE: Final = "site is null"
"""Of counts: those by class."""
AT_SITE: Final = "site is not null"
"""Of counts: those by site."""


def durations(sojourns: DataFrame) -> DataFrame:
    """Sojourns -> silver `durations`: the periods whose begin was observed.

    A period that was under way when observation began has an unknown age and counts for nothing, as in
    `roamq.models.censoring`.

    A handoff is the time from last seen at one site to first seen at the next, where the client stayed connected; it
    belongs to the site it leads to.
    """
    by_begin = Window.partitionBy("dataset", "client").orderBy("begin", "end")
    so_far = by_begin.rowsBetween(Window.unboundedPreceding, Window.currentRow)
    before = F.lag("state").over(by_begin)
    begin_seen = before.isNotNull() & (before != UNKNOWN)
    turned_on = (F.col("state") == CONNECTED) & (before.isNull() | (before != CONNECTED))
    ordered = sojourns.withColumns(
        {
            "begin_seen": begin_seen,
            "on_begin_seen": F.last(F.when(turned_on, begin_seen), ignorenulls=True).over(so_far),
        }
    )
    length = _between("begin", "end")
    is_stay = (F.col("state") == CONNECTED) & F.col("site").isNotNull()
    is_handoff = is_stay & (F.col("next_site") != F.col("site")) & (F.col("end") >= F.col("next_begin"))
    periods = F.array(
        F.when(
            F.col("on_since").isNotNull(),
            _duration(ON, None, _between("on_since", "end"), F.col("on_complete"), F.col("on_begin_seen")),
        ),
        F.when(
            F.col("state") == DISCONNECTED,
            _duration(OFF, None, length, F.col("complete"), F.col("begin_seen")),
        ),
        F.when(is_stay, _duration(STAY, F.col("site"), length, F.col("complete"), F.col("begin_seen"))),
        F.when(
            is_handoff,
            _duration(
                HANDOFF, F.col("next_site"), _between("last_seen", "next_begin"), F.lit(True), F.lit(True)
            ),
        ),
    )
    draw = F.pmod(F.xxhash64("client", "begin", "state"), F.lit(_HASH_RANGE)) / _HASH_RANGE
    measured = ordered.select("dataset", "client", "client_class", draw.alias("draw"), F.inline(periods))
    # A row without such a period has no positive duration.
    return conform(measured.where("duration_s > 0 and counts"), DURATIONS)


def _between(begin: str, end: str) -> Column:
    return (F.unix_micros(end) - F.unix_micros(begin)) / 1_000_000


def _duration(
    period: str, site: Column | None, duration_s: Column, complete: Column, begin_seen: Column
) -> Column:
    place = F.lit(None).cast("string") if site is None else site
    return F.struct(
        F.lit(period).alias("period"),
        place.alias("site"),
        duration_s.alias("duration_s"),
        complete.alias("complete"),
        (complete | begin_seen).alias("counts"),
    )


def duration_counts(measured: DataFrame) -> DataFrame:
    """Durations -> gold `duration_counts`: how many of each length there are, from which all curves are made.

    They are counted twice: by class wherever they were (`site` is null), and by site whatever the class
    (`client_class` is null). Curves of everything and of classes then need no look at the counts of all sites.
    """
    nothing = F.lit(None).cast("string")
    by_class = F.struct("client_class", nothing.alias("site"))
    by_site = F.struct(nothing.alias("client_class"), "site")
    both = F.when(F.col("site").isNotNull(), F.array(by_class, by_site)).otherwise(F.array(by_class))
    counted = (
        measured.select("dataset", "period", "duration_s", "complete", F.inline(both))
        .groupBy(*_COUNTED)
        .agg(F.count_if("complete").alias("ended"), F.count_if(~F.col("complete")).alias("cut"))
    )
    return conform(counted, DURATION_COUNTS)


def corrected_counts(before: DataFrame, went: DataFrame | None, came: DataFrame) -> DataFrame:
    """`duration_counts` after some durations went and others came."""
    taken = None if went is None else duration_counts(went)
    left = corrected(before, taken, duration_counts(came), by=_COUNTED, sums=("ended", "cut"))
    return conform(left.where("ended > 0 or cut > 0"), DURATION_COUNTS)


def connectivity(measured: DataFrame, fit_samples: int) -> DataFrame:
    """Durations -> gold `connectivity`: one row per group and fitted family, the best first by AIC.

    A duration whose end was not observed is censored: it counts as "longer than this" in quantiles, mean and fits.
    Groups: everything, each client class, each site.
    """
    return fitted(measured, described(duration_counts(measured)), fit_samples)


def described(counts: DataFrame, only: Column | None = None) -> DataFrame:
    """Counts of durations -> numbers, mean and quantiles of every group; `only` of some, by their columns `dataset`,
    `grouping` and `value`.
    """
    wide = _added_up(_in_wide_groups(counts.where(ANYWHERE), "duration_s", "ended", "cut"), _GROUP)
    rows = wide.unionByName(_at_sites(counts.where(AT_SITE), "duration_s", "ended", "cut"))
    if only is not None:
        rows = rows.where(only)
    return group_counts(rows)


def fitted(
    measured: DataFrame, groups: DataFrame, fit_samples: int, at_sites: Column | None = None
) -> DataFrame:
    """Durations and described groups -> gold `connectivity`. `at_sites`: whether a duration's site is described, where
    that is known before.
    """
    samples = chosen_samples(measured, groups, fit_samples, at_sites)
    known = (*_GROUP, "n", "censored", "mean_s", *QUANTILES)
    lasting = F.col("duration_s")
    grouped = samples.groupBy(*known).agg(
        F.collect_list(F.when(F.col("complete"), lasting)).alias("ended_s"),
        F.collect_list(F.when(~F.col("complete"), lasting)).alias("cut_s"),
    )
    fit = arrow_function(_fit_batch, ArrayType(struct_of(FIT)))
    fits = grouped.withColumn("fits", fit("ended_s", "cut_s", F.col("grouping") != "site"))
    return conform(fits.select(*known, F.inline("fits")), CONNECTIVITY)


def _in_wide_groups(rows: DataFrame, *columns: str) -> DataFrame:
    return rows.select("dataset", "period", *columns, F.inline(_wide_groups())).where("value is not null")


def _at_sites(rows: DataFrame, *columns: str) -> DataFrame:
    return rows.select(
        "dataset", "period", F.lit("site").alias("grouping"), F.col("site").alias("value"), *columns
    )


def _added_up(counts: DataFrame, group: Sequence[str]) -> DataFrame:
    """How many durations of each length a group has."""
    return counts.groupBy(*group, "duration_s").agg(F.sum("ended").alias("ended"), F.sum("cut").alias("cut"))


def ccdf(counts: DataFrame) -> DataFrame:
    """Counts of durations -> gold `ccdf`: points of the complementary distribution, dense in the tail, and exact.

    The curve is Kaplan and Meier's. A duration is the value at each step that the curve takes there; where the longest
    durations are censored, the curve ends above 0 and the last steps have no value.
    """
    group = ("dataset", "period")
    steps = survival(_added_up(counts.where(ANYWHERE), group), group).select(
        *("dataset", "period", "duration_s"),
        _steps_within(F.col("above_before")).alias("before"),
        _steps_within(F.col("above")).alias("last"),
    )
    step = F.explode(F.sequence(F.col("before") + 1, F.col("last")))
    points = steps.where("last > before").select("dataset", "period", "duration_s", step.alias("step"))
    shares = F.array(*map(F.lit, SHARES_ABOVE))
    return conform(points.withColumn("share_above", F.element_at(shares, F.col("step"))), CCDF)


def _steps_within(left: Column) -> Column:
    """How many of `SHARES_ABOVE` are passed when this share is left."""
    # Rounded: a product of many fractions may miss a step by the last digit.
    steps = F.floor(F.round(F.log10(left) * -STEPS_PER_DECADE, 9)).cast("int")
    return F.when(left > SHARES_ABOVE[-1], steps).otherwise(len(SHARES_ABOVE))


def survival(counts: DataFrame, group: Sequence[str]) -> DataFrame:
    """Counts of durations, one row for each length in a group -> the curve of Kaplan and Meier (1958): per group and
    length the share that lasts longer (`above`), that share just before (`above_before`), and the duration before
    (`since_s`).

    At each duration the curve falls by the share of those still there that ended then. Censored durations are there up
    to their length. Only distinct durations are sorted: a group has at most as many as seconds in its longest duration
    where times are whole seconds.
    """
    counted = counts.withColumn("all", F.col("ended") + F.col("cut"))
    # Spark sorts by the first bytes of the first column as long as those differ: in sites, and not in datasets.
    by_length = Window.partitionBy(*reversed(group)).orderBy("duration_s")
    earlier = by_length.rowsBetween(Window.unboundedPreceding, -1)
    so_far = by_length.rowsBetween(Window.unboundedPreceding, Window.currentRow)
    everything = by_length.rowsBetween(Window.unboundedPreceding, Window.unboundedFollowing)
    still_there = F.sum("all").over(everything) - F.coalesce(F.sum("all").over(earlier), F.lit(0))
    staying = counted.withColumns(
        {
            "staying": 1 - F.col("ended") / still_there,
            "since_s": F.coalesce(F.lag("duration_s").over(by_length), F.lit(0.0)),
        }
    )
    # The product of the shares that stay, by logarithms; a share of 0 ends the curve.
    falls = F.when(F.col("staying") > 0, F.log("staying"))
    above, above_before = (
        F.when(F.min("staying").over(rows) > 0, F.exp(F.sum(falls).over(rows))) for rows in (so_far, earlier)
    )
    is_first = F.min("staying").over(earlier).isNull()
    return staying.withColumns(
        {
            "above": F.coalesce(above, F.lit(0.0)),
            "above_before": F.coalesce(above_before, F.when(is_first, 1.0).otherwise(0.0)),
        }
    )


def group_counts(rows: DataFrame) -> DataFrame:
    """Counts in groups, one row for each length -> per group `n` (complete), `censored`, mean and quantiles by the
    curve of Kaplan and Meier.

    Where the longest durations are censored, the curve goes on exponentially with the mean that all of them have under
    an exponential law, as in `roamq.models.censoring`. Without censored durations the mean is the plain one.
    """
    curve = survival(rows, _GROUP)
    # Whole microseconds: their sum is the same in any order.
    micros = (F.col("duration_s") * 1_000_000).cast("bigint")
    width = F.col("duration_s") - F.col("since_s")
    counted = curve.groupBy(*_GROUP).agg(
        F.sum("ended").alias("n"),
        F.sum(F.col("all") - F.col("ended")).alias("censored"),
        # Sorted by the window, so that this sum too is the same on every machine.
        F.sum(F.col("above_before") * width).alias("area_s"),
        F.max("duration_s").alias("longest_s"),
        F.max(F.when(F.col("ended") > 0, F.col("duration_s"))).alias("last_end_s"),
        F.min("above").alias("tail"),
        F.sum(micros * F.col("ended")).alias("ended_us"),
        F.sum(micros * F.col("all")).alias("all_us"),
        *(
            F.min(F.when(F.col("above") < round(1 - share, 6) + ROUNDING, F.col("duration_s"))).alias(name)
            for name, share in QUANTILES.items()
        ),
    )
    tail, tail_mean = F.col("tail"), F.col("all_us") / F.col("n") / 1_000_000
    beyond = tail * (tail_mean - (F.col("longest_s") - F.col("last_end_s")))
    plain = F.col("ended_us") / F.col("n") / 1_000_000
    quantiles = [
        F.coalesce(name, F.col("last_end_s") + tail_mean * F.log(tail / (1 - share))).alias(name)
        for name, share in QUANTILES.items()
    ]
    mean = F.when(F.col("censored") == 0, plain).otherwise(F.col("area_s") + beyond)
    return counted.where("n > 0").select(*_GROUP, "n", "censored", mean.alias("mean_s"), *quantiles)


def _wide_groups() -> Column:
    """The groups that a duration may belong to beside its site, as structs (grouping, value); no class makes none.

    A class of the form `path=1, provider=a` also belongs to the group `path` of value 1 and to `provider` of value a.
    """
    values = {"all": F.lit(EVERYTHING), "class": F.col("client_class")}
    named = F.regexp_extract_all("client_class", F.lit(_NAMED), F.lit(0))
    return F.concat(
        F.array(
            *(F.struct(F.lit(name).alias("grouping"), value.alias("value")) for name, value in values.items())
        ),
        F.transform(
            F.coalesce(named, F.array().cast("array<string>")),
            lambda part: F.struct(
                F.substring_index(part, "=", 1).alias("grouping"),
                F.regexp_extract(part, "=(.*)", 1).alias("value"),
            ),
        ),
    )


def chosen_samples(
    measured: DataFrame, groups: DataFrame, at_most: int, at_sites: Column | None = None
) -> DataFrame:
    """For each described group about `at_most` durations, complete and censored, or all, with what describes it;
    `at_sites` as for `fitted`.

    The groups are small and are brought to the rows. Few durations are drawn for a wide group, and only those are put
    into all of theirs.
    """
    reach = (
        groups.where("grouping != 'site'")
        .groupBy("dataset", "period")
        .agg(F.max(_threshold(at_most)).alias("reach"))
    )
    near = measured.join(F.broadcast(reach), ["dataset", "period"], "left")
    if at_sites is not None:
        near = near.where((F.col("draw") < F.col("reach")) | at_sites)
    site = F.array(F.struct(F.lit("site").alias("grouping"), F.col("site").alias("value")))
    both = F.when(F.col("draw") < F.col("reach"), F.concat(site, _wide_groups())).otherwise(site)
    rows = near.select("dataset", "period", "draw", "duration_s", "complete", F.inline(both))
    return rows.join(F.broadcast(groups), list(_GROUP)).where(F.col("draw") < _threshold(at_most))


def _threshold(at_most: int) -> Column:
    """Durations drawn below this are in the sample of a described group."""
    most = F.when(F.col("grouping") == "site", float(min(at_most, SITE_SAMPLES))).otherwise(float(at_most))
    return most / (F.col("n") + F.col("censored"))


def _fit_batch(ended: pa.Array, cut: pa.Array, is_wide: pa.Array) -> pa.Array:
    """Lists of complete and of censored durations -> lists of fits, one struct per family.

    Where all clients are of one class, the class and everybody have the same sample: what is equal is fitted once.
    """
    known: dict[tuple[bytes, bytes, bool], list[dict[str, Any]]] = {}
    fits = []
    for whole, part, wide in zip(ended, cut, is_wide.to_pylist(), strict=True):
        sample, censored = (np.sort(values.values.to_numpy(zero_copy_only=False)) for values in (whole, part))
        key = sample.tobytes(), censored.tobytes(), wide
        if key not in known:
            known[key] = list(fit_rows(sample, censored, test=wide))
        fits.append(known[key])
    return pa.array(fits, _FITS)


def fit_rows(sample: Floats, censored: Floats, *, test: bool) -> Iterator[dict[str, Any]]:
    """A sample of durations -> one row per family, the best first; too small a sample gives one row without a family.

    `test`: with p-values, which cost hundreds of refits: only the few wide groups get them, if nothing is censored.
    """
    described = {"fitted_on": sample.size + censored.size, "best": False}
    if sample.size < FIT_MIN:
        yield described
        return
    if censored.size or not test:
        is_whole = np.arange(sample.size + censored.size) < sample.size
        fits = fit_censored(np.concatenate([sample, censored]), is_whole)
    else:
        fits = fit_durations(sample, replicates=REPLICATES)
    for number, fit in enumerate(fits):
        yield described | {
            "family": fit.family,
            "params": list(fit.params.items()),
            "fit_mean_s": fit.mean,
            "ks_statistic": fit.ks_statistic,
            "ks_pvalue": None if np.isnan(fit.ks_pvalue) else fit.ks_pvalue,
            "aic": fit.aic,
            "best": number == 0,
        }


_FITS: Final = pa.list_(pa.struct(arrow_schema(FIT)))
