"""Partition assignors: pure functions of NumPy integer arrays, without names, epochs or states.

Partitions are numbered 0..P-1 over all topics, topics in the caller's order: topic t has the
partitions `starts[t]` up to `starts[t + 1]`. Members are numbered 0..M-1 in the caller's order. An
owner vector holds for each partition the number of its member, or -1. Every tie falls to the lower
number, so an answer depends on nothing but these numbers.
"""
