"""The invariants that are checked while a history is played."""
