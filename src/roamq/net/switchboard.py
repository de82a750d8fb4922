"""Tables that say which part of a live broker handles which message of other brokers, and which timer."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from roamq.broker.discards import RELEASE_TIMER
from roamq.core.events import BrokerId
from roamq.core.messages import Message
from roamq.net.clients.admission import EARLY_TIMER, SEARCH_TIMER
from roamq.net.clients.confirmations import CONFIRM_TIMER
from roamq.net.clients.permits import LOGIN_TIMER
from roamq.net.clients.sessions import SESSION_TIMER, WillFor
from roamq.net.clients.visitors import HOME_TIMER, ConfirmVisitor, VisitorConfirmed
from roamq.net.host import BURST_TIMER, LINK_TIMER
from roamq.net.links.members import Farewell, FarewellHeard, Returned
from roamq.net.links.membership import FAREWELL_TIMER
from roamq.net.topics.directory import Adopt, Ended, Known, Serving, WhoServes
from roamq.net.topics.fullness import FULL_TIMER, NoRoom
from roamq.net.topics.replays import REPLAY_TIMER
from roamq.net.topics.shared import GroupPlace
from roamq.net.topics.tables import TOLD_TIMER, TablesTold, TablesWanted

if TYPE_CHECKING:
    from roamq.net.machine import Machine

Handlers = dict[type[Message], Callable[[BrokerId, Any], None]]
Timers = dict[str, Callable[[Any], None]]


def handlers_of(machine: "Machine") -> Handlers:
    """Type of a message that live brokers send each other, beside those of the core -> the function that handles it."""
    sessions, admission, membership = machine.sessions, machine.admission, machine.membership

    def on_tables_told(sender: BrokerId, message: TablesTold) -> None:
        if message.roll is not None:
            machine.roll_calls.on_part(sender, message)
            return
        sessions.hear(sender, message.connections)
        machine.tables.on_told(sender, message)
        if message.is_all:
            machine.lives.resuming.called(sender)
        if machine.tables.is_told:
            admission.is_stranger = False

    return {
        Serving: sessions.on_serving,
        Ended: sessions.on_ended,
        WillFor: sessions.on_will_for,
        WhoServes: admission.on_who_serves,
        Known: admission.on_known,
        Adopt: membership.on_adopt,
        GroupPlace: machine.memberships.on_place,
        ConfirmVisitor: machine.visitors.on_asked,
        VisitorConfirmed: machine.visitors.on_confirmed,
        TablesTold: on_tables_told,
        TablesWanted: machine.tables.on_wanted,
        Farewell: membership.on_farewell,
        FarewellHeard: membership.on_farewell_heard,
        Returned: membership.on_returned,
        NoRoom: machine.fullness.on_no_room,
    }


def timers_of(machine: "Machine") -> Timers:
    """Name of a timer -> the function that is called with the rest of its key: a client, a number, or nothing."""

    def told_enough(_: Any) -> None:
        machine.tables.count_as_told()
        machine.admission.is_stranger = False

    return {
        SEARCH_TIMER: machine.admission.end_search,
        EARLY_TIMER: machine.admission.deliver_early,
        SESSION_TIMER: machine.sessions.on_due,
        REPLAY_TIMER: machine.replays.go_on,
        BURST_TIMER: machine.host.go_on,
        LINK_TIMER: machine.host.tell_on,
        FULL_TIMER: machine.fullness.on_timer,
        HOME_TIMER: lambda number: machine.visitors.answer(int(number)),
        LOGIN_TIMER: lambda number: machine.permits.end_login(int(number)),
        CONFIRM_TIMER: lambda _: machine.confirmations.give_up(),
        FAREWELL_TIMER: lambda _: machine.membership.ask_unheard(),
        TOLD_TIMER: told_enough,
        RELEASE_TIMER[0]: lambda _: machine.broker.contexts.discards.go_on(),
    }
