"""RoamQ: publish/subscribe for clients that move."""

__version__ = "0.1.0"
