"""The sink for topics: rows become records, which librdkafka sends."""
