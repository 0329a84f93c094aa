"""Simulated upgrades of Kafka Streams applications."""
