"""What a live broker has learned of how its clients move survives its fall ([PRE] section 2.3)."""

from roamq.core.events import BrokerId, ClientId
from roamq.geo.cells import Cell
from roamq.net.durable.inputs import LiveBroker
from roamq.net.durable.snapshot import dump, load
from roamq.net.ops.settings import Settings
from roamq.schemes.prehandoff import PreHandoff

AREAS = {"b1": (52.50, 13.40), "b2": (52.50, 13.44)}
B1, B2 = BrokerId("b1"), BrokerId("b2")


def scheme_of(live: LiveBroker) -> PreHandoff:
    scheme = live.machine.broker.scheme
    assert isinstance(scheme, PreHandoff)
    return scheme


def test_a_broker_that_comes_back_knows_where_its_clients_went() -> None:
    options = {"areas": AREAS, "choose": "learned", "warm_start": [["b1", "b2", 7, 0.0]]}
    settings = Settings(
        me=B1, brokers=(B1, B2), links=(("b1", "b2"),), scheme="prehandoff", scheme_options=options
    )
    live = LiveBroker(settings, 1.0)
    before = scheme_of(live)
    assert before.expectation.region is not None
    cell = Cell(sorted(before.expectation.region.border_cells(B1))[0])
    for client in ("c1", "c2"):
        before.on_location(ClientId(client), str(cell))
    before.pattern.left(ClientId("c1"), B2)

    after = scheme_of(load(dump(live)))

    assert after.pattern.went == before.pattern.went == {("", ""): {B2: 8.0}, (str(cell), ""): {B2: 1.0}}
    assert after.expectation.pattern is after.pattern, "it is what decides"
    after.pattern.left(ClientId("c2"), B2)
    assert after.pattern.went[str(cell), ""] == {B2: 2.0}, "whoever was there is still known to be"
