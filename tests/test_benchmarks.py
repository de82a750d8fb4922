"""The benchmarks that compare two trees: digests of records, and measurements on machines without sockets.

Same seed, same records, byte for byte: `python -m benchmarks.digests` gives the same digests in any process. Python
hashes strings differently in every process unless PYTHONHASHSEED says otherwise, so a loop over a set of clients,
brokers or cells would show here.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from benchmarks import lean, scale
from benchmarks._measures import Figure, _tried, handoff_cost, waiting
from benchmarks.before import row_of
from benchmarks.digests import Digest, Run, compared, from_lines

from roamq.core.errors import RoamqError
from roamq.net.bench.brokers import BenchBroker, Running, UnavailableError
from tests.support.waiting import wait_until

ROOT = Path(__file__).parent.parent


def start(hash_seed: str, *arguments: str) -> "subprocess.Popen[str]":
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join((str(ROOT / "src"), str(ROOT))),
        "PYTHONHASHSEED": hash_seed,
    }
    command = [sys.executable, "-P", "-m", "benchmarks.digests", *arguments]
    return subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True)


@pytest.mark.slow
@pytest.mark.parametrize(("scheme", "scenario"), [("proactive", "testbed"), ("prehandoff", "streets")])
def test_equal_seeds_give_equal_digests_in_processes_that_hash_differently(
    scheme: str, scenario: str
) -> None:
    arguments = ("--scheme", scheme, "--scenario", scenario, "--seed", "7")
    processes = [start(hash_seed, *arguments) for hash_seed in ("1", "2")]
    first, second = (process.communicate()[0] for process in processes)

    assert first == second, f"replay: python -m benchmarks.digests {' '.join(arguments)}"
    ((_, digest),) = from_lines(first.splitlines())
    assert digest.records > 1000, digest.text


def test_a_comparison_tells_different_missing_and_new_runs_apart(capsys: pytest.CaptureFixture[str]) -> None:
    a, b, c, d = (Run("standard", "testbed", seed) for seed in range(4))
    one, other = Digest(10, "1f"), Digest(10, "2e")

    result = compared([(a, one), (b, one), (c, one)], [(b, other), (a, one), (d, one)])

    assert result == ([b], [c])
    assert capsys.readouterr().out.splitlines()[-1] == "1 equal, 1 different, 1 missing, 1 new"


@pytest.mark.parametrize("overlay", ["flooding", None])
@pytest.mark.parametrize("scheme", ["standard", "proactive"])
def test_a_handoff_between_two_machines_loses_no_event(scheme: str, overlay: str | None) -> None:
    """`handoff_cost` ends with an error if the client misses one of the events that waited for it."""
    (figure,) = handoff_cost(scheme, overlay, count=4)

    assert figure.value > 0


def test_clients_of_a_silent_broker_wait_while_a_stranger_is_answered() -> None:
    """`waiting` ends with an error if one of them is let in."""
    ping, connect = waiting(5)

    assert (ping.what, connect.what) == ("PINGREQ, 5 wait", "CONNECT, 5 come to wait")


def test_a_ratio_above_one_means_faster_whichever_way_the_figure_counts() -> None:
    cost = [(Figure("a", "processor", 3.0, "us"), Figure("a", "processor", 2.0, "us"))]
    rate = [(Figure("b", "wall", 10.0, "/s", True), Figure("b", "wall", 15.0, "/s", True))]

    assert row_of(cost).ratio == row_of(rate).ratio == row_of(rate).best == 1.5


@pytest.mark.live
def test_a_lean_broker_is_measured_with_clients_that_connect_and_subscribe() -> None:
    (result,) = lean.compare([lean.ROAMQ], clients=20, rounds=1)

    assert result.broker == "roamq"
    assert result.rate > 0 and result.cpu_us_each >= 0


def test_a_broker_that_is_not_installed_is_named_and_left_out(capsys: pytest.CaptureFixture[str]) -> None:
    def missing(folder: Path) -> tuple[list[str], int]:
        raise UnavailableError("nobody is not installed")

    assert lean.compare([BenchBroker("nobody", missing)], clients=1, rounds=2) == []
    assert capsys.readouterr().out == "left out: nobody is not installed\n"


def test_brokers_whose_port_was_taken_are_started_again(capsys: pytest.CaptureFixture[str]) -> None:
    outcomes = iter([RoamqError("broker b1 ended as it started"), OSError("in use"), None])

    def act() -> str:
        if (error := next(outcomes)) is not None:
            raise error
        return "measured"

    assert _tried(act) == "measured"
    assert capsys.readouterr().err.count("are started again") == 2


def test_the_scale_of_a_network_follows_from_its_graph_and_the_prices() -> None:
    found = scale.shape(30)
    assert (found.links, found.local) == (44, scale.LOCAL_SITES)
    prices = scale.Prices(3000, 200, 1e-5, 100, 1e-5, 250, 1e-6)
    few, many = (scale.load(30, clients, prices, found, 1.5) for clients in (30_000, 300_000))
    assert few.directory_mb == 6 and few.sessions_mb == 3
    assert few.clients > 1000, "sized for a busy moment"
    assert many.news_cores == pytest.approx(10 * few.news_cores)
    assert many.scattered_cores is not None and many.scattered_cores > many.local_cores


def test_processor_time_of_a_broker_counts_its_processes() -> None:
    burn = "import time\nwhile time.process_time() < 0.2: pass\ninput()"
    parent = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {burn!r}])"
    with subprocess.Popen([sys.executable, "-c", parent], stdin=subprocess.PIPE) as process:
        broker = Running(0, process)
        wait_until(lambda: broker.cpu_s() >= 0.2, "processor time of the child")
        assert process.stdin is not None
        process.stdin.close()
