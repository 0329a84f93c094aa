"""The durable log over one port: segments in Kafka's format, found again after any crash."""
