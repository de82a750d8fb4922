"""What mobility schemes are composed of: small objects, each with its own messages, handlers and contexts."""
