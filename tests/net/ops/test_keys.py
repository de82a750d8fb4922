"""Keys of a network: what certificates cover, and where the authority's key lies."""

import stat
from pathlib import Path

import pytest
from cryptography import x509

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


@pytest.mark.parametrize(
    ("reference", "host"),
    [("a.example:1883", "a.example"), ("a.example", "a.example"), ("[::1]:1", "::1"), ("::1", "::1")],
)
def test_the_host_of_a_reference(reference: str, host: str) -> None:
    assert host_of(reference) == host
