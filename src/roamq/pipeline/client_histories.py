"""From a folder of records to the histories of its clients: what the models are calibrated with. No Spark is needed.

The folder is that of a campaign (`roamq simulate`, `roamq bench roaming --out`, `roamq demo`), or the records of live
brokers.
"""

import itertools
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from pyarrow import dataset as files

from roamq.core.errors import ConfigError
from roamq.models.histories import ClientHistory
from roamq.pipeline.jobs import SIMULATOR

KINDS: Final = ("published", "delivered", "connected", "disconnected")

COLUMNS: Final = ("kind", "time_s", "broker", "client", "count", "duration_s")

WARMUP_SHARE: Final = 0.1
"""Of a live recording: how much of its begin is left out; a run of a campaign says so itself."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedRun:
    """One run, seen from its clients."""

    run_id: str
    scheme: str
    """As the table of runs names it; for live brokers that no campaign started, the name of their run."""
    scenario: str
    seed: int | None
    is_live: bool
    histories: list[ClientHistory]
    wanted_per_s: float | None
    """Deliveries per second that subscriptions ask for; None where nobody counted."""
    delivered_per_s: float


def read_runs(folder: Path, run_ids: Collection[str] | None = None) -> Iterator[RecordedRun]:
    """The runs in a folder that succeeded, all or those named; a `ConfigError` says what cannot be read."""
    root = next((place for place in (folder, folder / "campaign") if (place / "part=records").is_dir()), None)
    if root is None:
        raise ConfigError(
            f"{folder}: no records in it; name a folder that `roamq simulate` or `roamq up` wrote"
        )
    try:
        about = _table_of_runs(root)
        for place in sorted((root / "part=records").glob("run_id=*")):
            run_id = place.name.removeprefix("run_id=")
            row = about.get(run_id)
            if (about and row is None) or (run_ids is not None and run_id not in run_ids):
                continue  # it failed, or is not asked for
            attempt = place / f"attempt={row['attempt']}" if row and row.get("attempt") else place
            table = files.dataset(attempt, format="parquet").to_table(
                columns=list(COLUMNS), filter=files.field("kind").isin(list(KINDS))
            )
            if table.num_rows:
                yield _run(run_id, row, table)
    except (pa.ArrowException, OSError) as error:
        raise ConfigError(f"{root}: cannot be read as records: {error}") from error


def _table_of_runs(root: Path) -> dict[str, dict[str, Any]]:
    if not (root / "part=runs").is_dir():
        return {}
    table = files.dataset(root / "part=runs", format="parquet", partitioning="hive").to_table()
    return {row["run_id"]: row for row in table.to_pylist() if row["status"] == "ok"}


def _run(run_id: str, row: dict[str, Any] | None, table: pa.Table) -> RecordedRun:
    first, last = (value.as_py() for value in pc.min_max(table["time_s"]).values())
    begin_s, until_s = first + WARMUP_SHARE * (last - first), last
    if row is not None:
        begin_s, until_s = row["warmup_s"] or 0.0, last if row["until_s"] is None else row["until_s"]
    published = table.filter(pc.field("kind") == "published")
    in_time = published.filter((pc.field("time_s") >= begin_s) & (pc.field("time_s") <= until_s))
    is_counted = in_time.num_rows > 0 and in_time["count"].null_count == 0
    histories = list(_histories(table, begin_s, until_s))
    span_s = max(until_s - begin_s, 1e-9)
    return RecordedRun(
        run_id=run_id,
        scheme=row["scheme"] if row else run_id,
        scenario=row.get("scenario", "") if row else "",
        seed=row.get("seed") if row else None,
        is_live=row is None or row.get("runner", SIMULATOR.name) != SIMULATOR.name,
        histories=histories,
        wanted_per_s=pc.sum(in_time["count"]).as_py() / span_s if is_counted else None,
        delivered_per_s=sum(history.events for history in histories) / span_s,
    )


def _histories(table: pa.Table, begin_s: float, until_s: float) -> Iterator[ClientHistory]:
    of_clients = table.filter((pc.field("kind") != "published") & pc.field("client").is_valid())
    if not of_clients.num_rows:
        return
    names = of_clients["client"].combine_chunks().dictionary_encode()
    client = names.indices.to_numpy(zero_copy_only=False)
    time_s = of_clients["time_s"].to_numpy()
    delay_s = pc.fill_null(of_clients["duration_s"].cast(pa.float64()), np.nan).to_numpy()
    kind = np.asarray(pc.index_in(of_clients["kind"], pa.array(KINDS)).to_numpy())
    brokers = pc.fill_null(of_clients["broker"].cast(pa.string()), "").combine_chunks().dictionary_encode()
    broker = brokers.indices.to_numpy(zero_copy_only=False)
    order = np.lexsort((time_s, client))
    client, time_s, delay_s, kind, broker = (
        values[order] for values in (client, time_s, delay_s, kind, broker)
    )
    edges = np.searchsorted(client, np.arange(len(names.dictionary) + 1))
    for begin, end in itertools.pairwise(edges):
        mine = slice(int(begin), int(end))
        left = (kind[mine] == KINDS.index("disconnected")) & _is_last(kind[mine], broker[mine])
        yield _history(time_s[mine], delay_s[mine], kind[mine], left, begin_s, until_s)


def _is_last(kind: NDArray[np.int32], broker: NDArray[np.int32]) -> NDArray[np.bool_]:
    """Whether each record of a client is of the broker where it last connected.

    A broker may notice that a client is gone when that is connected elsewhere already.
    """
    connects = np.flatnonzero(kind == KINDS.index("connected"))
    if not connects.size:
        return np.ones(kind.size, dtype=bool)
    before = np.searchsorted(connects, np.arange(kind.size), side="right") - 1
    return np.asarray((before < 0) | (broker == broker[connects[np.maximum(before, 0)]]), dtype=bool)


def _history(
    time_s: NDArray[np.float64],
    delay_s: NDArray[np.float64],
    kind: NDArray[np.int32],
    left: NDArray[np.bool_],
    begin_s: float,
    until_s: float,
) -> ClientHistory:
    delivered = (kind == KINDS.index("delivered")) & np.isfinite(delay_s)
    return ClientHistory(
        connects_s=time_s[kind == KINDS.index("connected")],
        disconnects_s=time_s[left],
        deliveries_s=time_s[delivered],
        delays_s=delay_s[delivered],
        begin_s=begin_s,
        until_s=until_s,
    )
