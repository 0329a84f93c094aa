"""An instance of `Counters` in Python: the same topology, topics and store, run by an
`apportion.StreamsConsumer`.

It tells what an instance in Java tells, so that one test can have both. Its store is restored from
the changelog that any instance has written, and what it counts goes there for any instance to take
over.
"""

import threading
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from confluent_kafka import Producer

import apportion
from apportion.client.cluster import Cluster
from apportion.errors import Refused
from apportion.member.streams.assignor import TaskShare
from apportion.streams.metadata.model import TaskId
from apportion.topics import TopicIdPartition
from apportion.wire.batch import decode_batch
from apportion.wire.messages.list_offsets import EARLIEST, LATEST

if TYPE_CHECKING:
    from tests.compat.streams.application import Application

COUNTING = 1  # the subtopology with the store


class PythonInstance(threading.Thread):
    """Runs from `start` to `leave`. What it tells is as of its last poll; it ends with `failed` if
    it cannot go on.
    """

    def __init__(self, application: "Application", name: str, **options: Any) -> None:
        super().__init__(name=f"{application.group} {name}", daemon=True)
        self.took: list[tuple[str, int, int, str]] = []
        self.share = TaskShare()
        self.failed: str | None = None
        self._application = application
        self._options = options
        self._stores: dict[int, dict[bytes, int]] = {}  # number of the task -> word -> count
        self._stopping = threading.Event()

    @property
    def state(self) -> str:
        """RUNNING while it is a member, as `Counters` says."""
        return "RUNNING" if self.failed is None else f"failed: {self.failed}"

    @property
    def active(self) -> list[str]:
        """The tasks that it works on, in order."""
        return sorted(map(str, self.share.active))

    @property
    def standby(self) -> list[str]:
        """It keeps no copies of what others run."""
        return []

    def report(self) -> dict[str, Any]:
        """It answers no queries, so it has not heard who does."""
        return {}

    def leave(self) -> None:
        """It is out of its group, with everything committed."""
        self._stopping.set()
        self.join(60)
        assert (self.is_alive(), self.failed) == (False, None)

    def run(self) -> None:
        """See the class."""
        application = self._application
        topology: list[Any] = [
            {"sources": [application.source], "repartition_sinks": [application.between]},
            {
                "repartition_sources": [
                    {"name": application.between, "partitions": application.words}
                ],
                "changelogs": [application.changelog],
            },
        ]
        self._producer = Producer(
            {
                "bootstrap.servers": application.bootstrap,
                "linger.ms": 1,
                "partitioner": "murmur2_random",
                "log_level": 0,
            }
        )
        self._cluster = Cluster(application.bootstrap)
        options: dict[str, Any] = {
            "acceptable_recovery_lag": 2**63 - 1,
            "session_timeout_ms": 6_000,
            "heartbeat_interval_ms": 300,
            "client_id": f"{application.group}-{self.name.split()[1]}",
        }
        try:
            with apportion.StreamsConsumer(
                application.bootstrap,
                application.group,
                topology=topology,
                on_tasks=self._take_over,
                on_revoked=lambda partitions: self._save(),
                **(options | self._options),
            ) as self._consumer:
                while not self._stopping.is_set():
                    for task, record in self._consumer.poll_tasks(50):
                        (self._count if task.subtopology == COUNTING else self._split)(task, record)
                    self._save()
                    self.share = self._consumer.tasks
        except Exception as problem:
            self.failed = repr(problem)
        finally:
            self.share = TaskShare()
            self._cluster.close()

    def _save(self) -> None:
        """Everything that was read is worked off, its results are on the broker, and the group
        knows.
        """
        assert self._producer.flush(20) == 0
        # a rebalance is under way; what was not stored is stored before anything is given up
        with suppress(Refused):
            self._consumer.commit()

    def _take_over(self, share: TaskShare) -> None:
        """The stores of new tasks are as their changelogs say."""
        for task in share.active:
            if task.subtopology == COUNTING and task not in self.share.active:
                self._stores[task.partition] = self._restored(task)
        self.share = share

    def _restored(self, task: TaskId) -> dict[bytes, int]:
        topic: Any = self._cluster.topics([self._application.changelog], fresh=True).named(
            self._application.changelog
        )
        partition = TopicIdPartition(topic.name, topic.id, task.partition)
        start, end = (
            self._cluster.list_offsets([partition], when)[partition] for when in (EARLIEST, LATEST)
        )
        store: dict[bytes, int] = {}
        record: Any
        for batch in self._cluster.fetch_range(partition, start, end):
            for record in decode_batch(batch):
                store[record.key] = int(record.value.split(b" ")[0])
        return store

    def _split(self, task: TaskId, record: Any) -> None:
        position = f"{record.topic}-{record.partition}@{record.offset}"
        self.took.append((record.topic, record.partition, record.offset, position))
        for number, word in enumerate(record.value.decode().split(" ")):
            self._produce(self._application.between, word, f"{position}#{number}".encode())

    def _count(self, task: TaskId, record: Any) -> None:
        self.took.append((record.topic, record.partition, record.offset, record.value.decode()))
        store = self._stores[task.partition]
        store[record.key] = count = store.get(record.key, 0) + 1
        self._produce(
            self._application.changelog,
            record.key,
            b"%d %s" % (count, record.value),
            partition=task.partition,
        )
        self._produce(self._application.sink, record.key, count.to_bytes(8, "big"))

    def _produce(self, topic: str, key: bytes | str, value: bytes, **where: Any) -> None:
        self._producer.produce(topic, value, key, **where)
        self._producer.poll(0)
