"""Running queries: run, stopped, and asked for their batch, their plan and their checkpoint."""
