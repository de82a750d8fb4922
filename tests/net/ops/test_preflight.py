"""`roamq serve --check` and `roamq keys`: what an operator is told before a broker starts."""

from pathlib import Path

import pytest
from cryptography import x509

from roamq.core.errors import ConfigError
from roamq.net.clients.passwords import hash_password
from roamq.net.durable.inputs import LiveBroker
from roamq.net.durable.journal import Journal
from roamq.net.durable.snapshot import write
from roamq.net.ops.configuration import load_network, parse_network
from roamq.net.ops.keys import make_keys
from roamq.net.ops.preflight import problems

HASH = hash_password(b"sesame", salt=bytes(16))
NETWORK = """
[network]
keys = "keys"

[storage]
folder = "data"

[brokers.north]
host = "10.0.0.1"
link_port = 7001
metrics_port = 9001
reference = "north.example:8883"
listeners = [
  { kind = "mqtt", host = "0.0.0.0", port = 1883 },
  { kind = "mqtts", host = "0.0.0.0", port = 8883, certificate = "keys/north.pem", key = "keys/north.key" },
]

[brokers.south]
host = "10.0.0.2"
link_port = 7001
listeners = [{ kind = "mqtt", port = 1883 }]
"""


def names_in(path: Path) -> list[str]:
    certificate = x509.load_pem_x509_certificate(path.read_bytes())
    names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    return [str(name.value) for name in names]


def test_keys_are_made_for_listeners_that_name_them_and_for_one_more_site(tmp_path: Path) -> None:
    path = tmp_path / "network.toml"
    path.write_text(NETWORK)
    with pytest.raises(
        ConfigError, match=r"line 15: .*north.pem is not there; `roamq keys` makes such files"
    ):
        load_network(path).server_options("north")
    assert load_network(path).server_options("south").listeners, "each host needs the files of its own broker"

    made = make_keys(load_network(path, files_exist=False), tmp_path / "keys")
    assert len(made) == 6
    before = (tmp_path / "keys" / "north.pem").read_bytes()
    path.write_text(NETWORK.replace("keys/north", "keys/west").replace("brokers.north", "brokers.west"))
    more = make_keys(load_network(path, files_exist=False), tmp_path / "keys")

    assert [file.name for file in more] == ["west.pem", "west.key"]
    assert (tmp_path / "keys" / "north.pem").read_bytes() == before


@pytest.mark.parametrize(
    ("reference", "name"),
    [
        ("north.example:8883", "north.example"),
        ("north.example", "north.example"),
        ("10.1.2.3:8883", "10.1.2.3"),
        ("[fd00::7]:8883", "fd00::7"),
    ],
)
def test_a_certificate_covers_the_name_that_clients_are_told(
    tmp_path: Path, reference: str, name: str
) -> None:
    path = tmp_path / "network.toml"
    path.write_text(NETWORK.replace("north.example:8883", reference))

    make_keys(load_network(path, files_exist=False), tmp_path / "keys")

    assert names_in(tmp_path / "keys" / "north.pem") == ["north", "10.0.0.1", name]
    assert names_in(tmp_path / "keys" / "south.pem") == ["south", "10.0.0.2"]


@pytest.mark.parametrize(
    ("south", "complaint"),
    [
        ("link_port = 7001", "line 8: brokers.south.link_port: 7001 is the port of brokers.north.link_port"),
        ("link_port = 7002\nmetrics_port = 9001", "line 9: brokers.south.metrics_port: 9001 is the port of"),
        (
            "link_port = 7002\nlisteners = [\n  { port = 1884 },\n  { port = 9001 },\n]",
            r"line 11: brokers.south.listeners\[1\].port: 9001 is the port of brokers.north.metrics_port",
        ),
        ('link_port = 7002\nlisteners = [{ host = "0.0.0.0", port = 7001 }]', "7001 is the port of"),
    ],
)
def test_a_port_that_two_of_one_machine_want_is_a_mistake(south: str, complaint: str) -> None:
    north = "[brokers.north]\nlink_port = 7001\nmetrics_port = 9001\n"
    text = f'[network]\nsecret = "0123456789abcdef"\nname = "x"\n{north}[brokers.south]\n{south}'
    extra = "\n[storage]\ndurability = 'memory'\n"
    with pytest.raises(ConfigError, match=complaint):
        parse_network(text + extra)


def test_brokers_on_other_hosts_may_use_the_same_ports(tmp_path: Path) -> None:
    (tmp_path / "network.toml").write_text(NETWORK)
    assert load_network(tmp_path / "network.toml", files_exist=False).brokers.keys() == {"north", "south"}


def test_a_rule_for_an_unknown_user_is_named_with_its_line(tmp_path: Path) -> None:
    path = tmp_path / "network.toml"
    path.write_text(
        f"""[access.users]
ann = "{HASH}"
[[access.rules]]
user = "ann"
[[access.rules]]
may = ["publish"]
user = "anne"
[storage]
folder = "data"
[brokers.b1]
"""
    )
    (told,) = problems(load_network(path), "b1")
    assert told == (
        f"{path}, line 7: access.rules[1].user: 'anne' is not in [access.users]; did you mean 'ann'?"
    )


def test_a_rule_may_be_for_a_user_whom_a_certificate_names(tmp_path: Path) -> None:
    certified = 'client_ca = "keys/ca.pem", certificate_user = "common-name"'
    text = NETWORK.replace('key = "keys/north.key"', f'key = "keys/north.key", {certified}')
    path = tmp_path / "network.toml"
    path.write_text(f'{text}[[access.rules]]\nuser = "ann"\n')
    make_keys(load_network(path, files_exist=False), tmp_path / "keys")

    assert problems(load_network(path), "north") == []


def test_missing_keys_and_a_folder_of_another_network_are_told(tmp_path: Path) -> None:
    path = tmp_path / "network.toml"
    path.write_text(NETWORK)
    network = load_network(path, files_exist=False)
    assert [line.partition(": ")[0] for line in problems(network, "south")] == ["network.keys"] * 3

    make_keys(network, tmp_path / "keys")
    assert problems(network, "south") == []
    folder = tmp_path / "data" / "south"
    folder.mkdir(parents=True)
    write(LiveBroker(network.settings("south"), 1.0), folder, 1)
    Journal(folder, 1).close()
    assert problems(network, "south") == []

    path.write_text(NETWORK.replace('keys = "keys"', 'keys = "keys"\nscheme = "standard"'))
    assert problems(load_network(path), "south") == []

    path.write_text(NETWORK.replace('keys = "keys"', 'keys = "keys"\nscheme = "home-broker"'))
    (told,) = problems(load_network(path), "south")
    assert told.startswith("storage.folder: network.scheme: 'home-broker' keeps a context at home")
    assert "holds sessions under 'proactive'" in told

    path.write_text(NETWORK.replace('keys = "keys"', 'keys = "keys"\noverlay = "flooding"'))
    (told,) = problems(load_network(path), "south")
    assert told.startswith("storage.folder: network.overlay: is 'flooding', but")


def test_a_folder_that_cannot_be_made_is_told(tmp_path: Path) -> None:
    path = tmp_path / "network.toml"
    path.write_text('[storage]\nfolder = "file/data"\n[records]\nfolder = "file/records"\n[brokers.b1]\n')
    (tmp_path / "file").touch()

    fields = [line.partition(": ")[0] for line in problems(load_network(path), "b1")]

    assert fields == ["storage.folder", "records.folder"]
