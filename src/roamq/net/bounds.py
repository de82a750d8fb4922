"""The quotas of a live broker, handed to the parts that keep them: when the broker is made, and when quotas change."""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from roamq.build import Choices, change_schemes, choices_of, several_schemes
from roamq.core.events import BrokerId
from roamq.net.links.left_out import left_out
from roamq.net.links.outboxes import Outboxes
from roamq.net.ops.settings import Quotas, Settings
from roamq.net.topics.retained import retained_bounds
from roamq.schemes.base import Scheme
from roamq.schemes.by_class import ByClass
from roamq.schemes.labels import label_of

if TYPE_CHECKING:
    from roamq.net.machine import Machine


def make_outboxes(neighbours: Iterable[BrokerId], born: int, quotas: Quotas) -> Outboxes:
    return Outboxes(neighbours, born, quotas.outbox_bytes_max, quotas.outbox_messages_bytes_max, left_out)


def scheme_options(settings: Settings) -> dict[str, Any]:
    """The options of the scheme. Quotas bound what the broker and one client may store, unless the options do."""
    quotas = settings.quotas
    stored = {"buffer_bytes": quotas.store_bytes_max, "queue_bytes": quotas.session_bytes_max}
    return {**stored, **settings.scheme_options}


def choices(settings: Settings) -> Choices:
    """The schemes of a broker, by class of clients. The bounds of what may be stored are the same for all classes."""
    options = scheme_options(settings)
    stored = {name: options[name] for name in ("buffer_bytes", "queue_bytes")}
    classes = {one.name: (one.scheme, {**stored, **one.options}) for one in settings.classes}
    return choices_of(settings.scheme, options, classes)


def set_schemes(machine: "Machine", settings: Settings) -> None:
    """Give the broker the schemes of `settings`, and move its contexts to them."""
    broker = machine.broker
    wanted = choices(settings)
    machine.host.classes = settings.classes
    labels = {choice.label for choice in wanted.values()}
    if isinstance(broker.scheme, ByClass) or labels != {label_of(machine.made_of.scheme)}:
        change_schemes(broker, wanted)
    elif isinstance(broker.scheme, Scheme) and broker.scheme.stands_beside_others:
        options = wanted[""].options
        if broker.scheme.options != options:
            broker.scheme.beside.set_options(options)
            broker.contexts.timeout_s = options.timeout_s


def schemes_of(machine: "Machine") -> list[str]:
    """The labels of the broker's schemes, if it has several; else an empty list."""
    scheme = machine.broker.scheme
    return list(scheme.schemes) if isinstance(scheme, ByClass) else []


def make_schemes(machine: "Machine", labels: list[str]) -> None:
    """Make again the schemes that the broker had when its state was stored, so that the state finds its place."""
    if labels:
        options = {choice.label: choice.options for choice in choices(machine.settings).values()}
        several_schemes(machine.broker).make_again(labels, options)


def schemes_read(machine: "Machine") -> None:
    """Gather the parts of the schemes after their state was read back."""
    if isinstance(machine.broker.scheme, ByClass):
        machine.broker.scheme.gather_parts()


def set_quotas(machine: "Machine", settings: Settings) -> None:
    """Make every part keep to the quotas of `settings` from now on."""
    quotas, contexts, options = settings.quotas, machine.broker.contexts, scheme_options(settings)
    machine.outboxes.bytes_max = quotas.outbox_bytes_max
    machine.outboxes.messages_bytes_max = quotas.outbox_messages_bytes_max
    machine.quota.sessions_max, machine.quota.bytes_max = quotas.sessions_max, quotas.sessions_bytes_max
    machine.quota.shapes_max = quotas.wildcard_shapes_max
    machine.requests.refuses_full = quotas.session_full == "refuse"
    contexts.room.set_bounds(
        options["buffer_bytes"],
        options["queue_bytes"],
        machine.held(),
        keeps_reserve=machine.requests.refuses_full and bool(machine.others.names),
    )
    contexts.buffer.share_bytes = quotas.store_bytes_per_client_max
    machine.retained.set_bounds(*retained_bounds(quotas))
