"""A mobile ad hoc network in virtual time: how nodes move, how their radio works, and what they detect.

`experiment` runs a whole setting from one seed; `network` is the host of all its nodes.
"""
