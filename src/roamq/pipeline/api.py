"""The pipeline from a notebook: load a trace, clean it, learn from it, on your own Spark session.

The session may be a classic one or a Spark Connect client; it must keep its time in UTC. Everything here takes and
returns data frames, so any step can be replaced by one of your own (docs/pipeline-api.md). Nothing is written, except
by `study_trace`, which keeps its runs.
"""

from collections.abc import Mapping as Settings
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from roamq.core.errors import ConfigError
from roamq.models.tariff import Tariff
from roamq.pipeline import connectivity, gold, online_prediction, prediction, silver
from roamq.pipeline.conform import conform
from roamq.pipeline.definitions.bronze import known_name
from roamq.pipeline.headers import complete_mapping
from roamq.pipeline.input_files import data_files, strange_files
from roamq.pipeline.mobility.privacy import pseudonymise
from roamq.pipeline.replay import network_from
from roamq.pipeline.rules import Rules
from roamq.pipeline.schemas import PROVENANCE, QUARANTINE
from roamq.pipeline.store import literally
from roamq.pipeline.study import StudyPlan, StudyResult, study_of
from roamq.pipeline.traces import TraceFormat, format_named
from roamq.pipeline.traces.base import is_good, line_numbers
from roamq.pipeline.traces.mapping import Mapping

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

UTC_NAMES: Final = ("UTC", "Etc/UTC", "Z", "GMT", "+00:00")


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadedTrace:
    """A trace that was loaded: every line, and what the good ones say."""

    dataset: str
    format: TraceFormat
    rules: Rules
    rows: DataFrame
    """Every line of every file: typed, or with the `reason` why it was refused."""
    observations: DataFrame
    """Who was seen where, and when: `schemas.OBSERVATIONS`."""

    def quarantine(self) -> DataFrame:
        """The lines that could not be read, with file, line number, reason and text: `schemas.QUARANTINE`."""
        refused = line_numbers(self.rows.select("dataset", "file", "position", "raw", "reason"))
        return conform(refused.withColumn("format", F.lit(self.format.name)), QUARANTINE)

    def sojourns(self, **rules: str | float) -> DataFrame:
        """The cleaned stays of all clients, `schemas.SOJOURNS`; `rules` changes cleaning rules.

        With the rule `hole_s`, the times of all rows are read at once, to find when nobody was observed.

        Example:
            >>> trace.sojourns(gap_s=900, ping_pong_s=60)
        """
        changed = _changed(self.rules, rules)
        holes = silver.known_holes(self.observations.select("time"), changed.hole_s)
        return silver.sojourns(self.observations, changed, dataset=self.dataset, holes=holes)

    @property
    def in_degrees(self) -> bool:
        """Positions are longitude and latitude, not places on a plane."""
        return self.format.in_degrees(self.rules)

    def sites(self) -> DataFrame:
        """Where sites are, and how popular: `schemas.SITES`."""
        if self.format.has_coordinates:
            return gold.sites_of_observations(self.observations, self.dataset)
        return gold.sites_of_sojourns(self.sojourns())


def load_trace(
    spark: "SparkSession",
    path: str | Path | Sequence[str | Path],
    trace_format: str | TraceFormat | None = None,
    *,
    mapping: str | Path | Mapping | None = None,
    dataset: str = "trace",
    rules: Settings[str, str | float] | None = None,
    key: bytes | None = None,
    coarsen_s: int = 0,
) -> LoadedTrace:
    """Load files of a format, or files that a mapping describes.

    `path` is a file or a folder, several of them, or an address that Spark reads. `trace_format` is a name that
    `roamq pipeline formats` lists, or a `TraceFormat` of your own. `mapping` is a file, or a `Mapping`
    (docs/own-trace-format.md). `rules` changes cleaning rules of the format. With a `key`, clients get pseudonyms and
    times are cut to multiples of `coarsen_s`; `rows` still holds what the files said.

    Example:
        >>> trace = load_trace(spark, "wlan.csv.gz", "wifi", rules={"gap_s": 900})
        >>> trace = load_trace(spark, "spots.csv", mapping="spots.toml", key=secret, coarsen_s=300)
        >>> trace.quarantine().show()
    """
    _require_utc(spark)
    paths = [str(one) for one in ([path] if isinstance(path, str | Path) else path)]
    known = _format_of(trace_format, mapping, paths)
    chosen = _changed(known.rules, rules or {})
    if known.observe is None:
        raise ConfigError(f"format {known.name!r} knows no clients: there is nothing to clean or to learn")
    files = [literally(file) for one in paths for file in _files(one, known)]
    parsed = known.parse(known.arrivals(spark, files)).withColumn("dataset", F.lit(dataset))
    rows = conform(parsed, f"{PROVENANCE}, {known.fields}")
    good = rows.where(is_good())
    observations = known.observe(
        good.withColumn("file", known_name()) if known.client_in_name else good, chosen
    )
    if key is not None:
        observations = pseudonymise(observations, key, coarsen_s=coarsen_s)
    elif coarsen_s:
        raise ConfigError("coarsen_s: needs a key for the pseudonyms")
    return LoadedTrace(dataset=dataset, format=known, rules=chosen, rows=rows, observations=observations)


