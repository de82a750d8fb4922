"""The parts of mobility schemes: small objects, each with its own messages, handlers and contexts."""
