"""The drivers of machines in the real world: clocks, threads, event loops. None contains a rule."""
