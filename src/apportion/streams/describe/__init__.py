"""A Kafka Streams group, read from the bytes of its members."""
