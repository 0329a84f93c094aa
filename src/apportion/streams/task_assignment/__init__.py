"""Task assignment of Kafka Streams: who runs which task, who stands by, who warms up."""
