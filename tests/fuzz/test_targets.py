"""Every target of the fuzzer, on its seeds and on a few hundred inputs made from them: fuzzing itself takes longer."""

import random

import pytest

from tests.fuzz.__main__ import NAMES
from tests.fuzz.seeds import SEEDS
from tests.fuzz.targets import TARGETS

FOUND: dict[str, list[bytes]] = {
    # A request that is no WebSocket's, with rubbish behind it: an AssertionError of the library.
    "websocket": [b"\xfeGET /mqtt HTTP/1.1\r\nHost: x\r\n\r\nAAA==\r\nSec-\x9fe: 13\r\n\r\n"],
    # Text that is not UTF-8, from a stranger at the link port.
    "links": [b"\x03\x00\x00\x00.\x01\x97\x03\xa1\xee\xa2b2\xa2b1\xc4 " + b"m" * 32 + b"\x05\x05"],
    "frames": [bytes.fromhex("c7430382a753657276696e6785a6636c69656e74a163")],
    # A group whose checksum is right, and whose text is not UTF-8.
    "journal": [b"\x01\x91\x92\x01\xa2\xb2\xb2"],
}
"""Inputs that once failed."""


def test_the_command_knows_all_targets() -> None:
    assert list(NAMES) == list(TARGETS) == list(SEEDS)


@pytest.mark.parametrize("name", TARGETS)
def test_seeds_and_what_once_failed_do_not_fail(name: str) -> None:
    for data in [*SEEDS[name], *FOUND.get(name, [])]:
        TARGETS[name](data)


@pytest.mark.parametrize("name", TARGETS)
def test_some_hundred_inputs_do_not_fail(name: str) -> None:
    for number in range(300):
        chance = random.Random(number)
        data = bytearray(chance.choice(SEEDS[name]))
        for _ in range(chance.randrange(1, 6)):
            at = chance.randrange(len(data) + 1)
            change = chance.randrange(4)
            if change == 0:
                data[at:at] = chance.randbytes(chance.randrange(1, 5))
            elif change == 1:
                del data[at : at + chance.randrange(1, 9)]
            elif data and change == 2:
                data[at % len(data)] = chance.choice((0, 1, 0x7F, 0x80, 0xFF, chance.randrange(256)))
            else:
                data += data[at : at + 20]
        try:
            TARGETS[name](bytes(data))
        except Exception as error:
            error.add_note(
                f"replay: the bytes {bytes(data)!r} in a file, python -m tests.fuzz {name} --replay FILE"
            )
            raise
