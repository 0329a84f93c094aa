"""The simulator: the real machines in a seeded simulation with faults, and laws checked all along.

`play.py` plays one history, `kernel/scenario.py` says what is simulated, `faults.py` injects the
faults, `checks/` has the laws.
"""
