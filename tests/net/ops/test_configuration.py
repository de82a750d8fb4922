"""Configuration: what is right becomes options, what is wrong is named with its place."""

import json
from pathlib import Path

import pytest

from roamq.core.errors import ConfigError
from roamq.core.events import BrokerId
from roamq.net.clients.passwords import Users, hash_password, verify_password
from roamq.net.ops.configuration import NetworkConfig, load_network, parse_network
from roamq.net.ops.local import local_network
from roamq.net.ops.options import Durability
from roamq.net.ops.settings import Rule
from roamq.schemes.prehandoff_options import PreHandoffOptions, areas_of

HASH = hash_password(b"sesame", salt=bytes(16))

NETWORK = f"""
[network]
name = "shops"
scheme = "standard"
secret = "0123456789abcdef"
links = [["north", "south"]]

[storage]
durability = "disk"
folder = "data"

[records]
folder = "records"

[quotas]
publish_rate_max = 100.0

[mqtt]
receive_maximum = 20

[bounds]
connect_timeout_s = 3.0

[access.users]
ann = "{HASH}"

[[access.rules]]
user = "ann"
topics = ["shops/#"]

[[access.rules]]
may = ["subscribe"]
topics = ["news/%c/#"]

[brokers.north]
link_port = 7001
metrics_port = 9001
listeners = [{{ port = 1883 }}, {{ kind = "ws", host = "0.0.0.0", port = 8080, path = "/in" }}]

[brokers.south]
link_port = 7002
listeners = [{{ port = 1884 }}]
"""


def test_a_network_becomes_the_options_of_each_broker(tmp_path: Path) -> None:
    path = tmp_path / "network.toml"
    path.write_text(NETWORK)

    options = load_network(path).server_options("north")

    assert options.settings.me == "north"
    assert options.settings.links == (("north", "south"),)
    assert options.settings.limits.receive_maximum == 20
    assert options.settings.references == {"north": "127.0.0.1:1883", "south": "127.0.0.1:1884"}
    assert options.settings.access.rules == (
        Rule(user="ann", topics=("shops/#",)),
        Rule(may=frozenset({"subscribe"}), topics=("news/%c/#",)),
    )
    assert [listener.url for listener in options.listeners] == [
        "mqtt://127.0.0.1:1883",
        "ws://0.0.0.0:8080/in",
    ]
    assert options.links.peers == {"south": ("127.0.0.1", 7002)}
    assert options.storage.durability is Durability.DISK
    assert options.storage.folder == tmp_path / "data" / "north"
    assert options.recording is not None
    assert (options.recording.folder, options.recording.run_id) == (tmp_path / "records", "shops")
    assert (options.bounds.connect_timeout_s, options.metrics_port) == (3.0, 9001)


def test_links_take_detours_after_a_second_unless_configured() -> None:
    def waits(network: str) -> float | None:
        text = NETWORK.replace('scheme = "standard"', f'scheme = "standard"\n{network}')
        return parse_network(text).server_options("north").links.detour_after_s

    assert waits("") == 1.0
    assert waits("detour_after_s = 0.25") == 0.25
    assert waits("detours = false") is None


def test_strangers_come_in_on_loopback_only_unless_configured() -> None:
    def open_listeners(access: str) -> list[bool]:
        network = parse_network(NETWORK.replace("[access.users]", f"[access]\n{access}\n[access.users]"))
        return [listener.anonymous for listener in network.server_options("north").listeners]

    assert open_listeners("") == [True, False]
    assert open_listeners('anonymous = "always"') == [True, True]
    assert open_listeners('anonymous = "never"') == [False, False]


@pytest.mark.parametrize(
    ("before", "after", "message"),
    [
        ('scheme = "standard"', 'scheme = "standart"', r"line 4: network\.scheme: .*standart"),
        (
            'scheme = "standard"',
            'schema = "standard"',
            r"line 4: network\.schema: unknown field; did you mean 'scheme'",
        ),
        (
            'scheme = "standard"',
            'scheme = "standard"\ndetour_after_s = -1.0',
            r"line 5: network\.detour_after_s: -1\.0 is no time to wait; `detours = false` turns detours off",
        ),
        ("port = 1884", 'port = "x"', r"brokers\.south\.listeners\[0\]\.port: expected `int`"),
        ("port = 1884", "port = 70000", r"brokers\.south\.listeners\[0\]\.port: 70000 is no port"),
        ("port = 1884", 'kind = "mqtts", port = 1884', r"listeners\[0\]\.certificate: .* needs one"),
        (HASH, "sesame", r"line \d+: access\.users\.ann: is not a password hash"),
        ('["north", "south"]]', '["north", "west"]]', r"network\.links: .*'west'"),
        ('secret = "0123456789abcdef"', "", r"network\.keys: give `keys`"),
        ('secret = "0123456789abcdef"', 'secret = "short"', r"network\.secret: is shorter"),
        (
            "[brokers.south]",
            '[brokers.south]\nhost = "10.0.0.1"',
            r"network\.secret: .*10\.0\.0\.1.* use `keys`",
        ),
        (
            "[brokers.south]",
            '[brokers."@south"]',
            r"brokers\.@south: '@south' is no name for a broker: use lett",
        ),
        ("[brokers.south]", '[brokers."../south"]', r"'\.\./south' is no name for a broker"),
        ("link_port = 7002", "", r"brokers\.south\.link_port"),
        ('may = ["subscribe"]', 'may = ["subscribes"]', r"access\.rules\[1\]\.may: 'subscribes' is no right"),
        ('topics = ["shops/#"]', 'topics = ["shops/#/x"]', r"access\.rules\[0\]\.topics"),
        ('folder = "data"', "", r"storage\.folder: durability 'disk' needs a folder"),
        ("[bounds]", "[bound]", r"bound: unknown table; did you mean 'bounds'"),
        ("receive_maximum = 20", "recieve_maximum = 20", r"mqtt\.recieve_maximum: unknown field"),
    ],
)
def test_a_mistake_is_named_with_its_place(before: str, after: str, message: str) -> None:
    assert before in NETWORK
    with pytest.raises(ConfigError, match=message):
        parse_network(NETWORK.replace(before, after), "shops.toml")


