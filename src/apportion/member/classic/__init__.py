"""A member of a classic group, as a machine."""
