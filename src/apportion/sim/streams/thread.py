"""One thread of an instance of a Kafka Streams application: a real Streams member, and the work of its tasks.

Its work is the least that a group can see of word count: the active task of a store writes to its changelog, everybody else who has
some of the state reads after it. It closes as Kafka Streams does: without a word to the group, which waits for its session to end.
"""

from collections.abc import Callable, Mapping
from typing import Any

from apportion.errors import Code, Refused
from apportion.member.batch.plan import LATEST
from apportion.member.membership import (
    Adopted,
    MetadataFetched,
    Polled,
    QueryAnswered,
    QueryCluster,
    SendToCoordinator,
    TaskOffsetSums,
    TopicDescription,
    Unanswered,
)
from apportion.member.reactions import Reaction, reaction
from apportion.member.streams.assignor import StreamsSettings, TaskShare
from apportion.member.streams.machine import StreamsMember
from apportion.sim.actors.member import Application, has_news
from apportion.sim.actors.requests import News, NoAnswer, Pause, Request, offsets_at, topics_of
from apportion.sim.kernel.client import REQUEST_TIMEOUT_MS
from apportion.sim.kernel.clock import EPOCH_MS, Story, Telling
from apportion.sim.kernel.network import Line
from apportion.sim.kernel.scenario import Scenario
from apportion.sim.streams.instance import Instance
from apportion.streams.metadata.model import RUNNING, TaskId
from apportion.streams.metadata.releases import Release
from apportion.streams.queries import CreateInternalTopics, ListEndOffsets
from apportion.streams.topology_parser import topology_of
from apportion.topics import TopicId, TopicIdPartition
from apportion.wire.batch import encode_batch
from apportion.wire.messages.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from apportion.wire.messages.join_group import JoinGroupRequest, JoinGroupResponse
from apportion.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData

SOURCE, WORDS, COUNTS = "t0", "wordcount-words-repartition", "wordcount-counts-changelog"
WORD_COUNT = topology_of(
    [
        {"sources": [SOURCE], "repartition_sinks": [WORDS]},
        {"repartition_sources": [WORDS], "changelogs": [COUNTS]},
    ]
)
"""What is played: lines are split into words by one subtopology, and counted by another that keeps a store."""

SPLITS, COUNTER = 0, 1  # the subtopologies
CREATE, PRODUCE = 7, 12  # the versions that are spoken
STEPS_UP = "all understand version"  # how `streams/metadata/probing.py` says why a member joins again in a newer version
WARMS_UP = 8  # the metadata version of 2.6
WRITES = 20  # records of a changelog at once
READS = 200  # records at once of whoever reads after it
WORKS_EVERY_MS = 2_000
RECORDS = encode_batch([(b"word", b"count", ())] * WRITES, timestamp_ms=EPOCH_MS)
CHECKPOINTED = 0.2  # so often, after some work, the disk has the whole state
LETS_GO_MS = 200  # a task is finished and committed in about that time before it is given up
PATIENCE_MS = 10_000


