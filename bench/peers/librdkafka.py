"""The librdkafka that confluent-kafka ships, without a Python object for each message.

With one, Python is what takes the time, and brokers of different speeds look alike.
"""

import ctypes
import time
from collections.abc import Mapping
from pathlib import Path

import confluent_kafka
from bench.peers.rows import PeerMissing

BATCH = 50_000
ERROR_BYTES = 512
PRODUCER, CONSUMER = 0, 1  # rd_kafka_type_t
ANY_PARTITION = -1
HANDLE = ctypes.c_void_p


class RawMessage(ctypes.Structure):
    """A rd_kafka_message_t."""

    _fields_ = (
        ("error", ctypes.c_int),
        ("topic", ctypes.c_void_p),
        ("partition", ctypes.c_int32),
        ("payload", ctypes.c_void_p),
        ("size", ctypes.c_size_t),
        ("key", ctypes.c_void_p),
        ("key_size", ctypes.c_size_t),
        ("offset", ctypes.c_int64),
        ("private", ctypes.c_void_p),
    )


TEXT, INT, SIZE = ctypes.c_char_p, ctypes.c_int, ctypes.c_size_t
MESSAGE = ctypes.POINTER(RawMessage)
MESSAGES = ctypes.POINTER(MESSAGE)
DECLARED = (
    ("rd_kafka_conf_new", (), HANDLE),
    ("rd_kafka_conf_set", (HANDLE, TEXT, TEXT, TEXT, SIZE), INT),
    ("rd_kafka_new", (INT, HANDLE, TEXT, SIZE), HANDLE),
    ("rd_kafka_topic_new", (HANDLE, TEXT, HANDLE), HANDLE),
    ("rd_kafka_topic_destroy", (HANDLE,), None),
    ("rd_kafka_destroy", (HANDLE,), None),
    ("rd_kafka_produce_batch", (HANDLE, ctypes.c_int32, INT, MESSAGE, INT), INT),
    ("rd_kafka_flush", (HANDLE, INT), INT),
    ("rd_kafka_queue_new", (HANDLE,), HANDLE),
    ("rd_kafka_queue_destroy", (HANDLE,), None),
    ("rd_kafka_consume_start_queue", (HANDLE, ctypes.c_int32, ctypes.c_int64, HANDLE), INT),
    (
        "rd_kafka_consume_batch_queue",
        (HANDLE, INT, MESSAGES, SIZE),
        ctypes.c_ssize_t,
    ),
    ("rd_kafka_consume_stop", (HANDLE, ctypes.c_int32), INT),
    ("rd_kafka_message_destroy", (MESSAGE,), None),
)


def library() -> ctypes.CDLL:
    """Return the shared library. Raises PeerMissing."""
    site = Path(confluent_kafka.__file__).parent.parent
    for path in site.glob("confluent_kafka.libs/librdkafka*"):
        loaded = ctypes.CDLL(str(path))
        for name, arguments, returned in DECLARED:
            function = getattr(loaded, name)
            function.argtypes, function.restype = arguments, returned
        return loaded
    raise PeerMissing("confluent-kafka is not a wheel with librdkafka inside; reinstall it by pip")


class RawClient:
    """A producer or consumer of one topic; a context manager."""

    def __init__(self, kind: int, settings: Mapping[str, str], topic: str) -> None:
        """Create the client of this kind. Raises PeerMissing with librdkafka's reason."""
        self._kafka = kafka = library()
        conf = kafka.rd_kafka_conf_new()
        error = ctypes.create_string_buffer(ERROR_BYTES)
        for name, value in settings.items():
            if kafka.rd_kafka_conf_set(conf, name.encode(), value.encode(), error, ERROR_BYTES):
                raise PeerMissing(f"librdkafka: {error.value.decode()}")
        self._client = kafka.rd_kafka_new(kind, conf, error, ERROR_BYTES)
        if not self._client:
            raise PeerMissing(f"librdkafka: {error.value.decode()}")
        self._topic = kafka.rd_kafka_topic_new(self._client, topic.encode(), None)

    def __enter__(self) -> "RawClient":
        return self

    def __exit__(self, *_error: object) -> None:
        self._kafka.rd_kafka_topic_destroy(self._topic)
        self._kafka.rd_kafka_destroy(self._client)

    def seconds_to_produce(self, value: bytes, messages: int, limit_s: float) -> float:
        """Return the seconds until as many messages are acknowledged, or the limit."""
        payload = ctypes.create_string_buffer(value, len(value))
        address = ctypes.addressof(payload)
        batch = (RawMessage * BATCH)(*[RawMessage(payload=address, size=len(value))] * BATCH)
        started = time.perf_counter()
        for _ in range(messages // BATCH):
            self._kafka.rd_kafka_produce_batch(self._topic, ANY_PARTITION, 0, batch, BATCH)
        self._kafka.rd_kafka_flush(self._client, int(limit_s * 1_000))
        return time.perf_counter() - started

    def seconds_to_read(self, partitions: int, messages: int, limit_s: float) -> float:
        """Return the seconds in which as many messages were read, from the beginning.

        Raises PeerMissing if there are too few of them within the limit.
        """
        kafka = self._kafka
        queue = kafka.rd_kafka_queue_new(self._client)
        started = time.perf_counter()
        for partition in range(partitions):
            kafka.rd_kafka_consume_start_queue(self._topic, partition, 0, queue)
        read = self._read(queue, messages, started + limit_s)
        took = time.perf_counter() - started
        for partition in range(partitions):
            kafka.rd_kafka_consume_stop(self._topic, partition)
        kafka.rd_kafka_queue_destroy(queue)
        if read < messages:
            raise PeerMissing(f"only {read:,} of {messages:,} messages were read in {limit_s} s")
        return took

    def _read(self, queue: int, messages: int, deadline: float) -> int:
        batch = (MESSAGE * BATCH)()
        destroy = self._kafka.rd_kafka_message_destroy
        read = 0
        while read < messages and time.perf_counter() < deadline:
            count = self._kafka.rd_kafka_consume_batch_queue(queue, 100, batch, BATCH)
            for at in range(count):
                message = batch[at]
                read += message.contents.error == 0
                destroy(message)
        return read
