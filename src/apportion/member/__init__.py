"""The client side of a group, without input and output: members, assignors, and batch planning."""
