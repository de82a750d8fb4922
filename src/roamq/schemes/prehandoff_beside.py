"""Location-based pre-handoff beside other schemes (`by_class.py`)."""

from typing import TYPE_CHECKING

from roamq.core.context import Context, Mode, Ticket
from roamq.core.events import ClientId
from roamq.schemes.base import SchemeOptions
from roamq.schemes.beside import Beside
from roamq.schemes.prehandoff_options import PreHandoffOptions

if TYPE_CHECKING:
    from roamq.schemes.prehandoff import PreHandoff


class PreHandoffBeside(Beside):
    """The answers of pre-handoff as one of several schemes at a broker."""

    scheme: "PreHandoff"

    def set_options(self, options: SchemeOptions) -> None:
        super().set_options(options)
        assert isinstance(options, PreHandoffOptions)
        self.scheme.expectation = self.scheme.expectation_of(options)
        self.scheme.moving_s = options.moving_s
        self.scheme.virtual.lease_s = options.lease_s

    def expects(self, client: ClientId, ticket: Ticket | None) -> bool:
        return self.scheme.virtual.get(client) is not None

    def let_go(self, client: ClientId) -> None:
        self.scheme.virtual.end(client)

    def withdraw(self, context: Context) -> None:
        self.scheme.preforwarding.cancel_all(context)
        if context.client in self.scheme.moving:  # else the timers are another scheme's, for another class
            for timer in ("moving", "nearing", "lingering"):
                self.scheme.host.cancel_timer((timer, context.client))
        self.scheme.forget(context.client)

    def adopt(self, context: Context) -> None:
        if context.mode is Mode.SERVING:
            self.scheme.a1_register(context)
