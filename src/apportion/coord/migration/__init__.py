"""Migration (KIP-848): a classic group becomes a consumer group, or a consumer group a classic
one.
"""
