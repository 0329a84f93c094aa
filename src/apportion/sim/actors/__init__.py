"""Whoever takes part in a simulated history: broker, members, workers, admin."""
