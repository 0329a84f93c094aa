"""The drivers of machines in the real world: clocks, threads, event loops. No rule is in here."""
