"""Brokers to test against: the embedded one, and a real Apache Kafka run from its jars."""

from typing import TYPE_CHECKING

from apportion.exports import lazily

if TYPE_CHECKING:
    from apportion.server.embedded import EmbeddedBroker
    from apportion.testing.kafka import KafkaMissing, RealKafka
else:
    __getattr__, __dir__ = lazily(
        __name__,
        {
            "EmbeddedBroker": "apportion.server.embedded",
            "KafkaMissing": "apportion.testing.kafka",
            "RealKafka": "apportion.testing.kafka",
        },
    )

__all__ = ["EmbeddedBroker", "KafkaMissing", "RealKafka"]
