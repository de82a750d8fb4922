"""Brokers on six hosts, with delay, loss, partitions and a host that comes and goes (`hosts.py`), for a few seconds.

`python -m tests.net.hosts` has 200 clients roam for a minute.
"""

import pytest

from tests.net.hosts import Plan, ride
from tests.support.namespaces import why_there_can_be_none

pytestmark = pytest.mark.live


def test_clients_roam_between_hosts_that_are_cut_off_come_and_go() -> None:
    if why := why_there_can_be_none():
        pytest.skip(why)
    outcome = ride(Plan(clients=12, duration_s=4.0, stay_s=1.2, measured_moves=1))
    assert outcome.is_clean, "\n".join(outcome.lines())
    assert outcome.owed and outcome.moves
