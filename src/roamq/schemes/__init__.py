"""Mobility schemes. Importing this package makes all of them selectable by name."""

from roamq.schemes import proactive, standard
from roamq.schemes.base import Scheme, scheme_by_name, scheme_names

__all__ = ["Scheme", "proactive", "scheme_by_name", "scheme_names", "standard"]
