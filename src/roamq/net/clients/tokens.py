"""JSON Web Tokens (RFC 7519) as logins: a token in the place of the password says who a client is, and for how long.

A key decides which algorithms it may be used with, never the token: a public key is no secret of HMAC, and `none` is no
algorithm. All refusals look the same to the client; the log says why, and never shows the token.
"""

import hashlib
import json
import logging
import re
from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any, Final, NamedTuple

import jwt
import msgspec
from cryptography.hazmat.primitives.asymmetric import ec, ed448, ed25519, rsa
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat, load_pem_public_key

from roamq.core.choices import choose_from
from roamq.core.errors import ConfigError
from roamq.net.clients.names import can_be_stored, names_user
from roamq.net.outputs import UserIdentity

log = logging.getLogger("roamq.logins")

TOKEN_BYTES_MAX: Final = 8192
KEY_BYTES_MAX: Final = 1024 * 1024
KEYS_MAX: Final = 64
KEYS_TRIED_MAX: Final = 16
"""Most keys that are tried for a token without a key id: checking a signature takes time."""
SECRET_BYTES_MIN: Final = 32
RSA_BITS_MIN: Final = 2048
CLAIM_VALUES_MAX: Final = 64
CLAIM_CHARACTERS_MAX: Final = 256
LATEST: Final = 253402300800.0
"""The year 10000: a token of a later end counts as one that ends then."""
_RSA: Final = frozenset({"RS256", "RS384", "RS512", "PS256", "PS384", "PS512"})
_HMAC: Final = frozenset({"HS256", "HS384", "HS512"})
_JWK_CURVES: Final = {
    ("EC", "P-256"): "ES256",
    ("EC", "P-384"): "ES384",
    ("EC", "P-521"): "ES512",
    ("OKP", "Ed25519"): "EdDSA",
    ("OKP", "Ed448"): "EdDSA",
}
UNKNOWN_KIND: Final = "holds a key of an unknown kind"
_CURVES: Final = {"secp256r1": "ES256", "secp384r1": "ES384", "secp521r1": "ES512"}
ALGORITHMS: Final = frozenset({*_RSA, *_HMAC, *_CURVES.values(), "EdDSA"})
_LOOKS_LIKE_A_TOKEN: Final = re.compile(r"eyJ[\w-]*\.[\w-]*\.[\w-]*")


