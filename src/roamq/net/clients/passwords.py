"""Passwords: the configuration holds scrypt hashes, and a thread checks them.

The broker remembers, by digest, which passwords were right lately, so that a client that reconnects need not wait.
"""

import base64
import hashlib
import hmac
import os
from collections.abc import Mapping
from typing import Final

from roamq.core.errors import ConfigError

COST, BLOCK, PARALLEL = 1 << 14, 8, 1
SALT_BYTES: Final = 16
REMEMBERED_MAX: Final = 10_000
_MEMORY_MAX: Final = 64 * 1024 * 1024


def hash_password(password: bytes, salt: bytes | None = None) -> str:
    """`scrypt$N$r$p$salt$hash`, for the configuration."""
    salt = os.urandom(SALT_BYTES) if salt is None else salt
    digest = _scrypt(password, salt, COST, BLOCK, PARALLEL)
    texts = (base64.b64encode(part).decode() for part in (salt, digest))
    return "$".join(("scrypt", str(COST), str(BLOCK), str(PARALLEL), *texts))


def verify_password(password: bytes, hashed: str) -> bool:
    cost, block, parallel, salt, digest = parse_hash(hashed)
    return hmac.compare_digest(_scrypt(password, salt, cost, block, parallel), digest)


def parse_hash(hashed: str) -> tuple[int, int, int, bytes, bytes]:
    try:
        name, cost, block, parallel, salt, digest = hashed.split("$")
        if name != "scrypt":
            raise ValueError
        numbers = int(cost), int(block), int(parallel)
        parts = base64.b64decode(salt, validate=True), base64.b64decode(digest, validate=True)
    except ValueError:
        raise ConfigError("is not a password hash; `roamq password` makes one") from None
    return (*numbers, *parts)


def _scrypt(password: bytes, salt: bytes, cost: int, block: int, parallel: int) -> bytes:
    return hashlib.scrypt(password, salt=salt, n=cost, r=block, p=parallel, maxmem=_MEMORY_MAX)


class Users:
    """User name -> hash. `remembers` answers at once; `verify` takes its time and belongs into a thread."""

    def __init__(self, hashes: Mapping[str, str]) -> None:
        self._hashes = dict(hashes)
        self._key = os.urandom(32)
        self._remembered: dict[tuple[str, bytes], None] = {}
        self._nobody = hash_password(os.urandom(8))

    def remembers(self, user: str, password: bytes) -> bool:
        """Was this password right before? A keyed digest stands for it, so that memory holds no password."""
        return (user, self._digest(password)) in self._remembered

    def verify(self, user: str, password: bytes) -> bool:
        """Check a password. A user who does not exist takes as long to check as one who does."""
        return verify_password(password, self._hashes.get(user, self._nobody)) and user in self._hashes

    def hash_of(self, user: str) -> str | None:
        return self._hashes.get(user)

    def remember(self, user: str, password: bytes) -> None:
        if len(self._remembered) >= REMEMBERED_MAX:
            self._remembered.clear()
        self._remembered[user, self._digest(password)] = None

    def _digest(self, password: bytes) -> bytes:
        return hmac.new(self._key, password, hashlib.sha256).digest()
