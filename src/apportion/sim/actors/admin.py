"""The processes that belong to no group: topic administration, a producer, a monitor of offsets."""

from typing import Any

from apportion.errors import Code, Unanswerable
from apportion.member.cluster_queries.groups import ConsumerGroupDescribeQuery
from apportion.member.cluster_queries.offsets import OffsetFetchQuery
from apportion.sim.actors.broker import BrokerProcess
from apportion.sim.actors.requests import fetch_topics, sending
from apportion.sim.kernel.client import Client, SendRequest, Sleep
from apportion.sim.kernel.clock import EPOCH_MS, Script, Simulation
from apportion.topics import Topic, TopicIdPartition
from apportion.wire.batch import encode_batch
from apportion.wire.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from apportion.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from apportion.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from apportion.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData

CREATE_TOPICS_VERSION, CREATE_PARTITIONS_VERSION, DELETE_TOPICS_VERSION, PRODUCE_VERSION = (
    7,
    3,
    6,
    12,
)  # the request versions that these processes use
RETRY_MS = 300
MONITOR_ROUNDS = 30  # at least; the pauses are random, so there are about twice as many
FINAL_CODES = (
    Code.NONE,
    Code.TOPIC_ALREADY_EXISTS,
    Code.UNKNOWN_TOPIC_OR_PARTITION,
    Code.INVALID_PARTITIONS,
)


class TopicAdmin(Client):
    """Creates, grows and deletes topics, one request at a time, until each succeeds.

    A request that is sent twice, because its answer was lost, has the effect of one.
    """

    def __init__(self, simulation: Simulation, broker: BrokerProcess) -> None:
        super().__init__(simulation, "clerk", broker)
        self._jobs: list[Any] = []

    @property
    def is_idle(self) -> bool:
        """Return whether nothing is left to do."""
        return not self._jobs

    def create(self, name: str, partitions: int) -> None:
        """Create a topic on the broker, after the jobs before it."""
        topic = CreatableTopic(
            name=name, num_partitions=partitions, replication_factor=1, assignments=(), configs=()
        )
        self._enqueue(SendRequest(CreateTopicsRequest(topics=(topic,)), CREATE_TOPICS_VERSION))

    def add_partitions(self, name: str, by: int) -> None:
        """Add `by` partitions to the topic, if it exists by then."""
        self._enqueue((name, by))

    def delete(self, name: str) -> None:
        """Delete a topic of the broker, after the jobs before it."""
        self._enqueue(
            SendRequest(
                DeleteTopicsRequest(topics=(DeleteTopicState(name=name),), timeout_ms=1_000),
                DELETE_TOPICS_VERSION,
            )
        )

    def _enqueue(self, job: Any) -> None:
        """Add a job of topic administration; start the process if it was idle.

        job: a request to send until it succeeds, or (topic, how many partitions to add).
        """
        self._jobs.append(job)
        if len(self._jobs) == 1:
            self.start_incarnation()
            self.start_script()

    def script(self) -> Script:
        """Work through the queue of topics to create, delete and grow."""
        while self._jobs:
            job = self._jobs[0]
            try:
                if isinstance(job, SendRequest):
                    yield from self._send_until_done(job)
                else:
                    yield from self._add_partitions(*job)
            except Unanswerable:
                continue
            self._jobs.pop(0)

    def _add_partitions(self, name: str, by: int) -> Script:
        """Grow a topic by that many partitions, from the count that it has now."""
        topic = (yield from fetch_topics(self, [name])).named(name)
        if topic is not None:
            grown = CreatePartitionsTopic(name=name, count=topic.partitions + by, assignments=None)
            yield from self._send_until_done(
                SendRequest(
                    CreatePartitionsRequest(topics=(grown,), timeout_ms=1_000),
                    CREATE_PARTITIONS_VERSION,
                )
            )

    def _send_until_done(self, request: SendRequest) -> Script:
        """Send the topic administrator's request until it has, or will never have, an effect."""
        while True:
            answer = yield request
            if answer is not None:
                results = next(
                    getattr(answer, name)
                    for name in ("topics", "responses", "results")
                    if hasattr(answer, name)
                )
                code = Code.of(results[0].error_code)
                self.simulation.write_trace(
                    self.name, f"{type(request.body).__name__}: {code.name}"
                )
                if code in FINAL_CODES:
                    return
            yield Sleep(RETRY_MS)


class RecordProducer(Client):
    """Produces small batches to random partitions."""

    def __init__(self, simulation: Simulation, broker: BrokerProcess) -> None:
        super().__init__(simulation, "producer", broker)
        self._batches = [
            encode_batch([(None, b"record", ())] * count, timestamp_ms=EPOCH_MS)
            for count in range(1, 6)
        ]

    def start(self) -> None:
        """Start to produce."""
        self.start_incarnation()
        self.start_script()

    def script(self) -> Script:
        """Produce records to the broker's topics until the scenario's faults end."""
        scenario = self.simulation.scenario
        # Only those that exist: the topics are created, deleted and recreated meanwhile.
        names = [topic_name(index) for index in range(scenario.topics)]
        topics: list[Topic] = []
        while self.simulation.now_ms < scenario.duration_ms:
            yield Sleep(1 + int(self.rng.expovariate(1 / scenario.produce_every_ms)))
            try:
                if not topics or self.rng.random() < 0.1:
                    topics = list((yield from fetch_topics(self, names)))
                elif not (yield from self._write(topics)):
                    topics = []
            except Unanswerable:
                topics = []

    def _write(self, topics: list[Topic]) -> Script:
        """Produce a batch to a random partition; return whether the broker acknowledged it."""
        topic = self.rng.choice(topics)
        index = self.rng.randrange(topic.partitions)
        data = PartitionProduceData(index=index, records=self.rng.choice(self._batches))
        request = ProduceRequest(
            acks=-1,
            timeout_ms=2_000,
            topic_data=(TopicProduceData(name=topic.name, partition_data=(data,)),),
        )
        answer = yield SendRequest(request, PRODUCE_VERSION)
        if answer is None:
            return False
        result = answer.responses[0].partition_responses[0]
        return result.error_code == Code.NONE


class OffsetMonitor(Client):
    """Reads committed offsets and group descriptions, as tools do that show lag.

    All that it was shown must survive every crash; the checker looks.
    """

    def __init__(
        self, simulation: Simulation, broker: BrokerProcess, groups: tuple[str, ...]
    ) -> None:
        super().__init__(simulation, "onlooker", broker)
        self._groups = groups

    def start(self) -> None:
        """Start to read."""
        self.start_incarnation()
        self.start_script()

    def script(self) -> Script:
        """Read committed offsets and group descriptions until the scenario's faults end."""
        names = [topic_name(index) for index in range(self.simulation.scenario.topics)]
        while self.simulation.now_ms < self.simulation.scenario.duration_ms:
            yield Sleep(self.rng.randint(1, self.simulation.scenario.duration_ms // MONITOR_ROUNDS))
            try:
                topics = yield from fetch_topics(self, names)
            except Unanswerable:
                continue
            partitions = tuple(
                TopicIdPartition(topic.name, topic.id, index)
                for topic in topics
                for index in range(topic.partitions)
            )
            for group in self._groups:
                yield sending(OffsetFetchQuery(group, partitions))
                yield sending(ConsumerGroupDescribeQuery(group))


def topic_name(index: int) -> str:
    """Return the name of the topic of that number."""
    return f"t{index}"
