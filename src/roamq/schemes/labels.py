"""Names, mailboxes and meanings of subscriptions, for several schemes beside each other at one broker."""

from collections.abc import Callable, Iterable

from roamq.broker.contexts import Contexts
from roamq.broker.mailbox import Handler, Mailbox
from roamq.core.context import Context, Mode
from roamq.core.events import BrokerId
from roamq.core.filters import Filter
from roamq.core.messages import Message
from roamq.geo.here import MeaningHere
from roamq.schemes.messages.classes import Classed
from roamq.schemes.messages.handover import HAND_OVER_MESSAGES


def label_of(scheme: str, client_class: str = "") -> str:
    """The broker's name for its scheme for a class: two classes may have the same scheme with other options."""
    return f"{scheme}/{client_class}" if client_class else scheme


class SchemeMailbox(Mailbox):
    """The mailbox of one scheme among several: its messages reach the same scheme at other brokers."""

    def __init__(self, label: str, shared: Mailbox) -> None:
        super().__init__(shared.me, shared.router)
        self.label = label
        self.suffix = label[label.index("/") :] if "/" in label else ""
        self._shared = shared

    def send(self, to: BrokerId, message: Message) -> None:
        """Send a message. A scheme for one class wraps its own messages in `Classed`; those of the hand-over, which all
        schemes share, say by themselves whom they concern."""
        if self.suffix and message.__class__ not in HAND_OVER_MESSAGES:
            message = Classed(scheme=self.label, message=message)
        self._shared.send(to, message)

    def handle_returned(self, message_type: type[Message], handler: Handler) -> None:
        self._shared.handle_returned(message_type, handler)


class MeaningByScheme:
    """The meaning of subscriptions: `HERE` is a place only under schemes that know places."""

    def __init__(self, me: BrokerId, means_places: Callable[[Context], bool]) -> None:
        self._here = MeaningHere(me)
        self._means_places = means_places

    def meant(self, context: Context, filters: Iterable[Filter]) -> list[Filter]:
        return self._here.meant(context, filters) if self._means_places(context) else list(filters)


def put_under(contexts: Contexts, context: Context, label: str) -> None:
    """Put the context under another scheme: its subscriptions may mean something else there, so watch for other
    filters."""
    watched, meaning = contexts.watched, contexts.watched.meaning
    if meaning is None or context.mode is Mode.PASSIVE:
        context.under = label
        return
    own = [filter for filter in context.filters if filter.group is None]
    before = dict.fromkeys(meaning.meant(context, own))
    context.under = label
    after = dict.fromkeys(meaning.meant(context, own))
    for filter in after:
        if filter not in before:
            watched.router.subscribe(filter, mobile=False)
            watched.index.add(context, filter)
    for filter in before:
        if filter not in after:
            watched.index.remove(context, filter)
            watched.router.unsubscribe(filter, mobile=False)
