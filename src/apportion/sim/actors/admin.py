"""Who makes topics, who writes records, and who only looks: the processes that belong to no group."""

from typing import Any

from apportion.errors import Code
from apportion.member.batch.offsets import fetch_request
from apportion.sim.actors.broker import Broker
from apportion.sim.actors.requests import DESCRIBE, FETCH, NoAnswer, Pause, Request, topics_of
from apportion.sim.kernel.client import Client
from apportion.sim.kernel.clock import EPOCH_MS, Story, World
from apportion.topics import Topic, TopicIdPartition
from apportion.wire.batch import encode_batch
from apportion.wire.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from apportion.wire.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from apportion.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from apportion.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from apportion.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData

CREATE, GROW, DELETE, PRODUCE = 7, 3, 6, 12  # the versions that are spoken
AGAIN_MS = 300
LOOKS = 30  # a history is looked at twice as often, or so
DONE = (Code.NONE, Code.TOPIC_ALREADY_EXISTS, Code.UNKNOWN_TOPIC_OR_PARTITION, Code.INVALID_PARTITIONS)


class Clerk(Client):
    """Works off errands about topics, one after another. An errand that was heard twice has the effect of one."""

    def __init__(self, world: World, broker: Broker) -> None:
        super().__init__(world, "clerk", broker)
        self._errands: list[Any] = []

    @property
    def is_idle(self) -> bool:
        """Every errand is done."""
        return not self._errands

    def create(self, name: str, partitions: int) -> None:
        """There will be such a topic."""
        wanted = CreatableTopic(name=name, num_partitions=partitions, replication_factor=1, assignments=(), configs=())
        self._asks(Request(CreateTopicsRequest(topics=(wanted,)), CREATE))

    def grow(self, name: str, by: int) -> None:
        """The topic will have `by` partitions more, if it is there then."""
        self._asks((name, by))

    def delete(self, name: str) -> None:
        """There will be no such topic."""
        self._asks(Request(DeleteTopicsRequest(topics=(DeleteTopicState(name=name),), timeout_ms=1_000), DELETE))

    def _asks(self, errand: Any) -> None:
        self._errands.append(errand)
        if len(self._errands) == 1:
            self.starts()
            self.begins_work()

    def story(self) -> Story:
        """Until no errand is left."""
        while self._errands:
            errand = self._errands[0]
            try:
                if isinstance(errand, Request):
                    yield from self._until_done(errand)
                else:
                    yield from self._grown(*errand)
            except NoAnswer:
                continue
            self._errands.pop(0)

    def _grown(self, name: str, by: int) -> Story:
        topic = (yield from topics_of(self, [name])).named(name)
        if topic is not None:
            wanted = CreatePartitionsTopic(name=name, count=topic.partitions + by, assignments=None)
            yield from self._until_done(Request(CreatePartitionsRequest(topics=(wanted,), timeout_ms=1_000), GROW))

    def _until_done(self, request: Request) -> Story:
        while True:
            answer = yield request
            if answer is not None:
                results = next(getattr(answer, name) for name in ("topics", "responses", "results") if hasattr(answer, name))
                code = Code.of(results[0].error_code)
                self.world.say(self.name, f"{type(request.body).__name__}: {code.name}")
                if code in DONE:
                    return
            yield Pause(AGAIN_MS)


class Producer(Client):
    """Writes a few records to some partition, again and again."""

    def __init__(self, world: World, broker: Broker) -> None:
        super().__init__(world, "producer", broker)
        self._batches = [encode_batch([(None, b"record", ())] * count, timestamp_ms=EPOCH_MS) for count in range(1, 6)]

    def begin(self) -> None:
        """It writes until the faults are over."""
        self.starts()
        self.begins_work()

    def story(self) -> Story:
        """Until the end of the time of faults."""
        scenario = self.world.scenario
        names = [name_of(index) for index in range(scenario.topics)]
        topics: list[Topic] = []
        while self.world.now_ms < scenario.duration_ms:
            yield Pause(1 + int(self.dice.expovariate(1 / scenario.produce_every_ms)))
            try:
                if not topics or self.dice.random() < 0.1:
                    topics = list((yield from topics_of(self, names)))
                elif not (yield from self._write(topics)):
                    topics = []
            except NoAnswer:
                topics = []

    def _write(self, topics: list[Topic]) -> Story:
        """True if the broker has the records."""
        topic = self.dice.choice(topics)
        index = self.dice.randrange(topic.partitions)
        data = PartitionProduceData(index=index, records=self.dice.choice(self._batches))
        request = ProduceRequest(acks=-1, timeout_ms=2_000, topic_data=(TopicProduceData(name=topic.name, partition_data=(data,)),))
        answer = yield Request(request, PRODUCE)
        if answer is None:
            return False
        said = answer.responses[0].partition_responses[0]
        return said.error_code == Code.NONE


class Onlooker(Client):
    """Reads offsets and descriptions of the groups, as tools do that show lag."""

    def __init__(self, world: World, broker: Broker, groups: tuple[str, ...]) -> None:
        super().__init__(world, "onlooker", broker)
        self._groups = groups

    def begin(self) -> None:
        """It looks until the faults are over."""
        self.starts()
        self.begins_work()

    def story(self) -> Story:
        """Until the end of the time of faults."""
        names = [name_of(index) for index in range(self.world.scenario.topics)]
        while self.world.now_ms < self.world.scenario.duration_ms:
            yield Pause(self.dice.randint(1, self.world.scenario.duration_ms // LOOKS))
            try:
                topics = yield from topics_of(self, names)
            except NoAnswer:
                continue
            places = [TopicIdPartition(topic.name, topic.id, index) for topic in topics for index in range(topic.partitions)]
            for group in self._groups:
                yield Request(fetch_request(group, places), FETCH)
                yield Request(ConsumerGroupDescribeRequest(group_ids=(group,)), DESCRIBE)


def name_of(index: int) -> str:
    """The name of the topic of that number."""
    return f"t{index}"
