"""A reference model of MQTT's semantics, written from the standard, and an explorer that plays sequences against it.

`model.py` is the standard, `actions.py` draws sequences, `play.py` plays them against a network and the model at once:
a simulated one, or brokers on loopback (`live.py`). `python -m tests.net.reference --help` says how to explore.
"""
