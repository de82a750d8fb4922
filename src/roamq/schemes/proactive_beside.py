"""Pro-active caching beside other schemes (`by_class.py`)."""

from typing import TYPE_CHECKING

from roamq.core.context import Context, Mode, Ticket
from roamq.core.events import ClientId
from roamq.schemes.base import SchemeOptions
from roamq.schemes.beside import Beside
from roamq.schemes.proactive_options import ProActiveOptions

if TYPE_CHECKING:
    from roamq.schemes.proactive import ProActive


class ProActiveBeside(Beside):
    """The answers of pro-active caching as one of several schemes at a broker."""

    scheme: "ProActive"

    def set_options(self, options: SchemeOptions) -> None:
        super().set_options(options)
        assert isinstance(options, ProActiveOptions)
        graph = self.scheme.neighborhood.graph
        graph.lifetime_s, graph.limit = options.neighbor_lifetime_s, options.neighbor_limit
        graph.outlier_crossings, graph.outlier_s = options.outlier_crossings, options.outlier_s
        self.scheme.neighborhood.grow_old()

    def expects(self, client: ClientId, ticket: Ticket | None) -> bool:
        return self.scheme.copies.get(client) is not None

    def let_go(self, client: ClientId) -> None:
        self.scheme.copies.drop(client)

    def can_withdraw(self, context: Context) -> bool:
        """No, while the client is away and copies are active: a neighbor may serve it from one before this broker
        deletes that."""
        return context.mode is Mode.SERVING or not self.scheme.sent.holders.get(context)

    def withdraw(self, context: Context) -> None:
        self.scheme.sent.delete(context)

    def adopt(self, context: Context) -> None:
        """Send copies as in case 1, and activate them as in case 2 if the client is away."""
        self.scheme.sent.send(context, self.scheme.neighborhood.neighbors)
        if context.mode is Mode.ACTIVE:
            self.scheme.case_2_disconnected(context)
