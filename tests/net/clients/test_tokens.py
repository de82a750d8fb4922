"""Users by token: every way in which a token may be wrong, and what it is good for while its client is connected."""

import asyncio
import base64
import hashlib
import hmac
import json
import logging
import time
from pathlib import Path
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa

from roamq.core.errors import ConfigError
from roamq.net.clients.access import Access, claims_asked
from roamq.net.clients.mqtt.codec import Properties, ReasonCode, Will
from roamq.net.clients.tokens import (
    KEYS_TRIED_MAX,
    TokenError,
    Tokens,
    TokenTable,
    read_tokens,
    without_token,
)
from roamq.net.ops.configuration import load_network
from roamq.net.ops.local import local_network
from roamq.net.ops.settings import AccessRules, Rule
from tests.net.live import PlainClient, machine_of, port_of, running, write_network
from tests.support.waiting import eventually

RSA = rsa.generate_private_key(65537, 2048)
EC = ec.generate_private_key(ec.SECP256R1())
ED = ed25519.Ed25519PrivateKey.generate()
SECRET = b"0123456789abcdef0123456789abcdef"
SIGNERS: dict[str, Any] = {"RS256": RSA, "PS512": RSA, "ES256": EC, "EdDSA": ED, "HS256": SECRET}


SHORT = b"""-----BEGIN PUBLIC KEY-----
MIGfMA0GCSqGSIb3DQEBAQUAA4GNADCBiQKBgQDD7VlD1Wy9WvOaB/RPDPDibQN3
u8BEPq9WBbquPXrEqHdRKA/ObY2OK6uwkbFuWsAOj8rZ19BAKmo46p0QlauB/Cm7
zf7lqHBHAuAYYKgxZcA4SudoFuhXmlqkp0TMELhD7xDAdZSD6TlntSE8uG7es+MJ
xZDsCqhf2qKjz1OT4QIDAQAB
-----END PUBLIC KEY-----
"""
"""Of 1024 bits."""


def pem(key: Any) -> bytes:
    form = serialization.PublicFormat.SubjectPublicKeyInfo
    found: bytes = key.public_key().public_bytes(serialization.Encoding.PEM, form)
    return found


def token(
    algorithm: str = "ES256", key: Any = None, headers: dict[str, Any] | None = None, **claims: Any
) -> bytes:
    said = {"sub": "ann", "exp": time.time() + 60, **claims}
    said = {name: value for name, value in said.items() if value is not None}
    made = jwt.encode(said, SIGNERS[algorithm] if key is None else key, algorithm, headers=headers)
    return made.encode()


def forged(header: dict[str, Any], claims: dict[str, Any], signature: bytes = b"") -> bytes:
    """A token put together by hand."""
    parts = [json.dumps(part).encode() for part in (header, claims)]
    return b".".join(base64.urlsafe_b64encode(part).rstrip(b"=") for part in [*parts, signature])


def tokens(folder: Path, claims: frozenset[str] = frozenset(), **table: Any) -> Tokens:
    for name, key in (("rsa", RSA), ("ec", EC), ("ed", ED)):
        (folder / f"{name}.pem").write_bytes(pem(key))
    (folder / "secret").write_bytes(SECRET + b"\n")
    table.setdefault("keys", ["rsa.pem", "ec.pem", "ed.pem"])
    table.setdefault("secret_file", "secret")
    return Tokens(read_tokens(TokenTable(**table), folder), claims)


@pytest.mark.parametrize("algorithm", SIGNERS)
def test_a_token_says_who_a_client_is(tmp_path: Path, algorithm: str) -> None:
    desk = tokens(tmp_path, frozenset({"tenant", "roles"}))

    found = desk.verify(token(algorithm, tenant="t1", roles=["a", "b"], other="x", exp=2e9), None)

    assert found.user == "ann"
    assert found.claims == (("roles", ("a", "b")), ("tenant", ("t1",))), "only what rules ask for is kept"
    assert found.expires_at == 2e9 + desk.options.leeway_s
    assert desk.verify(token(algorithm), "ann").user == "ann"
    assert desk.verify(token(algorithm), "").user == "ann"
    odd = desk.verify(token(algorithm, tenant="\ud800", roles=["a", "\udfff"]), None)
    assert odd.claims == (), "half a character fits no journal"


