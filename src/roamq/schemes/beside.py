"""The questions and orders of a broker to a scheme that stands beside others (`by_class.py`)."""

from typing import TYPE_CHECKING

from roamq.core.context import Context, Epoch, Ticket
from roamq.core.events import BrokerId, ClientId
from roamq.schemes.parts.whereabouts import Claim

if TYPE_CHECKING:
    from roamq.schemes.base import Scheme, SchemeOptions


class Beside:
    """Base: the answers of a scheme that keeps nothing beside the contexts of its clients, at this broker or
    another."""

    def __init__(self, scheme: "Scheme") -> None:
        self.scheme = scheme

    def set_options(self, options: "SchemeOptions") -> None:
        """Take other options, which hold from now on."""
        self.scheme.options = options

    def set_wanted(self, is_wanted: bool) -> None:
        """Learn whether some class of clients has this scheme from now on."""

    def insists(self, client: ClientId, old_broker: BrokerId | None) -> bool:
        """Would this scheme alone find the client's context, so that it must be the one to hear that the client has
        connected?"""
        return False

    def expects(self, client: ClientId, ticket: Ticket | None) -> bool:
        """Does this scheme keep anything here for the client, whom another broker serves?"""
        return False

    def let_go(self, client: ClientId) -> None:
        """The client has connected here under another scheme: forget what this scheme kept for it, if it can be
        spared."""

    def knows_of(self, context: Context | None, claim: Claim) -> Epoch | None:
        """The epoch of the claimed context, if the context went from here in a way that only this scheme knows."""
        return None

    def puts_together(self, client: ClientId, transfer: Epoch) -> bool:
        """Whether this scheme has some of the events that the messages of a transfer leave out."""
        return False

    def can_withdraw(self, context: Context) -> bool:
        """Whether `withdraw` leaves nothing behind on which another broker may still act. The context is whole."""
        return True

    def withdraw(self, context: Context) -> None:
        """The context, which is whole, is under another scheme from now on: end all that this scheme had beside it."""

    def adopt(self, context: Context) -> None:
        """The context, which is whole, is under this scheme from now on: begin what this scheme has beside it."""
