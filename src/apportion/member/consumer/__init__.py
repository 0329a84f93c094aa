"""A member of a consumer group (KIP-848), as a machine."""