NEVER = {"sub": "ann", "exp": 2e9}
STRANGER = ec.generate_private_key(ec.SECP256R1())
WRONG: dict[str, bytes] = {
    "signed by a stranger": token(key=STRANGER),
    "no algorithm": forged({"alg": "none"}, NEVER),
    "no algorithm, in other letters": forged({"alg": "nOnE"}, NEVER),
    "unsigned": forged({"alg": "ES256"}, NEVER),
    "an algorithm of another key": forged({"alg": "ES512"}, NEVER, b"x" * 132),
    "expired": token(exp=time.time() - 60),
    "not yet": token(nbf=time.time() + 86_400, exp=time.time() + 90_000),
    "made in the future": token(iat=time.time() + 86_400, exp=time.time() + 90_000),
    "without an end": token(exp=None),
    "without a user": token(sub=None),
    "a user who stands for everybody": token(sub="*"),
    "a user who stands for nobody": token(sub="anonymous"),
    "a user with half a character": token(sub="\ud800"),
    "a user with a nought": token(sub="ann\0bob"),
    "a user in two lines": token(sub="ann\n"),
    "a user that is written backwards": token(sub="\u202enna"),
    "a user with a long name": token(sub="a" * 257),
    "a user that is no text": token("HS256", user=1, sub=None),
    "an end that is text": token(exp="2000000000"),
    "endless": forged({"alg": "ES256"}, {**NEVER, "exp": float("inf")}),
    "no object": token("HS256")[:3] + b"." + b"W10.AAAA",
    "an extension": token(headers={"crit": ["x"], "x": 1}),
    "a key of its own": forged({"alg": "ES256", "jwk": {"kty": "EC"}, "jku": "http://x"}, NEVER, b"x" * 64),
    "algorithms in a list": forged({"alg": ["ES256"]}, NEVER),
    "a key id that is no text": forged({"alg": "ES256", "kid": 1}, NEVER, b"x" * 64),
    "no token": b"secret",
    "bytes": b"\xff\xfe.\x00.",
    "dots": b"..",
    "nothing": b"",
    "deep": base64.urlsafe_b64encode(b"[" * 3000) + b".e30.",
    "too long": token("HS256", more="x" * 10_000),
}


@pytest.mark.parametrize("what", WRONG)
def test_a_wrong_token_lets_nobody_in(tmp_path: Path, what: str) -> None:
    with pytest.raises(TokenError) as error:
        tokens(tmp_path).verify(WRONG[what], None)

    assert len(str(error.value)) < 100
    assert "ann" not in str(error.value).replace("cannot", "")


@pytest.mark.parametrize("key", ["rsa", "ec", "ed"])
@pytest.mark.parametrize("algorithm", ["HS256", "HS512"])
def test_a_public_key_is_no_secret(tmp_path: Path, key: str, algorithm: str) -> None:
    """Algorithm confusion: everybody knows the public key, and signs with it as if it were a shared secret."""
    public = pem({"rsa": RSA, "ec": EC, "ed": ED}[key])
    header, claims = {"alg": algorithm}, dict(NEVER)
    unsigned = forged(header, claims)[:-1]
    for secret in (public, public.strip()):
        digest = hmac.new(
            secret, unsigned, {"HS256": hashlib.sha256, "HS512": hashlib.sha512}[algorithm]
        ).digest()
        made = unsigned + b"." + base64.urlsafe_b64encode(digest).rstrip(b"=")
        for desk in (tokens(tmp_path), tokens(tmp_path, secret_file=None)):
            with pytest.raises(TokenError):
                desk.verify(made, None)


def test_issuer_and_audience_are_looked_at(tmp_path: Path) -> None:
    desk = tokens(tmp_path, issuer="us", audience="shops")

    assert desk.verify(token(iss="us", aud=["x", "shops"]), None)
    for issuer, audience in ((None, "shops"), ("us", None), ("them", "shops"), ("us", "x")):
        with pytest.raises(TokenError):
            desk.verify(token(iss=issuer, aud=audience), None)


