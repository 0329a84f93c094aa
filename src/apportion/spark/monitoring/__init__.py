"""Sight of running queries: metrics, the source's report in their progress, and log lines."""
