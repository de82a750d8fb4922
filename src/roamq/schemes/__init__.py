"""Mobility schemes. Importing this package makes all of them selectable by name."""

from roamq.schemes import home_broker, logging, on_device, prefetching, prehandoff, proactive, standard
from roamq.schemes.base import Scheme, scheme_by_name, scheme_names

__all__ = [
    "Scheme",
    "home_broker",
    "logging",
    "on_device",
    "prefetching",
    "prehandoff",
    "proactive",
    "scheme_by_name",
    "scheme_names",
    "standard",
]
