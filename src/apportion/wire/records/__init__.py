"""Bytes that are no API messages: the records of __consumer_offsets, and the consumer protocol of
classic groups.
"""
