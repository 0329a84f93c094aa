"""One application with topics of its own on a broker: its instances, what it is fed, and where
everything stands.
"""

import itertools
import random
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from confluent_kafka import Consumer, ConsumerGroupTopicPartitions, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from apportion.client.cluster import Cluster
from apportion.wire.codec import read
from apportion.wire.messages.describe_groups import DescribeGroupsRequest
from apportion.wire.records.consumer_protocol import ConsumerProtocolSubscription
from demo.flights import flights, message
from tests.compat.java.history import until
from tests.compat.streams.ledger import Ledger
from tests.compat.streams.program import Instance, Streams
from tests.compat.streams.python_instance import PythonInstance

NUMBERS = itertools.count(1)
VOCABULARY = ["rain", "wind", "sun", "snow", "hail", "fog", "dew", "frost", "storm", "cloud"]
PAUSE_S = 0.004
# so that a probing rebalance, which comes after a minute, is waited for where a leader wants one
SETTLED_WITHIN_S = 100
QUIET = {"log_level": 0, "reconnect.backoff.ms": 20, "reconnect.backoff.max.ms": 100}

Records = Iterator[tuple[bytes | None, bytes, list[str]]]
"""Key, value and words of each record."""


def lines() -> Records:
    """Records for the splitter `words`, without end: (key, value, words)."""
    chance = random.Random(1)
    while True:
        words = chance.choices(VOCABULARY, k=chance.randint(1, 6))
        yield None, " ".join(words).encode(), words


def departures() -> Records:
    """Records for the splitter `flights`: those of the demo, and of each its carrier and hour."""
    for flight in flights():
        yield *message(flight), [f"{flight['carrier']}|{flight['hour']}"]


RECORDS: dict[str, Callable[[], Records]] = {"words": lines, "flights": departures}


