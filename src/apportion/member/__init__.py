"""The client's side of a group, as pure machines and rules: membership, commits, batches as values,
and what to read next.
"""
