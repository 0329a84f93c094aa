"""The producer of a Python worker: librdkafka's, idempotent, with the partitioner of Kafka's own.

`TopicProducer.write` returns once the brokers have acknowledged every record, and raises NotWritten
as soon as one of them failed. Its memory is bounded by the producer's buffer: a task waits while
that is full.
"""

import logging
import socket
from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import Any

from apportion.spark.connections.kept_open import KeptOpen
from apportion.spark.options.topic_write import TopicWriterOptions
from apportion.spark.topic_sink.producer_security import producer_security
from apportion.spark.topic_sink.records import NotWritten, OutgoingRecord
from apportion.spark.topic_sink.unwritten_records import (
    NO_LIBRARY,
    producer_sentence,
    record_sentence,
)
from apportion.spark.topic_sink.writable_topics import WritableTopics

log = logging.getLogger("apportion.spark")
PRODUCERS_OF_A_WORKER = 4
"""Of so many queries a Python worker keeps the producer, with its connections."""
RECORDS_A_POLL = 1_000
WAIT_S = 0.1
PURGE_S = 5.0
QUIET = 2
"""librdkafka's own log lines: none of connections, of which there would be one for each attempt."""
FIXED = {
    "enable.idempotence": True,
    "acks": "all",
    # Java's: murmur2 of the key. Records without a key stay with one partition for a while.
    "partitioner": "murmur2_random",
    # A name that is misspelt must make no topic.
    "allow.auto.create.topics": False,
    # The buffer is bounded by its bytes, as in Java. A record takes some hundred bytes beside them.
    "queue.buffering.max.messages": 200_000,
    "log_level": QUIET,
}


class TopicProducer:
    """An idempotent producer, which one task after another uses."""

    def __init__(self, options: TopicWriterOptions) -> None:
        """Start the producer. Raises NotWritten where it cannot be."""
        self._sent = self._delivered = 0
        self._failures: list[str] = []
        self._bootstrap, self._is_away = options.bootstrap, False
        callbacks = {"on_delivery": self._record_report, "error_cb": self._log_outage}
        try:
            self.topics = WritableTopics(options)
            self._producer: Any = _new_producer(options, callbacks)
        except ValueError as error:
            # The driver has the file, and this host has not. The text has no secret.
            raise NotWritten(f"on {socket.gethostname()}: {error}") from None

    def write(self, records: Iterable[OutgoingRecord]) -> int:
        """Send the records and wait until all are acknowledged; return how many there were.

        Raises NotWritten for the first that fails. Then the others may be written or not, and this
        producer is of no use any more.
        """
        before = self._sent
        try:
            for topic, partition, key, value, headers in records:
                self.topics.require(topic, partition)
                self._send(topic, partition, key, value, headers)
                if self._sent % RECORDS_A_POLL == 0:
                    self._serve_reports(0)
            while len(self._producer):
                self._serve_reports(WAIT_S)
        except BaseException:
            # What waits must not be written after the task has failed.
            self._purge()
            raise
        assert self._delivered == self._sent, "a record has no delivery report"
        return self._sent - before

    def close(self) -> None:
        """Close the connections of look-ups; librdkafka's own end with the producer."""
        self.topics.close()

    def _send(self, topic: str, partition: int, *content: Any) -> None:
        """Give a record to librdkafka. Waits while its buffer is full."""
        from confluent_kafka import KafkaException

        key, value, headers = content
        while True:
            try:
                self._producer.produce(topic, value, key, partition, headers=headers)
            except BufferError:
                # Records leave the buffer once they are acknowledged, or have waited for
                # kafka.delivery.timeout.ms.
                self._serve_reports(WAIT_S)
            except KafkaException as error:
                # An earlier record, or the producer as a whole, may be the reason.
                self._serve_reports(0)
                raise NotWritten(record_sentence(error.args[0], topic, partition)) from None
            else:
                self._sent += 1
                return

    def _purge(self) -> None:
        """Forget what was not sent yet."""
        from confluent_kafka import KafkaException

        self._producer.purge()
        # After a fatal error this raises it again.
        with suppress(KafkaException):
            self._producer.flush(PURGE_S)

    def _serve_reports(self, wait_s: float) -> None:
        """Take the delivery reports that are there. Raises NotWritten if one says of a failure."""
        from confluent_kafka import KafkaException

        try:
            self._producer.poll(wait_s)
        except KafkaException as error:
            raise NotWritten(producer_sentence(error.args[0])) from None
        if self._failures:
            raise NotWritten(self._failures[0])

    def _record_report(self, error: Any, message: Any) -> None:
        """Count a record that was acknowledged, and keep why one was not."""
        if error is None:
            self._delivered += 1
            self._is_away = False
        elif not self._failures:
            # The first alone: the others mostly fail for the same reason, or were purged.
            self._failures.append(record_sentence(error, message.topic(), message.partition()))

    def _log_outage(self, error: Any) -> None:
        """Log that no broker can be reached, once in each outage; the records wait meanwhile."""
        if error.name() == "_ALL_BROKERS_DOWN" and not self._is_away:
            self._is_away = True
            log.warning("no broker of %s can be reached: records wait", self._bootstrap)


def _new_producer(options: TopicWriterOptions, callbacks: Mapping[str, Any]) -> Any:
    """Return librdkafka's producer. Raises NotWritten if the package is not there."""
    try:
        from confluent_kafka import KafkaException, Producer
    except ImportError:
        raise NotWritten(NO_LIBRARY) from None
    try:
        return Producer(
            {
                **FIXED,
                **dict(options.producer),
                **producer_security(options.security),
                "bootstrap.servers": options.bootstrap,
                "client.id": options.client_id,
                **callbacks,
            }
        )
    except KafkaException as error:
        # Its text is of settings, and names no value that is secret.
        why = error.args[0].str().strip()
        raise NotWritten(f"librdkafka cannot be set up with these options: {why}") from None


PRODUCERS = KeptOpen(PRODUCERS_OF_A_WORKER, TopicProducer)
"""The producers of a Python worker, by the options of the write."""
