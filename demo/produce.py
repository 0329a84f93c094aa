"""Flights as events: produced with confluent-kafka, paced, from a thread of its own."""

import threading
from collections.abc import Iterable
from itertools import islice

from confluent_kafka import KafkaException, Message, Producer

from demo.flights import Flight, message

STEP_S = 0.1
SLOW_SHARE = 300


class PacedProducer(threading.Thread):
    """A thread that produces `count` flights to `topic`, about `per_second`.

    Until `finish` is called, a step sends at most one in SLOW_SHARE of the flights that are left,
    so that the flow slows down and does not end before the script needs no more of it.
    error: what failed, if anything has.
    """

    def __init__(
        self, bootstrap: str, topic: str, flights: Iterable[Flight], count: int, per_second: float
    ) -> None:
        super().__init__(name="producer", daemon=True)
        self._topic, self._flights, self._count, self._per_step = (
            topic,
            iter(flights),
            count,
            max(1, round(per_second * STEP_S)),
        )
        self._producer = Producer(
            {
                "bootstrap.servers": bootstrap,
                "compression.type": "lz4",
                "linger.ms": 50,
                "enable.idempotence": True,
                "log_level": 0,  # failures arrive as errors; the end of the broker is no failure
            }
        )
        self._stopped = threading.Event()
        self._finishing = threading.Event()
        self.sent = 0
        self.acknowledged = 0
        self.error: str | None = None

    def run(self) -> None:
        """Send everything, a little at each step, and wait for the last acknowledgement."""
        try:
            while self.sent < self._count and not self._stopped.wait(STEP_S):
                for flight in islice(self._flights, self._step_size()):
                    key, value = message(flight)
                    self._produce(key, value)
                    self.sent += 1
                self._producer.poll(0)
            if not self._stopped.is_set():
                self._producer.flush(60)
        except (KafkaException, OSError) as error:
            self.error = str(error)
        if self.error is None and not self._stopped.is_set() and self.acknowledged < self._count:
            self.error = f"only {self.acknowledged} of {self._count} events were acknowledged"

    def _step_size(self) -> int:
        remaining = self._count - self.sent
        return min(
            self._per_step, remaining if self._finishing.is_set() else remaining // SLOW_SHARE
        )

    def _produce(self, key: bytes | None, value: bytes) -> None:
        while not self._stopped.is_set():
            try:
                self._producer.produce(self._topic, value, key, on_delivery=self._delivered)
                return
            except BufferError:  # the broker is slower than we are
                self._producer.poll(STEP_S)

    def _delivered(self, error: object, _message: Message) -> None:
        if error is None:
            self.acknowledged += 1
        else:
            self.error = str(error)

    def finish(self) -> None:
        """Send all remaining flights at full pace."""
        self._finishing.set()

    def end(self) -> None:
        """Stop before the last flight."""
        self._stopped.set()