def test_another_user_name_is_refused(tmp_path: Path) -> None:
    with pytest.raises(TokenError, match="another's"):
        tokens(tmp_path).verify(token(), "bob")


def test_a_set_of_keys_is_told_apart_by_name_and_algorithm(tmp_path: Path) -> None:
    other = ec.generate_private_key(ec.SECP256R1())
    entries = [
        {**json.loads(jwt.algorithms.ECAlgorithm.to_jwk(key.public_key())), "kid": name}
        for name, key in (("one", EC), ("two", other))
    ]
    entries.append({**entries[1], "kid": "three", "alg": "ES512"})
    entries.append({**entries[1], "kid": "four", "use": "enc"})
    (tmp_path / "jwks.json").write_text(json.dumps({"keys": entries}))
    desk = Tokens(read_tokens(TokenTable(keys=["jwks.json"]), tmp_path))

    assert desk.verify(token(headers={"kid": "one"}), None)
    assert desk.verify(token(key=other, headers={"kid": "two"}), None)
    assert desk.verify(token(key=other), None), "without a name all are tried"
    for key, name in ((EC, "two"), (other, "one"), (other, "three"), (other, "four"), (other, "five")):
        with pytest.raises(TokenError):
            desk.verify(token(key=key, headers={"kid": name}), None)


def as_jwk(key: Any, name: str | None = None, **more: Any) -> dict[str, Any]:
    algorithms = {
        rsa.RSAPrivateKey: jwt.algorithms.RSAAlgorithm,
        ec.EllipticCurvePrivateKey: jwt.algorithms.ECAlgorithm,
    }
    kind = next(
        (found for base, found in algorithms.items() if isinstance(key, base)), jwt.algorithms.OKPAlgorithm
    )
    found: dict[str, Any] = json.loads(kind.to_jwk(key.public_key()))  # type: ignore[attr-defined]
    return found | ({} if name is None else {"kid": name}) | more


def test_the_key_that_a_token_names_is_found_among_many(tmp_path: Path) -> None:
    """Keys without a name, from PEM files, come before the set, and are more than are tried."""
    others = [ec.generate_private_key(ec.SECP256R1()) for _ in range(KEYS_TRIED_MAX)]
    for number, key in enumerate(others):
        (tmp_path / f"{number}.pem").write_bytes(pem(key))
    (tmp_path / "jwks.json").write_text(json.dumps({"keys": [as_jwk(EC, "ours"), as_jwk(RSA, "ours")]}))
    files = [f"{number}.pem" for number in range(len(others))]
    desk = Tokens(read_tokens(TokenTable(keys=[*files, "jwks.json"]), tmp_path))

    assert desk.verify(token(headers={"kid": "ours"}), None)
    assert desk.verify(token("RS256", headers={"kid": "ours"}), None), "two kinds of keys have one name"
    assert desk.verify(token(key=others[-1]), None)
    assert desk.verify(token(key=others[-1], headers={"kid": "unknown"}), None), "a PEM file has no name"
    with pytest.raises(TokenError, match="does not name its key"):
        desk.verify(token(), None)
    for signed in (token(key=STRANGER, headers={"kid": "ours"}), token("HS256", headers={"kid": "ours"})):
        with pytest.raises(TokenError):
            desk.verify(signed, None)


