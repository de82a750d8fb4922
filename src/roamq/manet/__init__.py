"""Publish/subscribe in a mobile ad hoc network, where the brokers are mobile nodes themselves ([DRIP]).

`protocol` is what a node runs: DRIP, and the epidemic framework SF that the paper compares it with. It touches
neither clock nor network. `simulation` moves many such nodes around in virtual time and carries their messages.
"""
