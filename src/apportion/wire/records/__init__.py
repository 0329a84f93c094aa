"""Bytes that are no API messages: records of `__consumer_offsets`, and the consumer protocol."""
