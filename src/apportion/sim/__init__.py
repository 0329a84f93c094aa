"""The whole system under a seed: real machines in a simulated world with faults, and laws that are
checked after every step.
"""