def predict_next_site(moves: DataFrame, time_zone: str = "UTC", test_share: float = 0.3) -> DataFrame:
    """Moves -> `schemas.PREDICTION`: how often each predictor is right, on the last days, which it was not trained on.

    Example:
        >>> predict_next_site(moves(stays)).where("set_size in (1, 3)").show()
    """
    return prediction.prediction(prediction.ranked_tests(prediction.trigrams(moves, time_zone, test_share)))


def predict_online(moves: DataFrame, time_zone: str = "UTC", test_share: float = 0.3) -> DataFrame:
    """Moves -> `schemas.PREDICTION` of predictors that know how long a client stayed, that learn on during the test
    days, or both. At every move they know what happened before it, and nothing else.

    Example:
        >>> predict_online(moves(stays)).where("set_size in (1, 3)").show()
    """
    return prediction.prediction(online_prediction.ranked_in_order(moves, time_zone, test_share))


def fit_durations(sojourns: DataFrame, samples: int = 5000) -> DataFrame:
    """Sojourns -> `schemas.CONNECTIVITY`: how long clients are connected, away, at a site and in handoff, by all, class
    and site, with fitted families.

    Example:
        >>> fit_durations(stays).where("grouping = 'all' and best").show()
    """
    return connectivity.connectivity(connectivity.durations(sojourns), samples)


def duration_curves(sojourns: DataFrame) -> DataFrame:
    """Sojourns -> `schemas.CCDF`: the share of durations that last longer, by Kaplan and Meier."""
    return connectivity.ccdf(connectivity.duration_counts(connectivity.durations(sojourns)))


def study_trace(
    spark: "SparkSession",
    trace: LoadedTrace,
    out: str | Path,
    *,
    brokers: int = 12,
    clients: int = 60,
    hours: float = 1.0,
    rate: float = 1.0,
    seeds: int = 3,
    schemes: Sequence[str] = (),
    tariff: Tariff | None = None,
) -> StudyResult:
    """Replay the clients of a trace under every scheme; the runs are kept in `out`, and existing ones are reused.

    `out` must be a folder that the workers of Spark reach under the same path. `roamq.report.ranking.rank_schemes`
    ranks the metrics of the result.

    Example:
        >>> result = study_trace(spark, trace, "runs/mine", brokers=6, clients=20, seeds=2)
        >>> [(one.scheme, one.place) for one in rank_schemes(result.metrics)]
    """
    stays = trace.sojourns()
    graph = gold.neighbor_graph(silver.moves(stays), trace.rules.half_life_days)
    plan = StudyPlan(
        dataset=trace.dataset,
        format=trace.format.name,
        brokers=brokers,
        clients=clients,
        duration_s=hours * 3600,
        rate=rate,
        seeds=seeds,
        schemes=tuple(schemes),
        tariff=tariff or Tariff(),
    )
    return study_of(spark, plan, Path(out), network_from(trace.sites(), graph, brokers), stays)


def _require_utc(spark: "SparkSession") -> None:
    zone = spark.conf.get("spark.sql.session.timeZone")
    if zone not in UTC_NAMES:
        raise ConfigError(
            f"the Spark session keeps its time in {zone}: set it to UTC first with "
            'spark.conf.set("spark.sql.session.timeZone", "UTC"); the rule time_zone says what local times mean'
        )


def _format_of(
    given: str | TraceFormat | None, mapping: str | Path | Mapping | None, paths: Sequence[str]
) -> TraceFormat:
    if mapping is not None:
        if given is not None:
            raise ConfigError("mapping: takes the place of trace_format; give one of them")
        said = mapping if isinstance(mapping, Mapping) else Mapping.load(Path(mapping))
        return format_named("mapped", complete_mapping(said, paths[0]).to_json())
    if given is None:
        raise ConfigError("trace_format: name one that `roamq pipeline formats` lists, or give a mapping")
    return given if isinstance(given, TraceFormat) else format_named(given)


def _files(path: str, trace_format: TraceFormat) -> list[str]:
    """The data files at a place; an address is read as it is."""
    if "://" in path:
        return [path]
    place = Path(path)
    if not place.exists():
        raise ConfigError(f"traces: there is no file or folder {path}")
    files = [str(file) for file in data_files(place)]
    for file, reason in strange_files(place):
        raise ConfigError(f"traces: {file} cannot be read: {reason}")
    if trace_format.read is not None:
        files = [file for file in files if file.endswith(trace_format.suffixes)]
    if not files:
        raise ConfigError(f"traces: {path} holds no data files")
    return files


def _changed(rules: Rules, settings: Settings[str, str | float]) -> Rules:
    return rules.changed({name: str(value) for name, value in settings.items()})
