"""Kafka's bytes: messages, frames, record batches, compression, and the table of APIs."""
