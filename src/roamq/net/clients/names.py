"""Names that certificates and tokens give to users: which of them a broker takes.

Whoever signs a certificate or a token may let its owner choose the name. A name with characters that cannot be printed
looks like another's in a list, and a half of a surrogate pair, which JSON can spell, fits no journal and no link.
"""

from typing import Final

from roamq.net.ops.settings import ANONYMOUS, ANYBODY

NAME_CHARACTERS_MAX: Final = 256


def names_user(name: object) -> bool:
    """Whether a user may be called so."""
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
