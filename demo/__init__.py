"""The demonstration: Spark applications share one group, lose one, roll to a new version, and write
every flight once.
"""
