"""What all tests share: where modules are found, how properties are searched, and what a leak costs."""

import gc
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from roamq.net.ops import local

# Spark's workers import runners of the tests by name, so they look where pytest does.
_ROOT = Path(__file__).parent.parent
os.environ["PYTHONPATH"] = os.pathsep.join([str(_ROOT / "src"), str(_ROOT), os.environ.get("PYTHONPATH", "")])

# Matrices of the models are small: threads that wait for each other would cost most of the time on a busy machine.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

pytest_plugins = ["tests.support.spark"]

# Examples are random, and a failure prints what finds it again. How long an example takes says more about the machine
# than about the code. A machine that is thrown away after the run keeps no examples.
settings.register_profile(
    "roamq",
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
    print_blob=True,
    database=None if os.environ.get("CI") else settings().database,
    max_examples=100,
)
# `make test-fast` draws fewer examples; `pytest --hypothesis-profile=long` draws more.
settings.register_profile("quick", settings.get_profile("roamq"), max_examples=10)
settings.register_profile("long", settings.get_profile("roamq"), max_examples=2000)
settings.load_profile("roamq")


SLOWEST = ("tests/test_tutorials.py", "tests/pipeline/", "tests/cli/test_simulate.py")
"""Tests that take a minute and more begin first: at the end, one process would be at work and the others wait."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    items.sort(key=lambda item: not item.nodeid.startswith(SLOWEST))


def pytest_collection_finish() -> None:
    """Modules and tests stay until the end: the collector need not look at them again and again."""
    gc.collect()
    gc.freeze()


@pytest.fixture(autouse=True, scope="session")
def _workers_choose_different_ports() -> Iterator[None]:
    """Between a free port that is chosen and the broker that listens there, another worker may start a broker."""
    workers = int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))
    number = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw"))
    share = (local.LAST_PORT - local.FIRST_PORT) // workers
    first = local.FIRST_PORT + number * share
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(local, "FIRST_PORT", first)
        patch.setattr(local, "LAST_PORT", first + share)
        yield


@pytest.fixture(autouse=True)
def _leaks_are_found_in_their_test(request: pytest.FixtureRequest) -> Iterator[None]:
    """A socket that a test leaves open is an error when it is collected; a test on sockets collects its own."""
    yield
    if request.node.get_closest_marker("live"):
        gc.collect()
