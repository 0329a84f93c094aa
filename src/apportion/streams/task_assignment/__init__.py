"""Task assignment of Kafka Streams (KIP-441): active, standby and warm-up tasks of each client."""
