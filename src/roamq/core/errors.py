"""The error tree.

RoamqError
├── ConfigError             the operator's: says what to change; the command exits with 2
│   └── SelectorError       a filter that cannot be read; knows the position of the mistake
└── ProtocolError
    ├── LocalProtocolError  ours: a bug, stop
    └── RemoteProtocolError the peer's: log it, drop that peer, go on serving
"""


class RoamqError(Exception):
    """Base of everything RoamQ raises on purpose."""


class ConfigError(RoamqError):
    """Input from a person is wrong: the message names the field and the remedy."""


class SelectorError(ConfigError):
    """A filter cannot be read. `position` is the offset of the mistake in the text."""

    def __init__(self, message: str, *, text: str, position: int) -> None:
        super().__init__(f"{message} at position {position} of {text!r}")
        self.reason = message
        self.text = text
        self.position = position


class ProtocolError(RoamqError):
    """The rules between two parties were broken."""


class LocalProtocolError(ProtocolError):
    """This side broke the rules between two parties: a bug."""


class RemoteProtocolError(ProtocolError):
    """The peer broke the rules between two parties."""
