"""Keys of a network: what certificates cover, and where the authority's key lies."""

import stat
from pathlib import Path

import pytest
from click.testing import CliRunner
from cryptography import x509

from roamq.cli.main import cli
from roamq.core.errors import ConfigError
from roamq.net.ops.configuration import parse_network
from roamq.net.ops.keys import host_of, make_keys

NETWORK = """
[network]
keys = "keys"
[storage]
durability = "memory"
[brokers.north]
host = "10.0.0.1"
link_port = 7001
reference = "north.example:8883"
[brokers.south]
host = "south.internal"
link_port = 7001
reference = "[2001:db8::7]:8883"
"""


def names_in(path: Path) -> set[str]:
    certificate = x509.load_pem_x509_certificate(path.read_bytes())
    names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    return {str(name.value) for name in names}


def test_a_certificate_covers_the_name_that_clients_are_told(tmp_path: Path) -> None:
    make_keys(parse_network(NETWORK), tmp_path / "keys")

    assert names_in(tmp_path / "keys" / "north.pem") == {"north", "10.0.0.1", "north.example"}
    assert names_in(tmp_path / "keys" / "south.pem") == {"south", "south.internal", "2001:db8::7"}


def test_the_authoritys_key_lies_apart(tmp_path: Path) -> None:
    folder = tmp_path / "keys"
    written = make_keys(parse_network(NETWORK), folder)

    assert not (folder / "ca.key").exists()
    key = tmp_path / "keys-authority" / "ca.key"
    assert key in written
    assert stat.S_IMODE(key.stat().st_mode) == 0o600
    assert make_keys(parse_network(NETWORK), folder) == []
    (folder / "ca.key").write_bytes(key.read_bytes())
    with pytest.raises(ConfigError, match="does not belong beside the brokers' keys"):
        make_keys(parse_network(NETWORK), folder)


def test_the_authority_is_found_where_init_puts_it_and_needed_for_what_is_missing_alone(
    tmp_path: Path,
) -> None:
    folder, kept = tmp_path / "net" / "keys", tmp_path / "net-authority"
    make_keys(parse_network(NETWORK), folder, kept)
    assert make_keys(parse_network(NETWORK), folder) == []
    (folder / "south.pem").unlink()
    assert make_keys(parse_network(NETWORK), folder, brokers=["north"]) == []
    assert [path.name for path in make_keys(parse_network(NETWORK), folder)] == ["south.pem", "south.key"]

    away = kept.rename(tmp_path / "safe")
    assert make_keys(parse_network(NETWORK), folder) == []
    (folder / "south.key").unlink()
    with pytest.raises(ConfigError, match=r"ca\.key: is not there, .* name its folder with --authority"):
        make_keys(parse_network(NETWORK), folder)
    assert not kept.exists() and not folder.with_name("keys-authority").exists()
    assert len(make_keys(parse_network(NETWORK), folder, away)) == 2


def test_the_key_of_another_authority_makes_no_certificate(tmp_path: Path) -> None:
    make_keys(parse_network(NETWORK), tmp_path / "a" / "keys")
    make_keys(parse_network(NETWORK), tmp_path / "b" / "keys")
    (tmp_path / "a" / "keys" / "north.pem").unlink()
    with pytest.raises(ConfigError, match=r"ca\.key: is not the key of .*ca\.pem"):
        make_keys(parse_network(NETWORK), tmp_path / "a" / "keys", tmp_path / "b" / "keys-authority")


def test_the_command_writes_where_the_network_looks(tmp_path: Path) -> None:
    config = tmp_path / "network.toml"
    config.write_text(NETWORK)
    made = CliRunner().invoke(cli, ["keys", str(config)])
    assert made.exit_code == 0 and (tmp_path / "keys" / "north.pem").exists(), made.output
    config.write_text(
        NETWORK.replace('keys = "keys"', 'secret = "0123456789abcdef"').replace("10.0.0.1", "::1")
    )
    config.write_text(config.read_text().replace("south.internal", "127.0.0.1"))
    refused = CliRunner().invoke(cli, ["keys", str(config)])
    assert (
        refused.exit_code == 2
        and "network.keys: names no folder; name it there, or by --out" in refused.output
    )


@pytest.mark.parametrize(
    ("reference", "host"),
    [("a.example:1883", "a.example"), ("a.example", "a.example"), ("[::1]:1", "::1"), ("::1", "::1")],
)
def test_the_host_of_a_reference(reference: str, host: str) -> None:
    assert host_of(reference) == host
