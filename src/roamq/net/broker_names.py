"""The rule for names of brokers.

A broker's name is a part of its data folder's path, of topics below `$SYS`, of tickets (`time@broker`) and of marks
that brokers send each other (`broker@life`).
"""

import re
from typing import Final

NAME_CHARACTERS_MAX: Final = 64
NAMED_WITH: Final = f"use letters, digits, '-', '_' and '.', at most {NAME_CHARACTERS_MAX} of them"
"""The advice for an operator who chose another name."""

_NAME: Final = re.compile(r"\w[\w.-]*")


def names_broker(name: str) -> bool:
    """Whether a broker may have this name."""
    return len(name) <= NAME_CHARACTERS_MAX and _NAME.fullmatch(name) is not None
