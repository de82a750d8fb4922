"""What [DIS] section 5.2 leaves open, and which of it fits the figures that the paper prints.

A *model* settles all of it: what travellers do at the edge of the city, as what the last hop of a replayed event is
counted, when the run of commute ends, how wide its peak is, and whether a broker logs events that another one sent. The
edge and the log need runs of their own. The rest is a matter of counting: it is computed from the same runs.

The models are fitted on the three absolute figures that the text prints for `standard` at 800 subscribers, and on
nothing else. A model that one of them rejects is not feasible. All other sentences are held out: they are judged in
every feasible model. This is identification, not proof: several models may fit, and the authors' may be another.
"""

import functools
import itertools
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from roamq.models.paired import Estimate, interval
from roamq.pipeline.jobs import Job
from roamq.reproduce.dis_runs import ENDS_SEEDS, SEEDS, populations, runs
from roamq.reproduce.evidence import Evidence, Seeds
from roamq.reproduce.judging import Holds, Judgement, Wanted
from roamq.reproduce.settings import text_of
from roamq.sim.scenario import load_scenario, mobility_of

EDGES: Final = ("stop", "turn", "wrap", "redraw")
HOPS: Final = ("neither", "regular", "unicast")
LOGS: Final = ("multicast", "all")
"""What is logged: what came by multicast, or what other brokers sent too."""
ENDS_H: Final = (19.5, 20.0, 20.5)
"""At the last possible arrival, or up to an hour later."""
PEAKS_MIN: Final = (5, 10, 30)


class Model(NamedTuple):
    """One answer to everything that the paper leaves open. The defaults are the presets'."""

    edge: str = "stop"
    hop: str = "regular"
    log: str = "multicast"
    end_h: float = 20.5
    peak_min: int = 30

    def setting(self, names: Sequence[str]) -> str:
        """These of its parameters, as text."""
        return text_of({TOLD[name]: getattr(self, name) for name in Model._fields if name in names})

    def only(self, names: Sequence[str]) -> "Model":
        """These of its parameters; the others are the presets'."""
        return Model(**{name: getattr(self, name) for name in names})


TOLD: Final = {
    "edge": "edge",
    "hop": "last hop",
    "log": "log",
    "end_h": "end h",
    "peak_min": "peak min",
}

ALL: Final = tuple(itertools.starmap(Model, itertools.product(EDGES, HOPS, LOGS, ENDS_H, PEAKS_MIN)))


# --- runs ----------------------------------------------------------------------------------------------------


def overrides(edge: str, log: str = "multicast") -> dict[str, str]:
    """What these two change in a preset; runs that differ from it need their traffic alone."""
    changed = {
        **({} if edge == "stop" else {"mobility.edge": edge}),
        **({} if log == "multicast" else {"scheme.log_transferred": "true"}),
    }
    return {**changed, "records.level": "traffic"} if changed else {}


def at_edges(scenario: str, wanted: Iterable[tuple[str, Mapping[str, str]]], seeds: int = SEEDS) -> list[Job]:
    """(scheme, parameters) at every edge; of logging, with either log."""
    return [
        job
        for scheme, parameters in wanted
        for edge in EDGES
        for log in (LOGS if scheme == "logging" and scenario != "pervasive" else LOGS[:1])
        for job in runs(scenario, [scheme], {**parameters, **overrides(edge, log)}, quick=False, seeds=seeds)
    ]


def fit_jobs(quick: bool) -> list[Job]:
    """The runs of the fitted figures."""
    most = {"clients": str(populations(quick)[-1])}
    if quick:
        return runs("commute", ["standard"], most, quick=True) + runs(
            "random", ["standard"], most, quick=True
        )
    commute = runs("commute", ["standard"], most, quick=False, seeds=ENDS_SEEDS)
    return [*commute, *at_edges("random", [("standard", most)])]


# --- counting ------------------------------------------------------------------------------------------------


class Hops(NamedTuple):
    """Link traversals: unicast ones, regular ones, and those last hops among them whose event was replayed."""

    unicast: float
    regular: float
    replayed: float

    def ratio(self, hop: str) -> float:
        """The overhead ratio, with the replayed last hops counted as `hop` says."""
        unicast = self.unicast + (self.replayed if hop == "unicast" else 0.0)
        regular = self.regular - (0.0 if hop == "regular" else self.replayed)
        return unicast / regular if regular > 0 else math.inf

    def __add__(self, other: object) -> "Hops":
        assert isinstance(other, Hops)
        return Hops(*(a + b for a, b in zip(self, other, strict=True)))


NO_HOPS: Final = Hops(0.0, 0.0, 0.0)
COUNTS: Final = ["unicast_hops", "multicast_hops", "hops_of_kind"]
BINS: Final = ["hops_in_bin", "unicast_hops_in_bin", "replayed_hops_in_bin"]


