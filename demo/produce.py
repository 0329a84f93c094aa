"""Flights as events: produced with confluent-kafka, paced, from a thread of its own."""

import threading
from collections.abc import Sequence
from time import monotonic

from confluent_kafka import KafkaException, Message, Producer

from demo.flights import Flight, message


class PacedProducer(threading.Thread):
    """Produces `flights` to `topic` at about `per_second`; `sent` grows, `acknowledged` follows, `error` says what failed."""

    def __init__(self, bootstrap: str, topic: str, flights: Sequence[Flight], per_second: float) -> None:
        super().__init__(name="producer", daemon=True)
        self._topic, self._flights, self._per_second = topic, flights, per_second
        self._producer = Producer(
            {"bootstrap.servers": bootstrap, "compression.type": "lz4", "linger.ms": 50, "enable.idempotence": True}
        )
        self._ended = threading.Event()
        self.sent = 0
        self.acknowledged = 0
        self.error: str | None = None

    def run(self) -> None:
        """Send everything, ten times a second as much as is due, and wait for the last acknowledgement."""
        began = monotonic()
        try:
            while self.sent < len(self._flights) and not self._ended.is_set():
                due = min(len(self._flights), int((monotonic() - began) * self._per_second))
                for flight in self._flights[self.sent : due]:
                    key, value = message(flight)
                    self._producer.produce(self._topic, value, key, on_delivery=self._delivered)
                self.sent = max(self.sent, due)
                self._producer.poll(0)
                self._ended.wait(0.1)
            self._producer.flush(60)
        except (KafkaException, BufferError) as error:
            self.error = str(error)
        if self.error is None and not self._ended.is_set() and self.acknowledged < len(self._flights):
            self.error = f"only {self.acknowledged} of {len(self._flights)} events were acknowledged"

    def _delivered(self, error: object, sent: Message) -> None:
        if error is None:
            self.acknowledged += 1
        else:
            self.error = str(error)

    def end(self) -> None:
        """Stop early."""
        self._ended.set()
