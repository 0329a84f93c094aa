"""Bytes to values and back, for Kafka's protocol; no policy. Start at `table.py`."""
