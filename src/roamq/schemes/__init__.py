"""Mobility schemes. Importing this package makes all of them selectable by name."""

from roamq.schemes import (
    durable,
    home_broker,
    logging,
    on_device,
    prefetching,
    prehandoff,
    proactive,
    reactive,
    standard,
)
from roamq.schemes.base import Scheme, scheme_by_name, scheme_names

__all__ = [
    "Scheme",
    "durable",
    "home_broker",
    "logging",
    "on_device",
    "prefetching",
    "prehandoff",
    "proactive",
    "reactive",
    "scheme_by_name",
    "scheme_names",
    "standard",
]
