"""The same scenario over loopback sockets: the same publications as simulated, nothing lost or doubled."""

import json

import pytest

from roamq.core.records import Record
from roamq.fieldtest.run import run_job
from roamq.sim.scenario import load_scenario, run

OVERRIDES = {
    "clients": "6",
    "duration_s": "7",
    "drain_s": "25",
    "warmup_s": "0",
    "mobility.connect_s": "1.5",
    "mobility.disconnect_s": "0.4",
    "mobility.handoff_s": "0.3",
    "workload.rate": "10",
    "workload.begin_s": "2",
    "records.buffer_s": "1",
    "records.bin_s": "1",
    "faults": '[{at_s = 3.5, kind = "crash", target = "b3", duration_s = 0.5},'
    ' {at_s = 4.5, kind = "cut", target = "b2-b6", duration_s = 1.0}]',
}


@pytest.mark.live
@pytest.mark.slow
@pytest.mark.parametrize("scheme", ["standard", "proactive"])
def test_real_brokers_keep_what_the_simulator_promises_when_killed_and_cut_off(scheme: str) -> None:
    scenario = load_scenario("testbed", scheme=scheme, overrides=OVERRIDES)

    live = run_job(json.loads(scenario.to_json()), seed=5)
    simulated = run(scenario, seed=5)

    assert [r.detail for r in live if r.kind == "violation"] == []
    published = [r for r in live if r.kind == "published"]
    delivered = {(r.client, r.origin, r.sequence) for r in live if r.kind == "delivered"}
    assert len(delivered) == sum(r.count or 0 for r in published)
    assert len(published) == sum(r.kind == "published" for r in simulated.records), "the same publications"
    assert any(r.kind == "handoff" for r in live)
    ways = {r.detail for r in live if r.kind == "delivered"}
    assert "live" in ways and None not in ways, "the brokers tell how each message came"

    levels = [r for r in live if r.kind == "buffer"]
    assert {r.broker for r in levels} == {r.broker for r in simulated.records if r.kind == "buffer"}
    assert any(r.bytes for r in levels), "something was stored for clients on their way"
    crossed = {kind: _crossed(live, kind) for kind in ("event", "delivery", "context")}
    assert all(crossed.values()), f"{crossed}: events, last hops and contexts crossed links"
    assert all(min(r.count or 0, r.hops or 0, r.bytes or 0) >= 0 for r in live if r.kind == "traffic")
    last_hops = sum(_crossed(live, kind) for kind in ("delivery", "stored_delivery"))
    assert last_hops == sum(r.kind == "delivered" for r in live), (
        "a last hop for each message that a client got"
    )


def _crossed(records: list[Record], kind: str) -> int:
    return sum(r.hops or 0 for r in records if r.kind == "traffic" and r.detail == kind)
