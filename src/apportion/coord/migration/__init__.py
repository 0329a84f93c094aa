"""Migration (KIP-848): a classic group becomes a consumer group, or the other way round."""
