"""What a mobile node runs: DRIP and SF, without any input or output of their own.

A node reacts to the messages that it receives and to its timers, and asks its host (`ports.NodeHost`) for
everything else. Nothing here imports the simulation (tests/test_architecture.py).
"""
