"""Users by certificate: over TLS, with an authority of the test's own."""

import asyncio
import datetime
import ssl
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from roamq.core.errors import ConfigError
from roamq.net.clients.certificates import user_of
from roamq.net.clients.mqtt.codec import Connack, Connect, Decoder, Properties, ReasonCode, Version, encode
from roamq.net.ops.local import free_ports
from roamq.net.ops.options import CertificateName
from tests.net.live import port_of, running, write_network
from tests.support.waiting import WAIT_S

NOW = datetime.datetime.now(datetime.UTC)


class Authority:
    """Makes certificates in a folder."""

    def __init__(self, folder: Path, name: str = "ca") -> None:
        self.folder = folder
        self.key = ec.generate_private_key(ec.SECP256R1())
        self.name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        certificate = self._builder(self.name, self.key).add_extension(
            x509.BasicConstraints(ca=True, path_length=0), critical=True
        )
        self.path = self._write(name, certificate, self.key)

    def certify(
        self, file: str, *common_names: str, dns: tuple[str, ...] = (), days: tuple[int, int] = (-1, 1)
    ) -> Path:
        """`days`: from when and until when it is valid, from today on."""
        key = ec.generate_private_key(ec.SECP256R1())
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name) for name in common_names])
        builder = self._builder(subject, key, days)
        if dns:
            names = x509.SubjectAlternativeName([x509.DNSName(name) for name in dns])
            builder = builder.add_extension(names, critical=False)
        return self._write(file, builder, key)

    def _builder(
        self, subject: x509.Name, key: ec.EllipticCurvePrivateKey, days: tuple[int, int] = (-1, 1)
    ) -> x509.CertificateBuilder:
        return (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(self.name)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(NOW + datetime.timedelta(days=days[0]))
            .not_valid_after(NOW + datetime.timedelta(days=days[1]))
        )

    def _write(self, file: str, builder: x509.CertificateBuilder, key: ec.EllipticCurvePrivateKey) -> Path:
        certificate = builder.sign(self.key, hashes.SHA256())
        pem = serialization.Encoding.PEM
        path = self.folder / f"{file}.pem"
        path.write_bytes(certificate.public_bytes(pem))
        plain = serialization.NoEncryption()
        (self.folder / f"{file}.key").write_bytes(
            key.private_bytes(pem, serialization.PrivateFormat.PKCS8, plain)
        )
        return path


async def answer_to(
    port: int, authority: Path, certificate: Path | None, connect: Connect
) -> ReasonCode | None:
    """The broker's CONNACK, or None if TLS lets nobody in."""
    context = ssl.create_default_context(cafile=str(authority))
    if certificate is not None:
        context.load_cert_chain(certificate, certificate.with_suffix(".key"))
    try:
        async with asyncio.timeout(WAIT_S):
            reader, writer = await asyncio.open_connection(
                "127.0.0.1", port, ssl=context, server_hostname="broker"
            )
            writer.write(encode(connect, Version.V5))
            data = await reader.read(1000)
    except OSError:
        return None
    writer.transport.abort()
    packets = Decoder(Version.V5).feed(data)
    return packets[0].reason if packets and isinstance(packets[0], Connack) else None


LISTENER = (
    'kind = "mqtts", port = {port}, certificate = "broker.pem", key = "broker.key", '
    'client_ca = "ca.pem", certificate_user = "{rule}"'
)
NETWORK = f"""
[storage]
durability = "memory"
[access]
anonymous = "always"
[brokers.b1]
listeners = [{{{{ {LISTENER} }}}}]
"""


@pytest.mark.live
def test_the_certificate_says_who_a_client_is(tmp_path: Path) -> None:
    ours = Authority(tmp_path)
    (tmp_path / "others").mkdir()
    others = Authority(tmp_path / "others")
    ours.certify("broker", "broker", dns=("broker",))
    ann, bob = ours.certify("ann", "ann"), ours.certify("bob", "bob")
    both, nameless = ours.certify("both", "ann", "bob"), ours.certify("anonymous", "anonymous")
    forged = others.certify("ann", "ann")
    expired = ours.certify("expired", "ann", days=(-3, -2))
    early = ours.certify("early", "ann", days=(2, 3))
    unnamed = ours.certify("unnamed", dns=("ann",))

    async def scenario() -> None:
        network = write_network(tmp_path, NETWORK.format(port=free_ports(1)[0], rule="common-name"))
        port = port_of(network, "b1", "mqtts")
        refused = ReasonCode.BAD_USER_NAME_OR_PASSWORD
        async with running(network):

            async def connect(
                certificate: Path | None, client: str, user: str | None = None
            ) -> ReasonCode | None:
                lasting = Properties(session_expiry_interval=1000)
                asked = Connect(
                    client_id=client, clean_start=False, user_name=user, password=b"any", properties=lasting
                )
                return await answer_to(port, ours.path, certificate, asked)

            assert await connect(ann, "phone") is ReasonCode.SUCCESS
            assert await connect(ann, "phone", "ann") is ReasonCode.SUCCESS
            assert await connect(ann, "other", "bob") is refused, "her certificate does not make her bob"
            assert await connect(bob, "bobs") is ReasonCode.SUCCESS
            assert await connect(both, "x") is refused
            assert await connect(nameless, "x") is refused
            assert await connect(unnamed, "x") is refused, "it has a name, but not where the rule looks"
            assert await connect(bob, "phone") is ReasonCode.NOT_AUTHORIZED, "the session is ann's"
            for certificate in (expired, early):
                assert await connect(certificate, "x") is None
            assert await connect(forged, "x") is None
            assert await connect(None, "x") is None

    asyncio.run(scenario())


@pytest.mark.parametrize(
    ("rule", "user"),
    [
        (CertificateName.COMMON_NAME, "ann"),
        (CertificateName.DNS, "ann.example"),
        (CertificateName.EMAIL, "ann@example"),
        (CertificateName.URI, "urn:ann"),
    ],
)
def test_each_rule_takes_its_own_name(rule: CertificateName, user: str) -> None:
    certificate = {
        "subject": ((("organizationName", "x"),), (("commonName", "ann"),)),
        "subjectAltName": (("DNS", "ann.example"), ("email", "ann@example"), ("URI", "urn:ann")),
    }
    twice = {
        "subject": ((("commonName", "ann"),), (("commonName", "bob"),)),
        "subjectAltName": certificate["subjectAltName"] * 2,
    }

    assert user_of(certificate, rule) == user
    assert user_of(twice, rule) is None
    assert user_of({}, rule) is None
    assert user_of(None, rule) is None


def test_a_rule_without_an_authority_is_an_error(tmp_path: Path) -> None:
    Authority(tmp_path).certify("broker", "broker")
    text = NETWORK.format(port=1, rule="dns").replace('client_ca = "ca.pem", ', "")

    with pytest.raises(ConfigError, match="certificate_user: only certificates of `client_ca`"):
        write_network(tmp_path, text)