class Counted:
    """The overhead ratio of runs, under every model; seed -> value."""

    def __init__(self, evidence: Evidence, jobs: Iterable[Job]) -> None:
        by_scenario: dict[str, list[Job]] = {}
        for job in jobs:
            by_scenario.setdefault(job.scenario, []).append(job)
        self.quick = evidence.quick
        self.most = populations(evidence.quick)[-1]
        self.few = populations(evidence.quick)[0]
        self._seeds = {
            scenario: Seeds(evidence.per_seed(made, BINS if scenario == "commute" else COUNTS))
            for scenario, made in by_scenario.items()
        }
        self._bins: dict[tuple[str, bool, int], dict[int, dict[float, Hops]]] = {}
        self._clock_s: float = mobility_of(load_scenario("commute")).clock_s  # type: ignore[attr-defined]

    def ratio(self, scenario: str, scheme: str, model: Model, **where: object) -> dict[int, float]:
        """Of random or pervasive; `where` as for `Seeds.of`, 800 subscribers unless it says otherwise."""
        return {
            seed: hops.ratio(model.hop) for seed, hops in self.hops(scenario, scheme, model, **where).items()
        }

    def hops(self, scenario: str, scheme: str, model: Model, **where: object) -> dict[int, Hops]:
        wanted = self._where(scheme, model, where)
        seeds = self._seeds[scenario]
        unicast = seeds.of(scheme, "unicast_hops", **wanted)
        regular = seeds.of(scheme, "multicast_hops", **wanted)
        replayed = self.of_kind(scenario, scheme, model, "stored_delivery", **where)
        return {seed: Hops(hops, regular[seed], replayed.get(seed, 0.0)) for seed, hops in unicast.items()}

    def of_kind(
        self, scenario: str, scheme: str, model: Model, kind: str, **where: object
    ) -> dict[int, float]:
        """Link traversals of one kind; no seed has an entry if there were none."""
        wanted = self._where(scheme, model, where)
        return self._seeds[scenario].entities(scheme, "hops_of_kind", **wanted).get(kind, {})

    def share_of(self, scenario: str, scheme: str, model: Model, kinds: Sequence[str]) -> dict[int, float]:
        """The share of these kinds in the unicast link traversals between brokers."""
        found = [self.of_kind(scenario, scheme, model, kind) for kind in kinds]
        return {
            seed: sum(kind.get(seed, 0.0) for kind in found) / hops.unicast if hops.unicast else 0.0
            for seed, hops in self.hops(scenario, scheme, model).items()
        }

    def _where(self, scheme: str, model: Model, where: Mapping[str, object]) -> dict[str, object]:
        logs_all = scheme == "logging" and model.log == "all"
        return {
            "clients": self.most,
            "workload__locality": None,
            "scheme__log_size": None,
            "scheme__targets": None,
            "scheme__prediction": None,
            "mobility__edge": None if model.edge == "stop" else model.edge,
            "scheme__log_transferred": "true" if logs_all else None,
            **where,
        }

    # commute, in bins of five minutes

    def average(self, scheme: str, model: Model, clients: int | None = None) -> dict[int, float]:
        """The ratio until the end of the run."""
        found = self._until(scheme, model, clients)
        return {
            seed: functools.reduce(Hops.__add__, bins.values(), NO_HOPS).ratio(model.hop)
            for seed, bins in found.items()
        }

    def peak(self, scheme: str, model: Model) -> dict[int, float]:
        """The ratio in those minutes in which it is highest."""
        return {seed: worst for seed, (worst, _) in self._worst(scheme, model).items()}

    def peak_h(self, scheme: str, model: Model) -> dict[int, float]:
        """The time of day at which those minutes begin, in hours."""
        return {seed: at for seed, (_, at) in self._worst(scheme, model).items()}

    def _worst(self, scheme: str, model: Model) -> dict[int, tuple[float, float]]:
        width_s = 60.0 * model.peak_min
        found = {}
        for seed, bins in self._until(scheme, model, None).items():
            groups: dict[int, Hops] = {}
            for at, hops in bins.items():
                number = math.ceil(at / width_s)
                groups[number] = groups.get(number, NO_HOPS) + hops
            found[seed] = max(
                (group.ratio(model.hop), (self._clock_s + (number - 1) * width_s) / 3600)
                for number, group in groups.items()
            )
        return found

    def _until(self, scheme: str, model: Model, clients: int | None) -> dict[int, dict[float, Hops]]:
        """Seed -> end of a bin -> its traffic, until the end of the run."""
        logs_all = scheme == "logging" and model.log == "all"
        key = (scheme, logs_all, clients or self.most)
        if key not in self._bins:
            self._bins[key] = self._all_bins(*key)
        last_s = 3600 * model.end_h - self._clock_s
        return {
            seed: {at: hops for at, hops in bins.items() if at <= last_s}
            for seed, bins in self._bins[key].items()
        }

    def _all_bins(self, scheme: str, logs_all: bool, clients: int) -> dict[int, dict[float, Hops]]:
        where = {"clients": clients, "scheme__log_transferred": "true" if logs_all else None}
        every, unicast, replayed = (self._seeds["commute"].entities(scheme, name, **where) for name in BINS)
        found: dict[int, dict[float, Hops]] = {}
        for at, by_seed in every.items():
            for seed, hops in by_seed.items():
                moved = unicast.get(at, {}).get(seed, 0.0)
                again = replayed.get(at, {}).get(seed, 0.0)
                found.setdefault(seed, {})[float(at)] = Hops(moved, hops - moved, again)
        assert found, f"{scheme} at {clients} has no traffic"
        return found


