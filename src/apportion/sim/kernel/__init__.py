"""Simulated time, network and scenarios: the ground of every simulation. It imports no actor."""