class Application:
    """What is counted is in `ledger`; `group` is the application's id. sources, words: partitions
    of its source and in between.
    """

    def __init__(self, bootstrap: str, splitter: str, *, sources: int = 4, words: int = 6) -> None:
        number = next(NUMBERS)
        self.bootstrap = bootstrap
        self.group = f"counters{number}"
        self.source, self.sink = f"{splitter}{number}", f"counted{number}"
        self.between, self.changelog = (
            f"{self.group}-words-repartition",
            f"{self.group}-counts-changelog",
        )
        self.tasks = [f"0_{each}" for each in range(sources)] + [
            f"1_{each}" for each in range(words)
        ]
        self.stateful = [task for task in self.tasks if task[0] == "1"]
        self.words = words
        self.instances: list[Instance | PythonInstance] = []
        self.ledger = Ledger()
        self._fixed: dict[str, Any] = {
            "splitter": splitter,
            "source": self.source,
            "sink": self.sink,
            "partitions": words,
        }
        self._records = RECORDS[splitter]()
        self._admin = AdminClient(
            {"bootstrap.servers": bootstrap, "metadata.recovery.strategy": "none", **QUIET}
        )
        made = self._admin.create_topics(
            [NewTopic(self.source, sources, 1), NewTopic(self.sink, 2, 1)]
        )
        for each in made.values():
            each.result(20)

    def start(self, program: Streams, name: str, directory: Path, **config: Any) -> Instance:
        """An instance in that process, with its state under `directory`; num_standby_replicas=1
        stands for that property.
        """
        fixed: dict[str, Any] = {
            "bootstrap.servers": self.bootstrap,
            "application.id": self.group,
            "client.id": f"{self.group}-{name}",
        }
        more: dict[str, Any] = {key.replace("_", "."): value for key, value in config.items()}
        fixed |= {"state.dir": str(directory / name), "application.server": f"{name}:1"}
        instance = program.start(
            f"{self.group} {name} {len(self.instances)}", self._fixed, fixed | more
        )
        self.instances.append(instance)
        return instance

    def settled(self, *instances: Instance | PythonInstance, standbys: int = 0) -> float:
        """These share all tasks: each is active once, and has that many copies elsewhere if it has
        a state. How long that took.

        Nobody has more than one above another. Of copies the leader's word is taken where the
        metadata version has one: a thread tells its tasks as they were when it began to run, and a
        copy may have had to wait for another thread to let go of it.
        """

        def shared() -> bool:
            if any(each.state != "RUNNING" for each in instances):
                return False
            sizes = [len(each.active) for each in instances]
            active = [task for each in instances for task in each.active]
            if sorted(active) != self.tasks or max(sizes) - min(sizes) > 1:
                return False
            return not standbys or (
                all(each.standby for each in instances) and self._have_copies(instances, standbys)
            )

        def shown() -> str:
            states = [
                f"{each.name} {each.state}: {each.active} {each.standby}" for each in instances
            ]
            return "\n".join([*states, f"the leader's word: {instances[0].report()}"])

        return until(
            shared,
            lambda: f"{len(instances)} share the tasks of {self.group}:\n{shown()}",
            SETTLED_WITHIN_S,
        )

    def _have_copies(self, instances: tuple[Instance | PythonInstance, ...], standbys: int) -> bool:
        """Whether each task with a state has so many copies, none of them where it is active."""
        hosts = instances[0].report().values()
        wanted = sorted(f"{topic}-{number}" for topic, number in self.partitions_of(self.stateful))
        copies = sorted(partition for each in hosts for partition in each["standby"])
        if not copies:  # below version 6, in which nobody is told where copies are
            return sorted(task for each in instances for task in each.standby) == sorted(
                self.stateful * standbys
            )
        return copies == sorted(wanted * standbys) and all(
            not set(each["active"]) & set(each["standby"]) for each in hosts
        )

    def partitions_of(self, tasks: list[str]) -> list[tuple[str, int]]:
        """The (topic, partition) that these tasks read."""
        return [
            (self.source if task.startswith("0_") else self.between, int(task[2:]))
            for task in tasks
        ]

    def feed(self, count: int) -> None:
        """So many records more are in the source."""
        with self.flow() as flow:
            until(lambda: flow.sent >= count, f"{count} records are sent")

    @contextmanager
    def flow(self) -> "Iterator[Flow]":
        """Records come one by one from here to the end of the block, and all of them have arrived
        then.
        """
        flow = Flow(self.bootstrap, self.source, self._records, self.ledger)
        flow.start()
        try:
            yield flow
        finally:
            flow.stopping.set()
            flow.join(60)
        assert (flow.is_alive(), flow.failed) == (False, [])

    def committed(self) -> dict[tuple[str, int], int]:
        """{(topic, partition): offset} as the group has committed."""
        asked = ConsumerGroupTopicPartitions(self.group)
        listed = self._admin.list_consumer_group_offsets([asked])[self.group].result(20)
        return {
            (each.topic, each.partition): each.offset
            for each in listed.topic_partitions
            if each.offset >= 0
        }

    def bounds(self, topic: str) -> dict[tuple[str, int], tuple[int, int]]:
        """{(topic, partition): (start, end)} of its logs."""
        with self._reader() as reader:
            return {
                partition: reader.get_watermark_offsets(TopicPartition(*partition), 10)
                for partition in self._places(topic)
            }

    def spoken(self) -> dict[str, int]:
        """The version of Kafka Streams' metadata in each instance's subscription, once the group is
        stable.
        """
        asked: Any = []
        until(
            lambda: asked.append(self._described()) or asked[-1].group_state == "Stable",
            f"{self.group} is stable",
        )
        versions = {}
        subscription: Any
        for member in asked[-1].members:
            subscription, _ = read(ConsumerProtocolSubscription, 0, member.member_metadata, 2)
            name = member.client_id.removeprefix(f"{self.group}-").split("-StreamThread")[0]
            versions[name] = int.from_bytes(subscription.user_data[:4], "big")
        return versions

    def _described(self) -> Any:
        cluster = Cluster(self.bootstrap)
        try:
            return cluster.call(
                DescribeGroupsRequest(groups=(self.group,)), coordinator=self.group
            ).groups[0]
        finally:
            cluster.close()

    def purged(self) -> bool:
        """All that was read in between has been deleted."""
        until(
            lambda: all(start == end for start, end in self.bounds(self.between).values()),
            "what was read is deleted",
        )
        return True

    def words_of(self, taken: dict[tuple[str, int], list[int]]) -> set[str]:
        """The places of the words that came of these records: {(topic, partition): offsets}, of the
        source or from in between.
        """
        positions = {
            position
            for each in self.instances
            for topic, partition, offset, position in each.took
            if offset in taken.get((topic, partition), ())
        }
        return {
            f"{position}#{number}"
            for position in positions
            for number in range(len(self.ledger.words_at(position)))
        } | positions

    def counted(self) -> Ledger:
        """Every word of every record has been counted and its count has come to the sink; what was
        counted, told by the ledger.
        """
        with self._following(self.changelog) as changes, self._following(self.sink) as results:

            def done() -> bool:
                for each in changes():
                    self.ledger.changed(each.key().decode(), each.value().decode())
                for each in results():
                    self.ledger.came(each.key().decode(), int.from_bytes(each.value(), "big"))
                return self.ledger.is_done

            self.ledger.begin()
            until(done, self.ledger.missing)
        return self.ledger

    @contextmanager
    def _following(self, topic: str) -> Iterator[Callable[[], list[Any]]]:
        """A function that gives what has come into `topic` since its last call."""
        with self._reader() as reader:
            reader.assign([TopicPartition(*partition, 0) for partition in self._places(topic)])
            yield lambda: reader.consume(1000, 0.05)

    @contextmanager
    def _reader(self) -> Iterator[Any]:
        reader = Consumer(
            {
                "bootstrap.servers": self.bootstrap,
                "group.id": "readers",
                "enable.auto.commit": False,
                **QUIET,
            }
        )
        try:
            yield reader
        finally:
            reader.close()

    def _places(self, topic: str) -> list[tuple[str, int]]:
        return [
            (topic, each) for each in self._admin.list_topics(topic, 10).topics[topic].partitions
        ]


