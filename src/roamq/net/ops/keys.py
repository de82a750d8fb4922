"""Keys of a network: an authority of its own, and a certificate from that authority for each broker.

A broker's certificate carries the broker's name, which the link compares with the name in HELLO, its host, and the
host of the `reference` that clients are told, so that clients may use it for TLS as well.
"""

import datetime
import ipaddress
import os
from collections.abc import Collection
from pathlib import Path
from typing import Final

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from roamq.core.errors import ConfigError
from roamq.net.ops.addresses import is_loopback
from roamq.net.ops.configuration import NetworkConfig

AUTHORITY_DAYS: Final = 3650
BROKER_DAYS: Final = 825
SKEW: Final = datetime.timedelta(minutes=5)
"""Tolerance for the clocks of other hosts, which may be behind."""


def make_keys(
    network: NetworkConfig,
    folder: Path,
    authority_folder: Path | None = None,
    brokers: Collection[str] | None = None,
) -> list[Path]:
    """Writes ca.pem and NAME.pem, NAME.key for every broker, or for `brokers`; and ca.key apart. Overwrites nothing.

    With ca.key in its folder the authority is used again: a new broker gets its certificate, the others keep theirs. A
    person who has ca.key can make brokers, so it lies in a folder of its own, which no broker needs.
    """
    missing = [
        name
        for name in network.brokers
        if (brokers is None or name in brokers)
        and not ((folder / f"{name}.pem").exists() and (folder / f"{name}.key").exists())
    ]
    misplaced, authority_folder = folder / "ca.key", authority_folder or authority_of(folder)
    if misplaced.exists():
        raise ConfigError(
            f"{misplaced}: does not belong beside the brokers' keys; move it to {authority_folder / 'ca.key'}"
        )
    if (folder / "ca.pem").exists() and not missing:
        return []
    authority, key, written = _old_or_new_authority(network.network.name, folder, authority_folder)
    for name in missing:
        table = network.brokers[name]
        certificate_file, key_file = folder / f"{name}.pem", folder / f"{name}.key"
        broker_key = ec.generate_private_key(ec.SECP256R1())
        hosts = [table.host, *([host_of(table.reference)] if table.reference else [])]
        certificate = _certificate(name, hosts, broker_key, authority, key)
        _write(key_file, _pem(broker_key), 0o600)
        _write(certificate_file, certificate.public_bytes(serialization.Encoding.PEM), 0o644)
        written += [certificate_file, key_file]
    return written


def authority_of(folder: Path) -> Path:
    """Returns the folder of ca.key: beside that of the keys, or beside that of the network, where `init` puts it."""
    beside = [
        one.with_name(f"{one.name}-authority") for one in (folder, folder.absolute().parent) if one.name
    ]
    return next((one for one in beside if (one / "ca.key").exists()), beside[0])


def _old_or_new_authority(
    network: str, folder: Path, authority_folder: Path
) -> tuple[x509.Certificate, ec.EllipticCurvePrivateKey, list[Path]]:
    """Returns the authority's certificate and key, and the files that were made for them now."""
    authority_file, key_file = folder / "ca.pem", authority_folder / "ca.key"
    if authority_file.exists() and key_file.exists():
        authority = x509.load_pem_x509_certificate(authority_file.read_bytes())
        old = serialization.load_pem_private_key(key_file.read_bytes(), None)
        if not isinstance(old, ec.EllipticCurvePrivateKey):
            raise ConfigError(f"{key_file}: is not a key that this command made")
        if old.public_key() != authority.public_key():
            raise ConfigError(f"{key_file}: is not the key of {authority_file}")
        return authority, old, []
    if authority_file.exists():
        raise ConfigError(
            f"{key_file}: is not there, and {authority_file} was made with it; bring it, or name its folder with "
            "--authority"
        )
    if key_file.exists():
        raise ConfigError(f"{authority_file}: is not there, and belongs to {key_file}; bring it")
    for made in (folder, authority_folder):
        made.mkdir(mode=0o700, parents=True, exist_ok=True)
    key = ec.generate_private_key(ec.SECP256R1())
    authority = _authority(network, key)
    _write(key_file, _pem(key), 0o600)
    _write(authority_file, authority.public_bytes(serialization.Encoding.PEM), 0o644)
    return authority, key, [authority_file, key_file]


def host_of(reference: str) -> str:
    """Returns the host of a `host`, `host:port` or `[address]:port`."""
    if reference.startswith("["):
        return reference[1:].partition("]")[0]
    return reference.rpartition(":")[0] if reference.count(":") == 1 else reference


def _authority(network: str, key: ec.EllipticCurvePrivateKey) -> x509.Certificate:
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, f"RoamQ network {network}"[:64])])
    usage = x509.KeyUsage(
        digital_signature=True,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=True,
        crl_sign=True,
        encipher_only=False,
        decipher_only=False,
    )
    return (
        _builder(name, name, key.public_key(), AUTHORITY_DAYS)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(usage, critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .sign(key, hashes.SHA256())
    )


def _certificate(
    broker: str,
    hosts: list[str],
    key: ec.EllipticCurvePrivateKey,
    authority: x509.Certificate,
    authority_key: ec.EllipticCurvePrivateKey,
) -> x509.Certificate:
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, broker[:64])])
    names: list[x509.GeneralName] = [x509.DNSName(broker)]  # the broker's name comes first
    if any(is_loopback(host) for host in hosts):
        hosts = [*hosts, "localhost"]  # what clients on the same machine use
    for host in dict.fromkeys(hosts):
        try:
            names.append(x509.IPAddress(ipaddress.ip_address(host)))
        except ValueError:
            names.append(x509.DNSName(host))
    uses = [ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]
    return (
        _builder(subject, authority.subject, key.public_key(), BROKER_DAYS)
        .add_extension(x509.SubjectAlternativeName(names), critical=False)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(x509.ExtendedKeyUsage(uses), critical=False)
        .add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_public_key(authority_key.public_key()), critical=False
        )
        .sign(authority_key, hashes.SHA256())
    )


def _builder(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey, days: int
) -> x509.CertificateBuilder:
    now = datetime.datetime.now(datetime.UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - SKEW)
        .not_valid_after(now + datetime.timedelta(days=days))
    )


def _pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )


def _write(path: Path, data: bytes, mode: int) -> None:
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, mode), "wb") as file:
        file.write(data)
