"""Every order of messages on a small network: an explorer, and what it checks."""
