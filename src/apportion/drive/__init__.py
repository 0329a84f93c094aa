"""The drivers of machines in the real world: clocks, threads, event loops, files of keys.

No rule is in here.
"""
