"""Configuration: what is right becomes options, what is wrong is named with its place."""

from pathlib import Path

import pytest

from roamq.core.errors import ConfigError
from roamq.net.config import load_network, parse_network
from roamq.net.local import local_network
from roamq.net.options import Durability
from roamq.net.passwords import Users, hash_password, verify_password
from roamq.net.settings import Rule

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