# --- sentences over models -------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Said:
    """A sentence of the paper, and how it is measured in a model."""

    text: str
    wanted: Wanted
    measure: Callable[[Model], Estimate]
    uses: tuple[str, ...]
    """The parameters of a model that it depends on."""
    fitted: bool = False
    in_quick: bool = True
    """Whether it means something at the smaller populations of `--quick`."""

    def over_all(self) -> Estimate:
        """What is measured, of a sentence that depends on no parameter."""
        assert not self.uses, f"{self.text}: it is measured in a model"
        return self.measure(Model())

    def over(self, models: Iterable[Model]) -> dict[str, Estimate]:
        """What is measured in these models; once for those that it cannot tell apart."""
        different = {model.setting(self.uses): model.only(self.uses) for model in models}
        return {setting: self.measure(model) for setting, model in different.items()}


def about_standard(counted: Counted) -> list[Said]:
    """The three sentences that the models are fitted on."""
    about = functools.partial(_near, 0.1)
    return [
        Said(
            text="commute: standard almost 0.8 at 800",
            wanted=about(0.8),
            measure=lambda model: interval([*counted.average("standard", model).values()]),
            uses=("hop", "end_h"),
            fitted=True,
            in_quick=False,
        ),
        Said(
            text="commute: standard 2.3 at 800 in the peak",
            wanted=about(2.3),
            measure=lambda model: interval([*counted.peak("standard", model).values()]),
            uses=("hop", "end_h", "peak_min"),
            fitted=True,
            in_quick=False,
        ),
        Said(
            text="random: standard virtually 1.0 at 800",
            wanted=about(1.0),
            measure=lambda model: interval([*counted.ratio("random", "standard", model).values()]),
            uses=("edge", "hop"),
            fitted=True,
            in_quick=False,
        ),
    ]


NEGLIGIBLE: Final = 0.05
"""What is called negligible may be this share; what is "completely" due to something, all but this share."""


def all_events(counted: Counted, scenario: str) -> Said:
    """Said of home broker in random and pervasive (5.2.3, 5.2.4)."""
    return Said(
        text=f"{scenario}: home broker's overhead is completely due to stored and forwarded events (share)",
        wanted=Wanted(at_least=1 - NEGLIGIBLE),
        measure=lambda model: interval(
            [*counted.share_of(scenario, "home-broker", model, ("stored_event", "forward")).values()]
        ),
        uses=("edge",),
    )


def _near(tolerance: float, value: float) -> Wanted:
    return Wanted(at_least=(1 - tolerance) * value, at_most=(1 + tolerance) * value, named=value)


def feasible(fitted: Iterable[Said], models: Sequence[Model] = ALL) -> list[Model]:
    """The models that no fitted sentence rejects."""
    rejected = {
        (said.uses, setting)
        for said in fitted
        for setting, measured in said.over(models).items()
        if said.wanted.judge(measured) is Holds.NO
    }
    uses = {of for of, _ in rejected}
    return [m for m in models if not any((of, m.setting(of)) in rejected for of in uses)]


def models_for(counted: Counted) -> list[Model]:
    """The models to judge in. Small populations fit nothing, and their runs have the presets' edge and log."""
    if counted.quick:
        return [model for model in ALL if (model.edge, model.log) == (EDGES[0], LOGS[0])]
    return feasible(about_standard(counted)) or list(ALL)


def judged(counted: Counted, said: Sequence[Said]) -> Judgement:
    """A claim's sentences, in every feasible model that they can tell apart."""
    models = models_for(counted)
    uses = {name for sentence in said for name in sentence.uses}
    judgement = Judgement(
        [*dict.fromkeys(model.setting([*uses]) for model in models)], complete=not (counted.quick and uses)
    )
    for sentence in said:
        left_out = counted.quick and not sentence.in_quick
        measured = None if left_out else sentence.over(models)
        judgement.says(sentence.text, measured, sentence.wanted, calibrated=sentence.fitted)
    return judgement