class StreamThread(Application):
    """One thread of `home`. active: the tasks that it runs; restoring: those of them whose stores it does not have yet."""

    group = "wordcount"
    home: Instance
    settings: Mapping[str, Any]
    triggers: Callable[["StreamThread", str], None]
    returns: Callable[["StreamThread", int], None]

    def plays(self, home: Instance, looks_on: Callable[["StreamThread"], None], **settings: Any) -> None:
        """It is one of the threads of `home`. looks_on: is told when its tasks may have changed. settings: see StreamsSettings."""
        self.looks_on = looks_on
        self.home = home
        home.threads.append(self)
        self.settings = settings
        self.topics = WORD_COUNT.source_topics
        self.leads = False  # the generation that it joined last
        self.spoke: dict[int, int] = {}  # in which metadata version it joined each generation
        self.told: dict[TaskId, int] = {}  # what its member knows that it has
        self.said: dict[TaskId, int] = {}  # what it said of that when it last asked to join
        self.active: dict[TaskId, None] = {}
        self.active_in = 0  # the life of its member in which it was given these
        self.restoring: dict[TaskId, None] = {}

    @property
    def share(self) -> TaskShare:
        """The tasks that its member was given last."""
        assert isinstance(self.member, StreamsMember)
        return self.member.tasks()

    @property
    def opened(self) -> Mapping[TaskId, None]:
        """The tasks whose state it uses, and no other thread of its process: those that it runs, and all that it was given."""
        return self.active | dict.fromkeys((*self.share.active, *self.share.standby))

    @property
    def speaks_classic(self) -> bool:
        """Streams groups of this kind are classic groups."""
        return True

    @property
    def _accent(self) -> str:
        return f" ({self.home.now_as})"

    def subscribe(self, topics: tuple[str, ...]) -> None:
        """What it reads follows from its topology."""

    def begin(self) -> None:
        """A new thread lives, in a new process if it is the first."""
        if not self.home.is_up:
            self.home.begin()
        self.active, self.restoring, self.said = {}, {}, {}
        self._asks: Line | None = None
        super().begin()

    def ends(self) -> None:
        """See Process; it runs no task any more."""
        super().ends()
        self.active = {}
        self.looks_on(self)

    def close(self) -> None:
        """It is closed as Kafka Streams closes: with its state on the disk; only the oldest releases tell the group."""
        if not self.is_up:
            return
        self.home.saves()
        if self.home.leaves_on_close:
            self.stop()
        else:
            self.die(says_goodbye=True)

    def _new_member(self, scenario: Scenario) -> StreamsMember:
        bounce = self.home.now_as
        settings = StreamsSettings(
            topology=WORD_COUNT,
            process_id=self.home.name.encode().rjust(16, b"."),
            release=bounce.release,
            upgrade_from=bounce.upgrade_from,
            assignor=assignor_of(bounce.release),
            **self.settings,
        )
        return StreamsMember(settings, self._classic_settings(scenario))

    def tell(self, event: Any) -> None:
        """As every application; the member knows what its process has at this moment."""
        assert isinstance(self.member, StreamsMember)
        self.told = self._progress()
        self.member.step(TaskOffsetSums(self.told, self.active_in), self.now())
        super().tell(event)
        self.looks_on(self)

    def takes(self, life: int, places: Mapping[TopicIdPartition, None]) -> None:
        """The owner runs exactly the tasks of these places from now on."""
        self.active, self.active_in = dict.fromkeys(task_of(place) for place in places), life
        self.looks_on(self)
        super().takes(life, places)

    def _progress(self) -> dict[TaskId, int]:
        told = self.home.known_by(self)
        told.update({task: RUNNING for task in self.active if task not in self.restoring})
        return told

    def _give_up(self, code: Code, why: str) -> None:
        """A member that cannot go on takes its process with it, as in Kafka Streams. Where time mends it, it is started again."""
        if reaction("JoinGroup", code) is Reaction.WAIT:
            super()._give_up(code, why)
            return
        self.home.died_of = why
        self.world.say(self.name, f"dies: {why}")
        for each in self.home.threads:
            each._ended()

    def _starts_again(self, life: int) -> None:
        """Nobody comes back to a process that died of something."""
        if not self.home.died_of:
            self.returns(self, life)

    def _heard(self, send: SendToCoordinator, answer: Any) -> None:
        if isinstance(answer, JoinGroupResponse) and answer.error_code == Code.NONE:
            assert isinstance(self.member, StreamsMember)
            self.leads = answer.leader == answer.member_id
            self.spoke[answer.generation_id] = self.member.used_version
        super()._heard(send, answer)

    def _send(self, send: SendToCoordinator) -> None:
        request = send.request
        if isinstance(request, JoinGroupRequest):
            self.said = self.told
            if (request.reason or "").startswith(STEPS_UP):
                self.triggers(self, request.reason or "")
        super()._send(send)

    # what its member asks

    def heeds(self, action: Any) -> None:
        """A question of the leader is on its way to the broker."""
        if isinstance(action, QueryCluster):
            if self._asks is not None:
                self._asks.close()
            self._asks = Line(self, self.link, self.broker)
            Telling(self._answer(action.request_id, action.query), self._put).goes_on(0)

    def _put(self, telling: Telling, question: Any, turn: int) -> None:
        assert self._asks is not None
        if type(question) is Request:
            self._asks.ask(question.body, question.version, REQUEST_TIMEOUT_MS, lambda answer: telling.goes_on(turn, answer))
        else:
            self.later(question.span_ms * 1000, telling.goes_on, turn)

    def _answer(self, request_id: int, question: Any) -> Story:
        try:
            if isinstance(question, CreateInternalTopics):
                seen = yield from self._make(question)
                self.tell(MetadataFetched(request_id, seen))
            else:
                assert isinstance(question, ListEndOffsets), "no source of this topology is a changelog"
                places = {place: TopicIdPartition(place.topic, b"", place.partition) for place in question.places}
                ends = yield from offsets_at(self, places.values(), LATEST)
                self.tell(QueryAnswered(request_id, {place: ends[each] for place, each in places.items()}))
        except (Refused, NoAnswer) as problem:
            self.tell(Unanswered(request_id, str(problem)))

    def _make(self, question: CreateInternalTopics) -> Story:
        """The topics, which exist now."""
        wanted = tuple(
            CreatableTopic(
                name=topic.name,
                num_partitions=topic.partitions,
                replication_factor=1,
                assignments=(),
                configs=tuple(CreatableTopicConfig(name=name, value=value) for name, value in topic.configs),
            )
            for topic in question.topics
        )
        until_ms = self.mono_ms() + PATIENCE_MS
        names = [topic.name for topic in wanted]
        there = yield from topics_of(self, names)
        while any(there.named(name) is None for name in names):
            if self.mono_ms() >= until_ms:
                raise NoAnswer("CreateTopics")
            missing = tuple(topic for topic in wanted if there.named(topic.name) is None)
            yield Request(CreateTopicsRequest(topics=missing), CREATE)
            yield Pause(100)
            there = yield from topics_of(self, names)
        return tuple(TopicDescription(topic.name, topic.id, topic.partitions) for topic in there)

    # its work

    def story(self) -> Story:
        """Poll, for as long as the process lives."""
        self._names: dict[TopicId, str] = {}
        self._life = 0
        while True:
            self.tell(Polled())
            try:
                yield from self._poll()
            except (Refused, NoAnswer):
                yield Pause(200)
            yield News(self.work_ms(WORKS_EVERY_MS), has_news)

    def _poll(self) -> Story:
        view = self.member.view()
        if view.incarnation != self._life:
            self._life = view.incarnation
            self.takes(self._life, {})
        if view.epoch <= 0 or view.target is None:
            return
        if view.target != view.owned:
            yield from self._follow()
        yield from self._write()
        yield from self._read()
        if self.dice.random() < CHECKPOINTED:
            self.home.saves()

    def _follow(self) -> Story:
        """Tasks that were taken away are finished and let go of; those that were given are run."""
        before = self.member.view()
        if any(each not in (before.target or ()) for each in before.owned):
            yield Pause(self.work_ms(LETS_GO_MS))
        view = self.member.view()
        target, life = view.target, view.incarnation
        if target is None or life != self._life:
            return
        unknown = tuple(dict.fromkeys(each.topic_id for each in target if each.topic_id not in self._names))
        for topic in (yield from topics_of(self, unknown)):
            self._names[topic.id] = topic.name
        now = self.member.view()
        if (now.incarnation, now.target) != (life, target):
            return
        wanted = dict.fromkeys(
            TopicIdPartition(self._names[each.topic_id], *each) for each in target if each.topic_id in self._names
        )
        self.takes(life, {place: None for place in self.hand[1] if place in wanted})
        self.tell(Adopted(life, target))
        now = self.member.view()
        if (now.incarnation, now.owned) == (life, target):
            self.restoring.update(dict.fromkeys(task_of(place) for place in wanted if place not in self.hand[1]))
            self.takes(life, wanted)

    def _write(self) -> Story:
        """Each store that is complete has some records more, in its changelog and in this process."""
        tasks = [task for task in self.active if task.subtopology == COUNTER and task not in self.restoring]
        if not tasks:
            return
        data = tuple(PartitionProduceData(index=task.partition, records=RECORDS) for task in tasks)
        request = ProduceRequest(acks=-1, timeout_ms=2_000, topic_data=(TopicProduceData(name=COUNTS, partition_data=data),))
        answer = yield Request(request, PRODUCE)
        for said in () if answer is None else answer.responses[0].partition_responses:
            if said.error_code == Code.NONE:
                self.home.state[TaskId(COUNTER, said.index)] = said.base_offset + WRITES

    def _read(self) -> Story:
        """Stores that lack something of their changelogs have read a little further."""
        tasks = [task for task in (*self.share.standby, *self.restoring) if task.subtopology == COUNTER]
        ends = yield from offsets_at(self, [_changelog(task) for task in tasks], LATEST)
        for task in tasks:
            end = ends[_changelog(task)]
            self.home.state[task] = min(end, self.home.state.get(task, 0) + READS)
            if self.home.state[task] == end:
                self.restoring.pop(task, None)
        for task in [task for task in self.restoring if task.subtopology != COUNTER or task not in self.active]:
            del self.restoring[task]


def assignor_of(release: Release) -> str:
    """What that release shares tasks out by, unless it is told otherwise: since 2.6 it lets stores warm up first (KIP-441)."""
    return "highavailability" if release.cooperative and release.metadata >= WARMS_UP else "sticky"


def task_of(place: TopicIdPartition) -> TaskId:
    """The task that reads the place."""
    return TaskId(SPLITS if place.topic == SOURCE else COUNTER, place.partition)


def _changelog(task: TaskId) -> TopicIdPartition:
    return TopicIdPartition(COUNTS, b"", task.partition)
