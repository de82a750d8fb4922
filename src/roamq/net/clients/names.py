"""Names of users in certificates and tokens: which of them a broker accepts.

An authority that signs a certificate or a token may let the owner choose the name. A name with characters that cannot
be printed looks like another user's in a list. Half of a surrogate pair, which JSON can spell, fits no journal or link.
"""

from typing import Final

from roamq.net.ops.settings import ANONYMOUS, ANYBODY

NAME_CHARACTERS_MAX: Final = 256


def names_user(name: object) -> bool:
    """Whether a broker accepts the name as a user's."""
    return (
        isinstance(name, str)
        and 0 < len(name) <= NAME_CHARACTERS_MAX
        and name.isprintable()
        and name not in (ANONYMOUS, ANYBODY)
    )


def can_be_stored(text: str) -> bool:
    """Whether a text fits a journal and a link, which are UTF-8."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
