"""Names of brokers: what may be one.

A broker's name is a part of its data folder's path, of topics below `$SYS`, of tickets (`time@broker`) and of marks
that brokers send each other (`broker@life`).
"""

import re
from typing import Final

NAME_CHARACTERS_MAX: Final = 64
NAMED_WITH: Final = f"use letters, digits, '-', '_' and '.', at most {NAME_CHARACTERS_MAX} of them"
"""What to tell somebody who chose another."""

_NAME: Final = re.compile(r"\w[\w.-]*")


def names_broker(name: str) -> bool:
    """Whether a broker may be called so."""
    return len(name) <= NAME_CHARACTERS_MAX and _NAME.fullmatch(name) is not None
