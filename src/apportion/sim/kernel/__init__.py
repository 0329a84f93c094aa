"""Simulated time, network and scenarios: what every simulated history stands on."""