class TokenTable(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The table `[access.jwt]`: the tokens that the broker accepts."""

    keys: list[str] = []
    """Files: a public key as PEM, or a set of keys as JSON (JWKS)."""
    secret_file: str | None = None
    """A file with the secret of HS256, HS384 or HS512."""
    algorithms: list[str] = []
    """The accepted algorithms; empty for all that suit the keys."""
    issuer: str | None = None
    audience: str | None = None
    user_claim: str = "sub"
    leeway_s: float = 5.0
    """Seconds by which the clock of the authority that makes tokens may differ from ours."""


class TokenKey(msgspec.Struct, frozen=True, kw_only=True):
    """A key, and the algorithms that it may be used with."""

    data: bytes
    """A public key in PEM, or a secret."""
    is_secret: bool
    algorithms: frozenset[str]
    name: str | None = None
    """The key id (`kid`), if the key has one."""


class TokenOptions(msgspec.Struct, frozen=True, kw_only=True):
    """The table `[access.jwt]`, read and checked."""

    keys: tuple[TokenKey, ...]
    issuer: str | None = None
    audience: str | None = None
    user_claim: str = "sub"
    leeway_s: float = 5.0

    def credential(self, key: TokenKey) -> str:
        """The credential of a login by this key: the login ends when a reload brings other terms, or takes the key
        away."""
        terms = (self.issuer, self.audience, self.user_claim, sorted(key.algorithms), key.name)
        digest = hashlib.sha256(key.data + repr(terms).encode()).hexdigest()
        return f"jwt:{digest[:32]}"

    def credentials(self) -> set[str]:
        return {self.credential(key) for key in self.keys}


class _UsableKey(NamedTuple):
    key: TokenKey
    material: Any
    credential: str


class Tokens:
    """Checks tokens. `verify` takes its time and belongs into a thread."""

    def __init__(self, options: TokenOptions, claims: frozenset[str] = frozenset()) -> None:
        """`claims`: the claims that access rules ask for; others are not kept."""
        self.options = options
        self._claims = claims
        self._keys = [_UsableKey(key, _material(key), options.credential(key)) for key in options.keys]

    def verify(self, token: bytes, username: str | None) -> UserIdentity:
        """The user whom the token stands for. Raises `TokenError` if it stands for nobody, or for another than
        `username`."""
        if len(token) > TOKEN_BYTES_MAX:
            raise TokenError("it is too long")
        try:
            return self._verify(token, username)
        except jwt.PyJWTError as error:
            raise TokenError(type(error).__name__) from None
        except (ValueError, TypeError, OverflowError, RecursionError) as error:
            # The library reads some fields as they are: infinite times, lists where it expects text.
            raise TokenError(f"it cannot be read ({type(error).__name__})") from None

    def _verify(self, token: bytes, username: str | None) -> UserIdentity:
        header = jwt.get_unverified_header(token)
        if "crit" in header:
            raise TokenError("it asks for an extension")  # RFC 7515, section 4.1.11
        algorithm, name = header.get("alg"), header.get("kid")
        suited = [usable for usable in self._keys if algorithm in usable.key.algorithms]
        candidates = [usable for usable in suited if name is None or usable.key.name in (None, name)]
        if name is not None:
            candidates.sort(key=lambda usable: usable.key.name is None)  # the key named by `kid` comes first
        failure: jwt.PyJWTError | None = None
        for usable in candidates[:KEYS_TRIED_MAX]:
            try:
                claims = self._decode(token, usable, str(algorithm))
            except jwt.InvalidSignatureError as error:
                failure = error
                continue
            return self._identity(claims, usable.credential, username)
        if failure is None:
            raise TokenError("no key suits it")
        if len(candidates) > KEYS_TRIED_MAX:
            raise TokenError(f"none of {KEYS_TRIED_MAX} keys fits, and it does not name its key (`kid`)")
        raise failure

    def _decode(self, token: bytes, usable: _UsableKey, algorithm: str) -> dict[str, Any]:
        options = self.options
        required = ["exp", options.user_claim]
        if options.issuer is not None:
            required.append("iss")
        if options.audience is not None:
            required.append("aud")
        found: dict[str, Any] = jwt.decode(
            token,
            usable.material,
            algorithms=[algorithm],
            issuer=options.issuer,
            audience=options.audience,
            leeway=timedelta(seconds=options.leeway_s),
            options={"require": required, "verify_aud": options.audience is not None},
        )
        return found

    def _identity(self, claims: Mapping[str, Any], credential: str, username: str | None) -> UserIdentity:
        user = claims.get(self.options.user_claim)
        if not isinstance(user, str) or not names_user(user):
            raise TokenError(f"its claim {self.options.user_claim!r} names no user")
        if username and username != user:
            raise TokenError("the user name is another's")
        if not isinstance(claims["exp"], int | float):
            raise TokenError("its end is no number")  # RFC 7519, section 4.1.4
        expires_at = min(float(claims["exp"]) + self.options.leeway_s, LATEST)
        kept = tuple(
            (name, values) for name in sorted(self._claims) if (values := texts_of(claims.get(name)))
        )
        return UserIdentity(user, kept, expires_at, credential)


class TokenError(Exception):
    """A token lets nobody in; the message says why, without the token."""


def texts_of(value: object) -> tuple[str, ...]:
    """The values of a claim as text: one value, or those of a list; nothing if a rule could not compare them."""
    values = value if isinstance(value, list) else [value]
    texts = []
    for entry in values[: CLAIM_VALUES_MAX + 1]:
        if isinstance(entry, bool) or not isinstance(entry, (str, int)) or entry == "":
            return ()
        texts.append(str(entry) if abs(entry if isinstance(entry, int) else 0) < 1 << 63 else "")
    is_short = len(texts) <= CLAIM_VALUES_MAX and all(0 < len(text) <= CLAIM_CHARACTERS_MAX for text in texts)
    return tuple(texts) if is_short and all(map(can_be_stored, texts)) else ()


def without_token(user: str | None) -> str | None:
    """A user name for the log: some clients put their token in its place."""
    return "(a token)" if user is not None and _LOOKS_LIKE_A_TOKEN.fullmatch(user) else user


# --- keys ------------------------------------------------------------------------------------------------------


def read_tokens(table: TokenTable, folder: Path) -> TokenOptions:
    """Read the keys; raises a `ConfigError` that begins with the field."""
    allowed = frozenset(table.algorithms) or ALGORITHMS
    if unknown := sorted(allowed - ALGORITHMS):
        hint = choose_from(unknown[0], sorted(ALGORITHMS))
        raise ConfigError(f"algorithms: {unknown[0]!r} is no choice{hint}")
    if not 0 <= table.leeway_s <= 3600:
        raise ConfigError("leeway_s: is 0 to 3600 seconds")
    keys: list[TokenKey] = []
    for number, name in enumerate(table.keys):
        keys += _in_field(f"keys[{number}]", folder / name, _public_keys)
    if table.secret_file is not None:
        keys += _in_field("secret_file", folder / table.secret_file, _secret)
    if not keys:
        raise ConfigError("keys: name a file with a public key or a set of keys, or a `secret_file`")
    if len(keys) > KEYS_MAX:
        raise ConfigError(f"keys: are {len(keys)}, and may be {KEYS_MAX}")
    usable = tuple(
        msgspec.structs.replace(key, algorithms=key.algorithms & allowed)
        for key in keys
        if key.algorithms & allowed
    )
    if not usable:
        raise ConfigError("algorithms: no key suits any of them")
    return TokenOptions(
        keys=usable,
        issuer=table.issuer,
        audience=table.audience,
        user_claim=table.user_claim,
        leeway_s=table.leeway_s,
    )


def _in_field(field: str, path: Path, read: Any) -> list[TokenKey]:
    try:
        with path.open("rb") as file:
            data = file.read(KEY_BYTES_MAX + 1)
    except OSError as error:
        raise ConfigError(f"{field}: {path} cannot be read: {error.strerror or error}") from error
    try:
        if len(data) > KEY_BYTES_MAX:
            raise ValueError("is too long")
        found: list[TokenKey] = read(data)
        return found
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError, jwt.PyJWTError) as error:
        # No text of a library that might quote the file: the file may be a secret.
        reason = str(error) if isinstance(error, _KeyError) else "holds no key that can be read"
        raise ConfigError(f"{field}: {path} {reason}") from None
    except Exception as error:
        if type(error).__module__.startswith("cryptography"):
            raise ConfigError(f"{field}: {path} {UNKNOWN_KIND}") from None
        raise


class _KeyError(ValueError):
    """A key is wrong; the message is in our own words."""


def _public_keys(data: bytes) -> list[TokenKey]:
    if data.lstrip().startswith(b"{"):
        found = json.loads(data)
        if "keys" not in found:
            return [_of_jwk(found)]
        return _of_set([entry for entry in found["keys"] if _is_for_signatures(entry)])
    if b"PRIVATE KEY" in data:
        raise _KeyError("holds a private key, which no broker needs: give the public one")
    return [_of_public(load_pem_public_key(data))]


def _secret(data: bytes) -> list[TokenKey]:
    secret = data.strip()
    if secret.startswith((b"-----BEGIN", b"ssh-", b"{")):
        raise _KeyError("holds a key, not a secret: name it in `keys`")
    return [_of_secret(secret)]


def _of_secret(secret: bytes, name: str | None = None) -> TokenKey:
    if len(secret) < SECRET_BYTES_MIN:
        raise _KeyError(f"holds a secret of fewer than {SECRET_BYTES_MIN} bytes")
    # RFC 7518, section 3.2: a secret is as long as the digest, or longer.
    suited = frozenset(name for name in _HMAC if len(secret) * 8 >= int(name[2:]))
    return TokenKey(data=secret, is_secret=True, algorithms=suited, name=name)


def _is_for_signatures(entry: Mapping[str, Any]) -> bool:
    return entry.get("use", "sig") == "sig" and "verify" in entry.get("key_ops", ["verify"])


def _of_set(entries: list[dict[str, Any]]) -> list[TokenKey]:
    """RFC 7517, section 5: keys of an unknown kind are passed over; here the log names them."""
    known = [entry for entry in entries if _any_algorithm(entry)]
    for entry in entries:
        if not _any_algorithm(entry):
            log.warning(
                "a set of keys has one of an unknown kind (kid %.100r): it lets nobody in", entry.get("kid")
            )
    if entries and not known:
        raise _KeyError(UNKNOWN_KIND)
    return [_of_jwk(entry) for entry in known]


def _of_jwk(entry: Mapping[str, Any]) -> TokenKey:
    name = entry.get("kid")
    if name is not None and not isinstance(name, str):
        raise _KeyError("holds a key whose `kid` is no text")
    if "d" in entry:
        raise _KeyError("holds a private key, which no broker needs: give the public one")
    # The broker decides, from a key's kind and its own `alg`, which algorithm the key is for.
    algorithm = _any_algorithm(entry)
    if not algorithm:
        raise _KeyError(UNKNOWN_KIND)
    material = jwt.PyJWK({**entry, "alg": algorithm}).key
    key = _of_secret(material, name) if isinstance(material, bytes) else _of_public(material, name)
    if "alg" in entry:
        key = msgspec.structs.replace(key, algorithms=key.algorithms & {str(entry["alg"])})
    return key


def _any_algorithm(entry: Mapping[str, Any]) -> str:
    """An algorithm that a key of this kind can be read for; empty if there is none."""
    kind, curve = str(entry.get("kty")), str(entry.get("crv"))
    return {"oct": "HS256", "RSA": "RS256"}.get(kind) or _JWK_CURVES.get((kind, curve), "")


def _of_public(key: Any, name: str | None = None) -> TokenKey:
    if isinstance(key, rsa.RSAPublicKey):
        if key.key_size < RSA_BITS_MIN:
            raise _KeyError(f"holds an RSA key of fewer than {RSA_BITS_MIN} bits")
        algorithms = _RSA
    elif isinstance(key, ec.EllipticCurvePublicKey) and key.curve.name in _CURVES:
        algorithms = frozenset({_CURVES[key.curve.name]})
    elif isinstance(key, (ed25519.Ed25519PublicKey, ed448.Ed448PublicKey)):
        algorithms = frozenset({"EdDSA"})
    else:
        raise _KeyError(UNKNOWN_KIND)
    data = key.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    return TokenKey(data=data, is_secret=False, algorithms=algorithms, name=name)


def _material(key: TokenKey) -> Any:
    return key.data if key.is_secret else load_pem_public_key(key.data)
