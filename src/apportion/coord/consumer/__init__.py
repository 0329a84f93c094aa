"""Consumer groups (KIP-848), which rebalance one member at a time."""
