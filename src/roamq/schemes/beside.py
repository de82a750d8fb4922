"""What a broker asks of a scheme that stands beside others (`by_class.py`)."""

from typing import TYPE_CHECKING

from roamq.core.context import Context, Epoch, Ticket
from roamq.core.events import BrokerId, ClientId
from roamq.schemes.parts.whereabouts import Claim

if TYPE_CHECKING:
    from roamq.schemes.base import Scheme, SchemeOptions


class Beside:
    """Base: a scheme that keeps nothing beside the contexts of its clients, at this broker or another."""

    def __init__(self, scheme: "Scheme") -> None:
        self.scheme = scheme

    def set_options(self, options: "SchemeOptions") -> None:
        """Other options hold from now on."""
        self.scheme.options = options

    def set_wanted(self, is_wanted: bool) -> None:
        """Some class of clients has this scheme from now on, or none."""

    def insists(self, client: ClientId, old_broker: BrokerId | None) -> bool:
        """Would the client's context be missed here if another scheme were told that the client has connected?"""
        return False

    def expects(self, client: ClientId, ticket: Ticket | None) -> bool:
        """Does anything wait here for the client, whom another broker serves?"""
        return False

    def let_go(self, client: ClientId) -> None:
        """The client has connected here under another scheme: forget what waited for it, if it can be spared."""

    def knows_of(self, context: Context | None, claim: Claim) -> Epoch | None:
        """The connection whose context is claimed, if it went from here in a way that only this scheme knows."""
        return None

    def puts_together(self, client: ClientId, transfer: Epoch) -> bool:
        """Whether it has a part of the events that a transfer lacks."""
        return False

    def can_withdraw(self, context: Context) -> bool:
        """Whether `withdraw` would leave nothing behind that another broker may still act on. The context is whole."""
        return True

    def withdraw(self, context: Context) -> None:
        """The context, which is whole, is under another scheme from now on: all that this one had beside it ends."""

    def adopt(self, context: Context) -> None:
        """The context, which is whole, is under this scheme from now on."""
