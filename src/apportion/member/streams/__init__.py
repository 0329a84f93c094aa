"""A member of a Kafka Streams group on either group protocol: state machines and assignors."""
