"""The steps of the hand-over at a broker with several schemes: each is done by the scheme that the context is under."""

from typing import TYPE_CHECKING, Final

from roamq.core.context import Context, Epoch
from roamq.core.events import ClientId
from roamq.schemes.base import Scheme
from roamq.schemes.messages.handover import StoredEvents
from roamq.schemes.parts.own_steps import Leaving, OwnSteps
from roamq.schemes.parts.whereabouts import Arriving, Claim

if TYPE_CHECKING:
    from roamq.schemes.by_class import ByClass

_STANDARD: Final = OwnSteps()


class StepsByClass:
    """The own steps of the one hand-over that all schemes share: each step is done as the context's scheme does it."""

    def __init__(self, schemes: "ByClass") -> None:
        self.all = schemes
        self.own = OwnSteps(
            claim=self.claim,
            hand_over=self.hand_over,
            forward=self.step_5_forward,
            admit_all=self.admit_all,
            replay=self.step_6_replay,
            completed=self.completed,
            step_aside=self.step_aside,
            close=self.close,
            sends_whole=self.sends_whole,
            overdue=self.overdue,
            sends_head=self.sends_head,
        )

    def _own(self, context: Context) -> OwnSteps:
        return self.all.of(context).own or _STANDARD

    def claim(self, context: Context | None, claim: Claim) -> None:
        """Give the claim to the scheme that alone knows where the claimed context went, else to the scheme of
        `context`."""
        known = [
            (epoch, scheme)
            for scheme in self.all.schemes.values()
            if (epoch := scheme.beside.knows_of(context, claim)) is not None
        ]
        scheme: Scheme | None = max(known, key=lambda pair: pair[0])[1] if known else None
        if scheme is None and context is not None:
            scheme = self.all.of(context)
        own = scheme.own if scheme is not None else None
        if own is not None and own.claim is not None:
            own.claim(context, claim)
        else:
            self.all.handover.standard_claim(context, claim)

    def hand_over(self, context: Context, claim: Claim) -> None:
        with self.all.at_work(context.under):
            (self._own(context).hand_over or self.all.handover.step_2_hand_over)(context, claim)

    def step_5_forward(self, leaving: Leaving) -> None:
        with self.all.at_work(leaving.context.under):
            (self._own(leaving.context).forward or self.all.handover.step_5_forward)(leaving)

    def sends_whole(self, context: Context) -> bool:
        return self._own(context).admit_all is not None

    def sends_head(self, context: Context) -> bool:
        return self._own(context).may_send_head(context)

    def admit_all(self, arriving: Arriving, message: StoredEvents, how: str) -> None:
        for scheme in self.all.schemes.values():
            own = scheme.own
            if own and own.admit_all and scheme.beside.puts_together(message.client, message.epoch):
                own.admit_all(arriving, message, how)
                return
        self.all.handover.admit_all(arriving, message, how)

    def overdue(self, client: ClientId) -> None:
        for scheme in self.all.schemes.values():
            if scheme.own is not None and scheme.own.overdue is not None:
                scheme.own.overdue(client)

    def step_6_replay(self, arriving: Arriving) -> None:
        with self.all.at_work(arriving.context.under):
            (self._own(arriving.context).replay or self.all.handover.step_6_replay)(arriving)

    def completed(self, context: Context) -> None:
        """The context is whole: end what other schemes had beside it, and take it to the scheme that it should be
        under."""
        self._withdraw_others(context)
        if self.all.may_change(context):
            label = self.all.change(context)
            self.all.handover.completed(context)
            if self.all.contexts.is_current(context):
                with self.all.at_work(label):
                    self.all.schemes[label].beside.adopt(context)
            return
        with self.all.at_work(context.under):
            (self._own(context).completed or self.all.handover.completed)(context)

    def _withdraw_others(self, context: Context) -> None:
        for label, scheme in self.all.schemes.items():
            if label != context.under:
                with self.all.at_work(label):
                    scheme.beside.withdraw(context)

    def step_aside(self, arriving: Arriving, newer: Epoch) -> None:
        context = arriving.context
        self._withdraw_others(context)
        with self.all.at_work(context.under):
            (self._own(context).step_aside or self.all.handover.step_aside)(arriving, newer)

    def close(self, context: Context, *, mobile: bool = False) -> None:
        (self._own(context).close or self.all.contexts.close)(context, mobile=mobile)
