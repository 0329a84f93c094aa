"""Classic groups: a barrier machine. Everybody joins, one of them assigns, everybody takes its
assignment home.
"""