def test_a_set_may_hold_keys_of_kinds_that_are_unknown(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    unknown: list[dict[str, Any]] = [
        {"kty": "LMS", "kid": "later"},
        {"kty": "EC", "crv": "secp256k1", "x": "AA", "y": "AA"},
        {"kty": "OKP", "crv": "X25519", "x": "AA"},
    ]
    entries = [*unknown, as_jwk(EC, "one"), as_jwk(STRANGER, "two", key_ops=["sign"]), as_jwk(ED, "three")]
    (tmp_path / "jwks.json").write_text(json.dumps({"keys": entries}))
    (tmp_path / "unknown.json").write_text(json.dumps({"keys": unknown}))

    desk = Tokens(read_tokens(TokenTable(keys=["jwks.json"]), tmp_path))

    assert [key.name for key in desk.options.keys] == ["one", "three"]
    assert caplog.text.count("unknown kind") == len(unknown)
    assert "later" in caplog.text
    with pytest.raises(ConfigError, match="holds a key of an unknown kind"):
        read_tokens(TokenTable(keys=["unknown.json"]), tmp_path)


@pytest.mark.parametrize(
    ("content", "table", "said"),
    [
        (b"", {"keys": ["f"]}, r"keys\[0\]: .* holds no key that can be read"),
        (b"{}", {"keys": ["f"]}, r"keys\[0\]: .* holds a key of an unknown kind"),
        (b'{"keys": 1}', {"keys": ["f"]}, r"keys\[0\]: .* holds no key that can be read"),
        (b'{"keys": []}', {"keys": ["f"]}, "keys: name a file"),
        (b"short", {"secret_file": "f"}, "secret_file: .* fewer than 32 bytes"),
        (pem(RSA), {"secret_file": "f"}, "secret_file: .* holds a key, not a secret"),
        (SHORT, {"keys": ["f"]}, "fewer than 2048 bits"),
        (b"-----BEGIN PRIVATE KEY-----", {"keys": ["f"]}, "holds a private key"),
        (pem(EC), {"keys": ["f"], "algorithms": ["RS256"]}, "algorithms: no key suits any of them"),
        (pem(EC), {"keys": ["f"], "algorithms": ["none"]}, "algorithms: 'none' is no choice; choose one of"),
        (pem(EC), {"keys": ["g"]}, r"keys\[0\]: .*g cannot be read"),
        (pem(EC), {}, "keys: name a file"),
        (pem(EC), {"keys": ["f"], "leeway_s": -1.0}, "leeway_s: is 0 to 3600"),
    ],
)
def test_keys_that_cannot_be_used_are_named(tmp_path: Path, content: bytes, table: Any, said: str) -> None:
    (tmp_path / "f").write_bytes(content)

    with pytest.raises(ConfigError, match=said):
        read_tokens(TokenTable(**table), tmp_path)


# --- rules -----------------------------------------------------------------------------------------------------


def test_claims_fill_rules_and_choose_them() -> None:
    rules = AccessRules(
        rules=(
            Rule(topics=("tenants/%{tenant}/forbidden/#",), may=frozenset()),
            Rule(topics=("tenants/%{tenant}/%u/#",)),
            Rule(topics=("all/#",), claims={"role": "operator"}),
        )
    )
    access = Access(rules)
    assert claims_asked(rules) == {"tenant", "role"}

    def may(topic: str, **claims: tuple[str, ...]) -> bool:
        return access.may_publish("ann", "c", topic, tuple(sorted(claims.items())))

    assert may("tenants/t1/ann/x", tenant=("t1",))
    assert not may("tenants/t2/ann/x", tenant=("t1",))
    assert not may("tenants//ann/x"), "a claim that is not there is no empty level"
    assert not may("tenants/t1/ann/x", tenant=("t1", "t2")), "several values fill no place"
    assert not may("all/x")
    assert may("all/x", role=("user", "operator"))
    for wild in ("+", "#", "t1/ann", "+t1", "\0"):
        for topic in ("tenants/t1/ann/x", "tenants/t1/ann/ann/x", "tenants//ann/x"):
            assert not may(topic, tenant=(wild,)), (wild, topic)
    assert not access.may_subscribe("ann", "c", "tenants/+/ann/#", (("tenant", ("+",)),))
    assert not access.may_subscribe("ann", "c", "tenants/t1/#", (("tenant", ("t1",)),))
    assert not access.may_publish("ann", "c", "tenants/t1/forbidden/x", (("tenant", ("t1",)),))


# --- live ------------------------------------------------------------------------------------------------------

ACCESS = """
[access]
anonymous = "never"
[access.users]
root = "scrypt$16384$8$1$c2FsdHNhbHRzYWx0c2FsdA==$AAAA"
[access.jwt]
keys = ["ec.pem"]
leeway_s = 0.0
[[access.rules]]
topics = ["%{tenant}/#"]
"""


def network_with_tokens(folder: Path) -> Any:
    (folder / "ec.pem").write_bytes(pem(EC))
    text = local_network(1, scheme="standard")
    return write_network(folder, text + ACCESS)


@pytest.mark.live
def test_a_client_with_a_token_is_served_until_the_token_ends(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    shown = [token(tenant="t1", exp=time.time() + 3), token(tenant="t1", exp=1)]

    async def scenario() -> None:
        network = network_with_tokens(tmp_path)
        port = port_of(network, "b1")
        async with running(network) as servers:
            client = PlainClient("c")
            will = Will(topic="t1/gone", payload=b"", properties=Properties(will_delay_interval=99))
            connack = await client.connect(port, password=shown[0], will=will)
            assert connack.reason is ReasonCode.SUCCESS
            assert machine_of(servers["b1"]).connections.by_client["c"].user == "ann"  # type: ignore[index]
            granted = await client.subscribe("t1/#", 1)
            assert granted.reasons == (ReasonCode.GRANTED_QOS_1,)
            denied = await client.subscribe("t2/#", 1)
            assert denied.reasons == (ReasonCode.NOT_AUTHORIZED,)
            await eventually(lambda: client.closed)
            assert client.closed_because is not None
            assert client.closed_because.reason is ReasonCode.MAXIMUM_CONNECT_TIME  # type: ignore[union-attr]
            assert servers["b1"].shell.live.timers.keys().isdisjoint({("login", "1")})
            late = PlainClient("c")
            assert (await late.connect(port, password=shown[1])).reason is refused
            root = PlainClient("r")
            named = token(sub="root", tenant="t1")
            assert (await root.connect(port, password=named)).reason is refused, "root has a password"
            assert (await PlainClient("x").connect(port, user_name="bob", password=token())).reason is refused
            in_name = PlainClient("y")
            assert (await in_name.connect(port, user_name=shown[0].decode(), password=b"x")).reason is refused
            (stored,) = [path.read_bytes() for path in (tmp_path / "data").rglob("*.journal")]
            assert b"t1/gone" in stored, "the journal has the CONNECT"
            assert not any(made.rpartition(b".")[2] in stored for made in shown)
            assert not any(made.partition(b".")[0] in stored for made in shown)

    refused = ReasonCode.BAD_USER_NAME_OR_PASSWORD
    asyncio.run(scenario())
    assert "token refused" in caplog.text
    assert not any(made.rpartition(b".")[2].decode() in caplog.text for made in shown)


@pytest.mark.live
def test_a_key_that_is_taken_away_takes_its_clients_along(tmp_path: Path) -> None:
    async def scenario() -> None:
        network = network_with_tokens(tmp_path)
        port = port_of(network, "b1")
        async with running(network) as servers:
            client = PlainClient("c")
            await client.connect(port, password=token(tenant="t1"))
            (tmp_path / "ec.pem").write_bytes(pem(STRANGER))
            servers["b1"]._reload = lambda: load_network(tmp_path / "network.toml").server_options("b1")
            servers["b1"].reload()
            await eventually(lambda: client.closed)
            assert client.closed_because is not None
            assert client.closed_because.reason is ReasonCode.NOT_AUTHORIZED  # type: ignore[union-attr]
            again = PlainClient("c")
            refused = ReasonCode.BAD_USER_NAME_OR_PASSWORD
            assert (await again.connect(port, password=token(tenant="t1"))).reason is refused
            accepted = await again.connect(port, password=token(tenant="t1", key=STRANGER))
            assert accepted.reason is ReasonCode.SUCCESS
            assert accepted.session_present, "the session is still the user's"

    asyncio.run(scenario())


def test_claims_without_tokens_are_an_error(tmp_path: Path) -> None:
    text = local_network(1)
    rule = '\n[[access.rules]]\ntopics = ["%{tenant}/#"]\n'

    with pytest.raises(ConfigError, match="only tokens have claims"):
        write_network(tmp_path, text + rule)


def test_a_token_in_the_place_of_a_user_name_is_not_logged() -> None:
    assert without_token(token().decode()) == "(a token)"
    assert without_token("ann.b.c") == "ann.b.c"
    assert without_token(None) is None