def test_an_unknown_broker_is_named() -> None:
    with pytest.raises(ConfigError, match="no broker 'nort'; did you mean 'north'"):
        parse_network(NETWORK).server_options("nort")


def test_a_local_network_is_a_valid_one() -> None:
    network = parse_network(local_network(3, scheme="standard", durability="memory", records=Path("r")))

    assert sorted(network.brokers) == ["b1", "b2", "b3"]
    assert len(network.links) == 3
    ports = [listener.port for broker in network.brokers.values() for listener in broker.listeners]
    assert len(set(ports)) == 6


# --- passwords -----------------------------------------------------------------------------------------------------


def test_a_hash_fits_its_password_alone() -> None:
    assert verify_password(b"sesame", HASH)
    assert not verify_password(b"sesame ", HASH)
    assert hash_password(b"sesame") != HASH


def test_who_was_right_is_remembered_and_who_does_not_exist_is_not_right() -> None:
    users = Users({"ann": HASH})

    assert not users.remembers("ann", b"sesame")
    assert users.verify("ann", b"sesame")
    users.remember("ann", b"sesame")
    assert users.remembers("ann", b"sesame")
    assert not users.remembers("bob", b"sesame")
    assert not users.verify("bob", b"sesame")
    assert not users.verify("ann", b"simsim")
    assert b"sesame" not in repr(vars(users)).encode()


PLACES = """
[network]
name = "city"
scheme = "prehandoff"
secret = "0123456789abcdef"
{options}

[storage]
durability = "memory"

[brokers.north]
link_port = 7001
position = [48.20, 16.37]

[brokers.south]
link_port = 7002
{south}
"""


def test_positions_of_brokers_are_the_areas_of_a_scheme_that_takes_areas() -> None:
    network = parse_network(PLACES.format(options="", south="position = [48.10, 16.37]"))

    areas = network.settings("north").scheme_options["areas"]

    assert areas == {"north": (48.20, 16.37), "south": (48.10, 16.37)}


def test_areas_that_the_scheme_is_given_are_kept() -> None:
    given = "options = { areas = { north = [1.0, 2.0], south = [3.0, 4.0] } }"
    network = parse_network(PLACES.format(options=given, south="position = [48.10, 16.37]"))

    assert network.settings("north").scheme_options["areas"] == {"north": [1.0, 2.0], "south": [3.0, 4.0]}


def test_a_position_that_is_missing_is_named() -> None:
    with pytest.raises(ConfigError, match=r"brokers.south.position: other brokers have one"):
        parse_network(PLACES.format(options="", south=""))


def square(broker: str, west: float, south: float) -> dict[str, object]:
    east, north = west + 0.05, south + 0.05
    ring = [[west, south], [east, south], [east, north], [west, north], [west, south]]
    polygon = {"type": "Polygon", "coordinates": [ring]}
    return {"type": "Feature", "properties": {"broker": broker}, "geometry": polygon}


def drawn(folder: Path, *features: object) -> NetworkConfig:
    (folder / "areas.geojson").write_text(json.dumps({"type": "FeatureCollection", "features": features}))
    options = 'options = { polygons = "areas.geojson", resolution = 8 }'
    return parse_network(PLACES.format(options=options, south="position = [48.10, 16.37]"), folder=folder)


def test_areas_may_be_drawn_as_polygons_in_a_geojson_file(tmp_path: Path) -> None:
    network = drawn(tmp_path, square("north", 16.30, 48.20), square("south", 16.30, 48.15))

    options = network.settings("north").scheme_options
    parsed = PreHandoffOptions.parse(options)

    assert isinstance(parsed, PreHandoffOptions)
    assert "areas" not in options
    assert areas_of(parsed).neighbors(BrokerId("north")) == ("south",)


@pytest.mark.parametrize(
    ("features", "reason"),
    [
        ([square("north", 16.3, 48.2), square("west", 16.3, 48.1)], "an area of 'west', and no broker"),
        ([{"type": "Feature"}], "features have a property 'broker'"),
        ([], "no areas"),
        (
            [{**square("north", 16.3, 48.2), "geometry": {"type": "Polygon", "coordinates": [[1]]}}],
            "cannot be read",
        ),
    ],
)
def test_polygons_that_make_no_areas_are_refused(tmp_path: Path, features: list[object], reason: str) -> None:
    with pytest.raises(ConfigError, match=reason):
        drawn(tmp_path, *features).settings("north")


def test_streets_are_not_promised_where_there_are_none() -> None:
    given = 'options = { choose = "ahead" }'
    with pytest.raises(ConfigError, match="goes by streets, and these areas have none; use 'cone'"):
        parse_network(PLACES.format(options=given, south="position = [48.10, 16.37]"))
