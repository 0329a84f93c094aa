"""The processes that belong to no group: topic administration, a producer, a monitor of offsets."""

from collections.abc import Mapping
from typing import Any

from apportion.errors import Code, Refused, Unanswerable
from apportion.member.cluster_queries.configs import AlterConfigsQuery
from apportion.member.cluster_queries.groups import ConsumerGroupDescribeQuery
from apportion.member.cluster_queries.offsets import OffsetFetchQuery
from apportion.member.cluster_queries.query import BrokerQuery
from apportion.member.cluster_queries.records import ProduceQuery
from apportion.member.cluster_queries.topic_changes import (
    CreatePartitionsQuery,
    CreateTopicsQuery,
    DeleteTopicsQuery,
    NewTopic,
)
from apportion.sim.actors.broker import BrokerProcess
from apportion.sim.actors.requests import fetch_topics, sending
from apportion.sim.kernel.client import Client, Sleep
from apportion.sim.kernel.clock import EPOCH_MS, Script, Simulation
from apportion.topics import Topic, partitions_of
from apportion.wire.batch import encode_batch
from apportion.wire.messages.describe_configs import GROUP

PRODUCE_TIMEOUT_MS = 2_000
TOPIC_CHANGE_TIMEOUT_MS = 1_000
RETRY_MS = 300
LARGE_VALUE_BYTES = 14_000  # five are more than a task asks for at first
MONITOR_ROUNDS = 30  # at least; the pauses are random, so there are about twice as many
FINAL_CODES = (
    Code.NONE,
    Code.TOPIC_ALREADY_EXISTS,
    Code.UNKNOWN_TOPIC_OR_PARTITION,
    Code.INVALID_PARTITIONS,
    Code.INVALID_CONFIG,
)


class TopicAdmin(Client):
    """Creates, grows and deletes topics, alters groups: one request at a time, until it succeeds.

    A request that is sent twice, because its answer was lost, has the effect of one.
    """

    def __init__(self, simulation: Simulation, broker: BrokerProcess) -> None:
        super().__init__(simulation, "topic-admin", broker, key="clerk")
        self._jobs: list[Any] = []

    @property
    def is_idle(self) -> bool:
        """Return whether nothing is left to do."""
        return not self._jobs

    def create(self, name: str, partitions: int) -> None:
        """Create a topic on the broker, after the jobs before it."""
        topic = NewTopic(name, partitions)
        self._enqueue(CreateTopicsQuery((topic,), TOPIC_CHANGE_TIMEOUT_MS))

    def add_partitions(self, name: str, by: int) -> None:
        """Add `by` partitions to the topic, if it exists by then."""
        self._enqueue((name, by))

    def delete(self, name: str) -> None:
        """Delete a topic of the broker, after the jobs before it."""
        self._enqueue(DeleteTopicsQuery(name, TOPIC_CHANGE_TIMEOUT_MS))

    def alter_group(self, group_id: str, changes: Mapping[str, str | None]) -> None:
        """Alter the group's own settings; None returns one to the broker's."""
        self._enqueue(AlterConfigsQuery(GROUP, group_id, changes))

    def _enqueue(self, job: Any) -> None:
        """Add a job of topic administration; start the process if it was idle.

        job: a query to send until it succeeds, or (topic, how many partitions to add).
        """
        self._jobs.append(job)
        if len(self._jobs) == 1:
            self.start()

    def script(self) -> Script:
        """Work through the queue of topics to create, delete and grow."""
        while self._jobs:
            job = self._jobs[0]
            try:
                if isinstance(job, BrokerQuery):
                    yield from self._send_until_done(job)
                else:
                    yield from self._add_partitions(*job)
            except (Refused, Unanswerable):
                continue
            self._jobs.pop(0)

    def _add_partitions(self, name: str, by: int) -> Script:
        """Grow a topic by that many partitions, from the count that it has now."""
        topic = (yield from fetch_topics(self, (name,))).named(name)
        if topic is not None:
            yield from self._send_until_done(
                CreatePartitionsQuery(name, topic.partitions + by, TOPIC_CHANGE_TIMEOUT_MS)
            )

    def _send_until_done(self, query: BrokerQuery[None]) -> Script:
        """Send the topic administrator's query until it has, or will never have, an effect."""
        while True:
            answer = yield sending(query)
            if answer is not None:
                code = Code.NONE
                try:
                    query.parse(answer)
                except Refused as refused:
                    code = refused.code
                self.simulation.write_trace(self.name, f"{query.api}Request: {code.name}", self.key)
                if code in FINAL_CODES:
                    return
            yield Sleep(RETRY_MS)


class RecordProducer(Client):
    """Produces small batches to random partitions."""

    def __init__(self, simulation: Simulation, broker: BrokerProcess) -> None:
        super().__init__(simulation, "producer", broker)
        # Some are so large that a range comes in several responses. Words of that size would grow
        # the changelogs of a Streams application.
        large = b"record" if simulation.scenario.streams else bytes(LARGE_VALUE_BYTES)
        self._batches = [
            encode_batch([(None, value, ())] * count, timestamp_ms=EPOCH_MS)
            for count, value in enumerate((b"record",) * 4 + (large,), start=1)
        ]

    def script(self) -> Script:
        """Produce records to the broker's topics until the scenario's faults end."""
        scenario = self.simulation.scenario
        # Only those that exist: the topics are created, deleted and recreated meanwhile.
        names = tuple(topic_name(index) for index in range(scenario.topics))
        topics: list[Topic] = []
        while self.simulation.now_ms < scenario.duration_ms:
            yield Sleep(1 + int(self.rng.expovariate(1 / scenario.produce_every_ms)))
            try:
                if not topics or self.rng.random() < 0.1:
                    topics = list((yield from fetch_topics(self, names)))
                elif not (yield from self._write(topics)):
                    topics = []
            except (Refused, Unanswerable):
                topics = []

    def _write(self, topics: list[Topic]) -> Script:
        """Produce a batch to a random partition; return whether the broker acknowledged it."""
        partition = self.rng.choice(partitions_of(self.rng.choice(topics)))
        query = ProduceQuery({partition: self.rng.choice(self._batches)}, PRODUCE_TIMEOUT_MS)
        answer = yield sending(query)
        return answer is not None and isinstance(query.results(answer)[partition], int)


class OffsetMonitor(Client):
    """Reads committed offsets and group descriptions, as tools do that show lag.

    All that it was shown must survive every crash; the checker looks.
    """

    def __init__(
        self, simulation: Simulation, broker: BrokerProcess, groups: tuple[str, ...]
    ) -> None:
        super().__init__(simulation, "offset-monitor", broker, key="onlooker")
        self._groups = groups

    def script(self) -> Script:
        """Read committed offsets and group descriptions until the scenario's faults end."""
        names = tuple(topic_name(index) for index in range(self.simulation.scenario.topics))
        while self.simulation.now_ms < self.simulation.scenario.duration_ms:
            yield Sleep(self.rng.randint(1, self.simulation.scenario.duration_ms // MONITOR_ROUNDS))
            try:
                topics = yield from fetch_topics(self, names)
            except (Refused, Unanswerable):
                continue
            partitions = tuple(each for topic in topics for each in partitions_of(topic))
            for group in self._groups:
                yield sending(OffsetFetchQuery(group, partitions))
                yield sending(ConsumerGroupDescribeQuery(group))


def topic_name(index: int) -> str:
    """Return the name of the topic of that number."""
    return f"t{index}"
