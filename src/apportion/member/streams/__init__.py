"""A member of a Kafka Streams group on the classic protocol: its state machine and its assignor."""
