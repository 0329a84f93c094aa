"""The client-side assignors of classic groups, and all that one needs to write another.

How to write one: docs/assignors.md.
"""
