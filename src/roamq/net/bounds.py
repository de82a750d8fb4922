"""The quotas of a live broker, given to the parts that keep them: when it is made, and when they change."""

from typing import TYPE_CHECKING, Any

from roamq.net.ops.settings import Settings
from roamq.net.topics.retained import retained_bounds

if TYPE_CHECKING:
    from roamq.net.machine import Machine


def scheme_options(settings: Settings) -> dict[str, Any]:
    """The options of the scheme; quotas say what may be stored, in all and for one client, unless the options do."""
    quotas = settings.quotas
    stored = {"buffer_bytes": quotas.store_bytes_max, "queue_bytes": quotas.session_bytes_max}
    return {**stored, **settings.scheme_options}


def set_quotas(machine: "Machine", settings: Settings) -> None:
    """Every part keeps to the quotas of `settings` from now on."""
    quotas, contexts, options = settings.quotas, machine.broker.contexts, scheme_options(settings)
    machine.outboxes.bytes_max = quotas.outbox_bytes_max
    machine.quota.sessions_max, machine.quota.bytes_max = quotas.sessions_max, quotas.sessions_bytes_max
    machine.requests.refuses_full = quotas.session_full == "refuse"
    contexts.set_bounds(
        options["buffer_bytes"],
        options["queue_bytes"],
        machine.held(),
        keeps_reserve=machine.requests.refuses_full and bool(machine.others.names),
    )
    contexts.buffer.share_bytes = quotas.store_bytes_per_client_max
    machine.retained.set_bounds(*retained_bounds(quotas))
