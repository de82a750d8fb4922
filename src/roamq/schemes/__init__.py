"""Mobility schemes: where a client's context lives, and when it moves. `table.py` has their names."""
