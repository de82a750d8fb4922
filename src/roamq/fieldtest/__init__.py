"""Field tests: a simulator's scenario on real brokers, with the same moves, filters and metrics."""
