"""Rides through a live network with an adversary (`fleet.py`): all comes once, in order, wherever the client goes.

A few seeds per scheme here, and thousands more with `ROAMQ_RIDES=1000 pytest tests/net/test_rides.py`.
"""

import os

import pytest

from tests.net.fleet import Fleet, FleetClient

SCHEMES = ["standard", "proactive", "prefetching", "logging", "home-broker", "prehandoff"]
RIDES = int(os.environ.get("ROAMQ_RIDES", "8"))
FOUND = [34, 177]
"""Seeds that once lost messages."""
FOUND_IN_A_RING = [194, 782]
"""Seeds that once repeated messages: a broker that stepped aside sent its old copy of the session on."""
SEEDS = sorted({*range(RIDES), *FOUND})


def roam(
    seed: int,
    scheme: str,
    qos: int,
    *,
    moves: int = 12,
    faults: bool = False,
    ring: bool = False,
    **settings: object,
) -> tuple[Fleet, FleetClient, list[bytes]]:
    """One client moves while another publishes; returns what it should have got.

    Three or four brokers all know each other; of the five or six of a ring each has two neighbours, and what goes to
    the others stops where a link between them is cut.
    """
    settings.setdefault("overlay", ("interest", "flooding")[seed // 2 % 2])
    fleet = Fleet(seed, scheme, (5 if ring else 3) + seed % 2, ring=ring, **settings)  # type: ignore[arg-type]
    names = [str(name) for name in fleet.machines]
    mover, publisher = fleet.client("mover"), fleet.client("publisher")
    publisher.connect(names[0])
    mover.connect(fleet.random.choice(names))
    mover.subscribe("t/#", qos)
    fleet.settle()
    sent: list[bytes] = []
    for _ in range(moves):
        for _ in range(fleet.random.randrange(6)):
            sent.append(str(len(sent)).encode())
            publisher.publish("t/x", sent[-1], qos)
            for _ in range(fleet.random.randrange(8)):
                fleet.step()
        if faults:
            break_something(fleet)
            if publisher.at is None:
                publisher.connect(names[0])
        mover.connect(fleet.random.choice(names))
        for _ in range(fleet.random.randrange(40)):
            fleet.step()
            if faults and fleet.random.random() < 0.02:
                fleet.now += 1.5  # longer than a client is made to wait
    fleet.cut.clear()
    fleet.settle()
    return fleet, mover, sent


def break_something(fleet: Fleet) -> None:
    """A link is cut, perhaps for longer than a client is made to wait; or a broker falls and comes back."""
    match fleet.random.randrange(6):
        case 0:
            fleet.crash(fleet.random.choice(list(fleet.machines)))
        case 1 | 2:
            fleet.cut.add(frozenset(fleet.random.choice(list(fleet.links))))
        case 3:
            fleet.cut.clear()
        case 4:
            fleet.now += fleet.random.random() * 3


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("seed", SEEDS)
def test_qos_2_comes_exactly_once_and_in_order_wherever_the_client_goes(scheme: str, seed: int) -> None:
    _, mover, sent = roam(seed, scheme, 2)

    assert mover.payloads() == sent


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("seed", SEEDS)
def test_qos_1_is_repeated_only_as_flagged_and_in_order(scheme: str, seed: int) -> None:
    _, mover, sent = roam(seed, scheme, 1)

    assert list(dict.fromkeys(mover.payloads())) == sent
    assert mover.unexplained_repeats() == []


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("seed", SEEDS)
def test_nothing_is_lost_while_brokers_fall_and_links_are_cut(scheme: str, seed: int) -> None:
    """Exactly once and in order too, unless somebody could not be made to wait for a session out of reach.

    A subscriber that begins anew may get again, or late, what was under way; a publisher sends it again as new.
    """
    fleet, mover, sent = roam(seed, scheme, 2, faults=True)

    assert set(mover.payloads()) == set(sent)
    if all(mover.present[1:]) and all(fleet.clients[1].present[1:]):
        assert mover.payloads() == sent


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("seed", sorted({*SEEDS, *FOUND_IN_A_RING}))
def test_who_is_given_time_gets_all_once_though_brokers_have_not_heard_where_it_was(
    scheme: str, seed: int
) -> None:
    """In a ring the news of a connection may be held up at a cut link, and the client, which shows no ticket, be
    taken for one that comes from the broker before."""
    _, mover, sent = roam(seed, scheme, 2, faults=True, ring=True, handoff_timeout_s=1000.0)

    assert mover.payloads() == sent


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("seed", SEEDS)
def test_nothing_is_repeated_before_a_client_is_told_that_its_session_is_not_there(
    scheme: str, seed: int
) -> None:
    fleet, mover, sent = roam(seed, scheme, 2, faults=True, ring=True)
    before = mover.payloads()[: mover.session_lost_at]

    assert set(mover.payloads()) == set(sent)
    if all(fleet.clients[1].present[1:]):
        assert before == sent[: len(before)]


@pytest.mark.parametrize("seed", range(6))
def test_no_context_is_left_behind_and_one_broker_serves(seed: int) -> None:
    fleet, mover, _ = roam(seed, "standard", 1)

    holders = {n: m.held() for n, m in fleet.machines.items()}
    kept = [(n, c) for n, contexts in holders.items() for c in contexts if c.client == "mover"]
    assert [n for n, _ in kept] == [mover.at]
