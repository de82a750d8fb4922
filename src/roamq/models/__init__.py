"""Closed-form and numerical models: numbers in, numbers out.

Nothing here imports the rest of RoamQ; numpy and scipy suffice. What a model cannot answer (a saturated
queue, a target out of reach) is said as a value or a `ValueError` that names the field, never as a negative
delay.
"""