class Flow(threading.Thread):
    """A producer of records until `stopping`; `sent` is how many the broker has acknowledged."""

    def __init__(self, bootstrap: str, topic: str, records: Records, ledger: Ledger) -> None:
        super().__init__(daemon=True)
        self.stopping = threading.Event()
        self.sent = 0
        self.failed: list[Any] = []
        self._topic, self._records, self._ledger = topic, records, ledger
        self._producer: Any = Producer(
            {"bootstrap.servers": bootstrap, "enable.idempotence": True, "linger.ms": 1, **QUIET}
        )

    def run(self) -> None:
        for key, value, words in self._records:
            self._producer.produce(
                self._topic,
                value,
                key,
                on_delivery=lambda error, sent, words=words: self._told(error, sent, words),
            )
            self._producer.poll(0)
            if self.stopping.wait(PAUSE_S):
                break
        self._producer.flush(30)

    def _told(self, error: Any, sent: Any, words: list[str]) -> None:
        if error is not None:
            self.failed.append(error)
            return
        self._ledger.fed(f"{sent.topic()}-{sent.partition()}@{sent.offset()}", words)
        self.sent += 1


def repeats(instances: Sequence[Instance | PythonInstance]) -> dict[tuple[str, int], list[int]]:
    """{(topic, partition): the offsets that were taken more than once, in order}."""
    taken = Counter(
        (topic, partition, offset)
        for each in instances
        for topic, partition, offset, _ in each.took
    )
    offsets_read: dict[tuple[str, int], list[int]] = {}
    for topic, partition, offset in sorted(
        position for position, times in taken.items() if times > 1
    ):
        offsets_read.setdefault((topic, partition), []).append(offset)
    return offsets_read
