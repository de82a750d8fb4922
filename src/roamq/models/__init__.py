"""Closed-form and numerical models: numbers in, numbers out.

Nothing here imports the rest of RoamQ; numpy and scipy suffice. A model that has no answer (a saturated queue, a
target out of reach) returns a value that says so or raises a `ValueError` that names the field; it never returns a
negative delay.
"""
