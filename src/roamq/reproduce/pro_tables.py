"""Tables 2 to 4 of [PRO], as printed, and what its text says of Fig. 6."""

from typing import Final

Key = tuple[str, str, int]
"""Scheme, pattern, subscribers."""

PUBLISHED_THROUGHPUT: Final[dict[Key, float]] = {
    ("durable", "RND", 10): 86.99,
    ("durable", "RND", 100): 589.33,
    ("durable", "RND", 200): 806.81,
    ("durable", "NBR", 10): 86.28,
    ("durable", "NBR", 100): 574.32,
    ("durable", "NBR", 200): 791.74,
    ("reactive", "RND", 10): 92.39,
    ("reactive", "RND", 100): 664.39,
    ("reactive", "RND", 200): 980.77,
    ("reactive", "NBR", 10): 90.53,
    ("reactive", "NBR", 100): 663.63,
    ("reactive", "NBR", 200): 953.17,
    ("proactive", "RND", 10): 108.90,
    ("proactive", "RND", 100): 810.26,
    ("proactive", "RND", 200): 1172.77,
    ("proactive", "NBR", 10): 124.72,
    ("proactive", "NBR", 100): 957.32,
    ("proactive", "NBR", 200): 1420.26,
}
"""Table 2, messages per second of all subscribers."""

PUBLISHED_LOSS: Final[dict[Key, float]] = {
    ("durable", "RND", 10): 4.78,
    ("durable", "RND", 100): 5.14,
    ("durable", "RND", 200): 4.56,
    ("durable", "NBR", 10): 3.13,
    ("durable", "NBR", 100): 4.06,
    ("durable", "NBR", 200): 3.51,
    ("reactive", "RND", 10): 3.65,
    ("reactive", "RND", 100): 8.92,
    ("reactive", "RND", 200): 9.62,
    ("reactive", "NBR", 10): 5.14,
    ("reactive", "NBR", 100): 7.03,
    ("reactive", "NBR", 200): 9.44,
    ("proactive", "RND", 10): 2.25,
    ("proactive", "RND", 100): 0.86,
    ("proactive", "RND", 200): 0.58,
    ("proactive", "NBR", 10): 1.26,
    ("proactive", "NBR", 100): 0.72,
    ("proactive", "NBR", 200): 0.51,
}
"""Table 3, per cent."""

PUBLISHED_DUPLICATION: Final[dict[Key, float]] = {
    ("durable", "RND", 10): 11.35,
    ("durable", "RND", 100): 12.01,
    ("durable", "RND", 200): 17.05,
    ("durable", "NBR", 10): 12.10,
    ("durable", "NBR", 100): 11.68,
    ("durable", "NBR", 200): 16.97,
    ("reactive", "RND", 10): 0.80,
    ("reactive", "RND", 100): 1.70,
    ("reactive", "RND", 200): 2.13,
    ("reactive", "NBR", 10): 1.52,
    ("reactive", "NBR", 100): 0.85,
    ("reactive", "NBR", 200): 1.90,
} | {("proactive", pattern, n): 0.0 for pattern in ("RND", "NBR") for n in (10, 100, 200)}
"""Table 4, per cent."""

PUBLISHED_HANDOFF_S: Final = {"durable": (0.05, 0.6), "reactive": (1.2, 0.4), "proactive": (0.35, 0.6)}
"""Section 5.2.2: within how many seconds which share of handoffs was done; of reactive's, 60% took more."""
