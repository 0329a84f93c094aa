"""The rule of members that read record by record: `Consumer` and `StreamsConsumer`."""
