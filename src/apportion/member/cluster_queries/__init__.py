"""Queries to a cluster as values: each has its request, and reads its response."""
