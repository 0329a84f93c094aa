"""The demonstration: Spark applications that share a group, lose a host and roll to a new version.

Every real event is written once; start at `play.py`.
"""
