"""Named tuples that are made by the million."""

from typing import Final

new_tuple: Final = tuple.__new__
"""Makes a named tuple from all its fields, `new_tuple(Record, (...))`, without the call of a function in Python."""
