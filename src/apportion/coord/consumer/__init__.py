"""Groups that rebalance one member at a time (KIP-848): the spine of a heartbeat, and the rules that it asks."""
