"""Users by certificate: over TLS, with an authority of the test's own."""

import asyncio
import datetime
import logging
import socket
import ssl
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtensionOID, NameOID

from roamq.core.errors import ConfigError
from roamq.net.clients.certificates import user_of
from roamq.net.clients.mqtt.codec import (
    Connack,
    Connect,
    Decoder,
    Disconnect,
    Properties,
    ReasonCode,
    Version,
    encode,
)
from roamq.net.ops.local import free_ports
from roamq.net.ops.options import CertificateName
from tests.net.live import port_of, running, write_network
from tests.support.waiting import WAIT_S

NOW = datetime.datetime.now(datetime.UTC)
SOONER_THAN_ASYNCIO_S = 30.0
"""By itself, an event loop gives up a TLS handshake after a minute."""


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
        self,
        file: str,
        *common_names: str,
        dns: tuple[str, ...] = (),
        days: tuple[float, float] = (-1, 1),
        alternative: bytes = b"",
    ) -> Path:
        """`days`: from when and until when it is valid, from today on. `alternative`: names as they are, in DER."""
        key = ec.generate_private_key(ec.SECP256R1())
        subject = x509.Name(
            [x509.NameAttribute(NameOID.COMMON_NAME, name, _validate=False) for name in common_names]
        )
        builder = self._builder(subject, key, days)
        if alternative:
            names = x509.UnrecognizedExtension(ExtensionOID.SUBJECT_ALTERNATIVE_NAME, alternative)
            builder = builder.add_extension(names, critical=False)
        if dns:
            given = x509.SubjectAlternativeName([x509.DNSName(name) for name in dns])
            builder = builder.add_extension(given, critical=False)
        return self._write(file, builder, key)

    def _builder(
        self, subject: x509.Name, key: ec.EllipticCurvePrivateKey, days: tuple[float, float] = (-1, 1)
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


def names_in_der(*names: tuple[int, bytes]) -> bytes:
    """Alternative names that no library would write: kind (1 for email, 2 for DNS, 6 for URI) and bytes, each."""
    body = b"".join(bytes((0x80 | kind, len(name))) + name for kind, name in names)
    return bytes((0x30, len(body))) + body


@pytest.mark.filterwarnings("ignore:Attribute's length")
@pytest.mark.live
def test_odd_names_are_nobodys(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Names that look like another's, and bytes that are no text: nobody gets in, nothing fails, all are served."""
    caplog.set_level(logging.INFO)
    ours = Authority(tmp_path)
    ours.certify("broker", "broker", dns=("broker",))
    odd = ["", "ann\0bob", "ann\nbob", "\u202enna", "\xa0ann", "a" * 300, "*", "anonymous"]
    alternatives = [
        names_in_der((2, b"ann\0.example")),
        names_in_der((2, b"")),
        names_in_der((2, b"ann"), (2, b"bob")),
        names_in_der((2, b"ann"), (2, b"ann")),
        names_in_der((1, b"ann")),
        names_in_der((2, b"\xff\xfe")),
        names_in_der((7, b"\x01\x02\x03")),
    ]
    by_name = [ours.certify(f"name{number}", name) for number, name in enumerate(odd)]
    by_dns = [ours.certify(f"dns{number}", alternative=der) for number, der in enumerate(alternatives)]
    comma = ours.certify("comma", "ann,CN=bob/UID=+#")
    ann = ours.certify("ann", "ann", dns=("ann.example",))
    ports = free_ports(2)
    listeners = ", ".join(
        f"{{ {LISTENER.format(port=port, rule=rule)} }}"
        for port, rule in zip(ports, ("common-name", "dns"), strict=True)
    )
    text = NETWORK.replace(f"{{{{ {LISTENER} }}}}", listeners)

    async def scenario() -> None:
        async with running(write_network(tmp_path, text)) as servers:

            async def connect(port: int, certificate: Path) -> ReasonCode | None:
                return await answer_to(port, ours.path, certificate, Connect(client_id="c"))

            refused = (ReasonCode.BAD_USER_NAME_OR_PASSWORD, None)
            for port, certificates in zip(ports, (by_name, by_dns), strict=True):
                for certificate in certificates:
                    assert await connect(port, certificate) in refused, certificate.name
                assert await connect(port, ann) is ReasonCode.SUCCESS
            assert await connect(ports[0], comma) is ReasonCode.SUCCESS, "a name like any other"
            assert servers["b1"].shell.counts["fault"] == 0

    asyncio.run(scenario())
    assert "it names no user" in caplog.text
    assert "a TLS handshake failed" in caplog.text and "Traceback" not in caplog.text


@pytest.mark.live
def test_a_certificate_that_ends_takes_its_client_along(tmp_path: Path) -> None:
    """While it is connected, and when it resumes the TLS session of its first connection."""
    ours = Authority(tmp_path)
    ours.certify("broker", "broker", dns=("broker",))
    tls = ssl.create_default_context(cafile=str(ours.path))

    def connect(port: int, session: ssl.SSLSession | None) -> tuple[ssl.SSLSocket, ReasonCode]:
        raw = socket.create_connection(("127.0.0.1", port), WAIT_S)
        line = tls.wrap_socket(raw, server_hostname="broker", session=session)
        line.sendall(encode(Connect(client_id="c"), Version.V5))
        (connack,) = Decoder(Version.V5).feed(line.recv(1000))
        assert isinstance(connack, Connack)
        return line, connack.reason

    def play(port: int) -> None:
        ends_at = datetime.datetime.now(datetime.UTC) + datetime.timedelta(seconds=4)
        ann = ours.certify("ann", "ann", days=(-1, (ends_at - NOW).total_seconds() / 86_400))
        tls.load_cert_chain(ann, ann.with_suffix(".key"))
        line, reason = connect(port, None)
        assert reason is ReasonCode.SUCCESS
        again, reason = connect(port, line.session)
        assert again.session_reused and reason is ReasonCode.SUCCESS
        (told,) = Decoder(Version.V5).feed(again.recv(1000))
        assert isinstance(told, Disconnect) and told.reason is ReasonCode.MAXIMUM_CONNECT_TIME
        assert datetime.datetime.now(datetime.UTC) >= ends_at - datetime.timedelta(seconds=1)
        late, reason = connect(port, again.session)
        assert late.session_reused, "TLS has not looked at the certificate again"
        assert reason is ReasonCode.BAD_USER_NAME_OR_PASSWORD
        for one in (line, again, late):
            one.close()

    async def scenario() -> None:
        network = write_network(tmp_path, NETWORK.format(port=free_ports(1)[0], rule="common-name"))
        async with running(network):
            await asyncio.to_thread(play, port_of(network, "b1", "mqtts"))

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


@pytest.mark.live
def test_a_stranger_without_a_word_of_tls_is_sent_away(tmp_path: Path) -> None:
    """It has no connection yet that a bound could count: its socket is closed as soon as that of a silent client."""
    ours = Authority(tmp_path)
    ours.certify("broker", "broker", dns=("broker",))
    bounds = "\n[bounds]\nconnect_timeout_s = 0.5\n"

    async def scenario() -> None:
        text = NETWORK.format(port=free_ports(1)[0], rule="common-name") + bounds
        network = write_network(tmp_path, text)
        async with running(network):
            reader, writer = await asyncio.open_connection("127.0.0.1", port_of(network, "b1", "mqtts"))
            async with asyncio.timeout(SOONER_THAN_ASYNCIO_S):
                assert await reader.read(1) == b""
            writer.close()

    asyncio.run(scenario())
