"""One thread of an instance of a Kafka Streams application: a real Streams member, and the work of
its tasks.

Its work is the least that a group can see of word count: the active task of a store writes to its
changelog, everybody else who has some of the state reads after it. It closes as Kafka Streams does:
without a word to the group, which waits for its session to end.
"""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

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
from apportion.sim.actors.member import Application, has_new_target
from apportion.sim.actors.requests import AwaitMember, NoAnswer, fetch_topics, list_offsets
from apportion.sim.kernel.client import REQUEST_TIMEOUT_MS, SendRequest, Sleep
from apportion.sim.kernel.clock import EPOCH_MS, Script, ScriptRunner
from apportion.sim.kernel.network import RequestChannel
from apportion.sim.kernel.scenario import Scenario
from apportion.streams.metadata.model import RUNNING, TaskId
from apportion.streams.metadata.releases import Release
from apportion.streams.queries import CreateInternalTopics, ListEndOffsets
from apportion.streams.topology_parser import topology_of
from apportion.topics import TopicId, TopicIdPartition
from apportion.wire.batch import encode_batch
from apportion.wire.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from apportion.wire.messages.join_group import JoinGroupRequest, JoinGroupResponse
from apportion.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData

if TYPE_CHECKING:
    from apportion.sim.streams.instance import Instance

SOURCE, WORDS, COUNTS = "t0", "wordcount-words-repartition", "wordcount-counts-changelog"
WORD_COUNT = topology_of(
    [
        {"sources": [SOURCE], "repartition_sinks": [WORDS]},
        {"repartition_sources": [WORDS], "changelogs": [COUNTS]},
    ]
)
"""What is played: lines are split into words by one subtopology, and counted by another that keeps
a store.
"""

SPLIT_SUBTOPOLOGY, COUNT_SUBTOPOLOGY = 0, 1  # the subtopologies
CREATE_TOPICS_VERSION, PRODUCE_VERSION = 7, 12  # the versions that are spoken
NEWER_VERSION_REASON = (
    # how `streams/metadata/probing.py` says why a member joins again in a newer version
    "all understand version"
)
FIRST_WARMUP_VERSION = 8  # the metadata version of 2.6
RECORDS_PER_WRITE = 20  # records of a changelog at once
RECORDS_PER_READ = 200  # records at once of whoever reads after it
WORK_INTERVAL_MS = 2_000
CHANGELOG_BATCH = encode_batch([(b"word", b"count", ())] * RECORDS_PER_WRITE, timestamp_ms=EPOCH_MS)
CHECKPOINT_PROBABILITY = 0.2  # so often, after some work, the disk has the whole state
TASK_CLOSE_MS = 200  # a task is finished and committed in about that time before it is given up
CREATE_TOPICS_TIMEOUT_MS = 10_000


class StreamThread(Application):
    """One thread of `instance`. active: the tasks that it runs; restoring: those of them whose
    stores it does not have yet.
    """

    group = "wordcount"
    instance: "Instance[StreamThread]"
    settings: Mapping[str, Any]
    on_newer_version: Callable[["StreamThread", str], None]
    restart_later: Callable[["StreamThread", int], None]

    def attach(
        self,
        instance: "Instance[StreamThread]",
        on_change: Callable[["StreamThread"], None],
        **settings: Any,
    ) -> None:
        """Make it a thread of `instance`. on_change: called when its tasks may have changed.
        settings: see StreamsSettings.
        """
        self.on_change = on_change
        self.instance = instance
        instance.threads.append(self)
        self.settings = settings
        self.topics = WORD_COUNT.source_topics
        self.is_leader = False  # the generation that it joined last
        # in which metadata version it joined each generation
        self.join_versions: dict[int, int] = {}
        self.progress: dict[TaskId, int] = {}  # what its member knows that it has
        # what it said of that when it last asked to join
        self.progress_at_join: dict[TaskId, int] = {}
        self.active: dict[TaskId, None] = {}
        self.active_incarnation = 0  # the life of its member in which it was given these
        self.restoring: dict[TaskId, None] = {}

    @property
    def share(self) -> TaskShare:
        """The tasks that its member was given last."""
        assert isinstance(self.member, StreamsMember)
        return self.member.tasks()

    @property
    def assigned_version(self) -> int:
        """The metadata version of its newest assignment; -1 without one."""
        return self.share.used

    @property
    def opened(self) -> Mapping[TaskId, None]:
        """The tasks whose state it uses, and no other thread of its process: those that it runs,
        and all that it was given.
        """
        return self.active | dict.fromkeys((*self.share.active, *self.share.standby))

    @property
    def uses_classic_protocol(self) -> bool:
        """Streams groups of this kind are classic groups."""
        return True

    @property
    def _protocol_suffix(self) -> str:
        return f" ({self.instance.runs_as})"

    def subscribe(self, topics: tuple[str, ...]) -> None:
        """What it reads follows from its topology."""

    def start(self) -> None:
        """A new thread lives, in a new process if it is the first."""
        if not self.instance.is_up:
            self.instance.start()
        self.active, self.restoring, self.progress_at_join = {}, {}, {}
        self._leader_channel: RequestChannel | None = None
        super().start()

    def end_incarnation(self) -> None:
        """See Process; it runs no task any more."""
        super().end_incarnation()
        self.active = {}
        self.on_change(self)

    def close(self) -> None:
        """It is closed as Kafka Streams closes: with its state on the disk; only the oldest
        releases tell the group.
        """
        if not self.is_up:
            return
        self.instance.write_checkpoint()
        if self.instance.leaves_on_close:
            self.stop()
        else:
            self.die(closes_connections=True)

    def _new_member(self, scenario: Scenario) -> StreamsMember:
        bounce = self.instance.runs_as
        settings = StreamsSettings(
            topology=WORD_COUNT,
            process_id=self.instance.name.encode().rjust(16, b"."),
            release=bounce.release,
            upgrade_from=bounce.upgrade_from,
            assignor=assignor_of(bounce.release),
            **self.settings,
        )
        return StreamsMember(settings, self._classic_settings(scenario))

    def step_member(self, event: Any) -> None:
        """As every application; the member knows what its process has at this moment."""
        assert isinstance(self.member, StreamsMember)
        self.progress = self._progress()
        self.member.step(TaskOffsetSums(self.progress, self.active_incarnation), self.now())
        super().step_member(event)
        self.on_change(self)

    def set_in_use(self, incarnation: int, places: Mapping[TopicIdPartition, None]) -> None:
        """The owner runs exactly the tasks of these places from now on."""
        self.active, self.active_incarnation = (
            dict.fromkeys(task_of(place) for place in places),
            incarnation,
        )
        self.on_change(self)
        super().set_in_use(incarnation, places)

    def _progress(self) -> dict[TaskId, int]:
        progress = self.instance.reportable_state(self)
        progress.update({task: RUNNING for task in self.active if task not in self.restoring})
        return progress

    def _give_up(self, code: Code, why: str) -> None:
        """A member that cannot go on takes its process with it, as in Kafka Streams. Where time
        mends it, it is started again.
        """
        if reaction("JoinGroup", code) is Reaction.RETRY_FOR_A_TIME:
            super()._give_up(code, why)
            return
        self.instance.died_of = why
        self.simulation.write_trace(self.name, f"dies: {why}")
        for each in self.instance.threads:
            each._end_process()

    def _restart(self, incarnation: int) -> None:
        """Nobody comes back to a process that died of something."""
        if not self.instance.died_of:
            self.restart_later(self, incarnation)

    def _receive(self, send: SendToCoordinator, answer: Any) -> None:
        if isinstance(answer, JoinGroupResponse) and answer.error_code == Code.NONE:
            assert isinstance(self.member, StreamsMember)
            self.is_leader = answer.leader == answer.member_id
            self.join_versions[answer.generation_id] = self.member.used_version
        super()._receive(send, answer)

    def _send(self, send: SendToCoordinator) -> None:
        request = send.request
        if isinstance(request, JoinGroupRequest):
            self.progress_at_join = self.progress
            if (request.reason or "").startswith(NEWER_VERSION_REASON):
                self.on_newer_version(self, request.reason or "")
        super()._send(send)

    # what its member asks

    def perform_other(self, action: Any) -> None:
        """A question of the leader is on its way to the broker."""
        if isinstance(action, QueryCluster):
            if self._leader_channel is not None:
                self._leader_channel.close()
            self._leader_channel = RequestChannel(self, self.link, self.broker)
            ScriptRunner(self._answer(action.request_id, action.query), self._put).resume(0)

    def _put(self, runner: ScriptRunner, question: Any, turn: int) -> None:
        assert self._leader_channel is not None
        if type(question) is SendRequest:
            self._leader_channel.send(
                question.body,
                question.version,
                REQUEST_TIMEOUT_MS,
                lambda answer: runner.resume(turn, answer),
            )
        else:
            self.call_later(question.duration_ms * 1000, runner.resume, turn)

    def _answer(self, request_id: int, question: Any) -> Script:
        try:
            if isinstance(question, CreateInternalTopics):
                seen = yield from self._make(question)
                self.step_member(MetadataFetched(request_id, seen))
            else:
                assert isinstance(question, ListEndOffsets), (
                    "no source of this topology is a changelog"
                )
                partitions = {
                    place: TopicIdPartition(place.topic, b"", place.partition)
                    for place in question.partitions
                }
                ends = yield from list_offsets(self, partitions.values(), LATEST)
                self.step_member(
                    QueryAnswered(
                        request_id, {place: ends[each] for place, each in partitions.items()}
                    )
                )
        except (Refused, NoAnswer) as problem:
            self.step_member(Unanswered(request_id, str(problem)))

    def _make(self, question: CreateInternalTopics) -> Script:
        """The topics, which exist now."""
        wanted = tuple(
            CreatableTopic(
                name=topic.name,
                num_partitions=topic.partitions,
                replication_factor=1,
                assignments=(),
                configs=tuple(
                    CreatableTopicConfig(name=name, value=value) for name, value in topic.configs
                ),
            )
            for topic in question.topics
        )
        until_ms = self.mono_ms() + CREATE_TOPICS_TIMEOUT_MS
        names = [topic.name for topic in wanted]
        there = yield from fetch_topics(self, names)
        while any(there.named(name) is None for name in names):
            if self.mono_ms() >= until_ms:
                raise NoAnswer("CreateTopics")
            missing = tuple(topic for topic in wanted if there.named(topic.name) is None)
            yield SendRequest(CreateTopicsRequest(topics=missing), CREATE_TOPICS_VERSION)
            yield Sleep(100)
            there = yield from fetch_topics(self, names)
        return tuple(TopicDescription(topic.name, topic.id, topic.partitions) for topic in there)

    # its work

    def script(self) -> Script:
        """Poll, for as long as the process lives."""
        self._names: dict[TopicId, str] = {}
        self._incarnation = 0
        while True:
            self.step_member(Polled())
            try:
                yield from self._poll()
            except (Refused, NoAnswer):
                yield Sleep(200)
            yield AwaitMember(self.work_ms(WORK_INTERVAL_MS), has_new_target)

    def _poll(self) -> Script:
        view = self.member.view()
        if view.incarnation != self._incarnation:
            self._incarnation = view.incarnation
            self.set_in_use(self._incarnation, {})
        if view.epoch <= 0 or view.target is None:
            return
        if view.target != view.owned:
            yield from self._follow()
        yield from self._write()
        yield from self._read()
        if self.rng.random() < CHECKPOINT_PROBABILITY:
            self.instance.write_checkpoint()

    def _follow(self) -> Script:
        """Tasks that were taken away are finished and let go of; those that were given are run."""
        before = self.member.view()
        if any(each not in (before.target or ()) for each in before.owned):
            yield Sleep(self.work_ms(TASK_CLOSE_MS))
        view = self.member.view()
        target, incarnation = view.target, view.incarnation
        if target is None or incarnation != self._incarnation:
            return
        unknown = tuple(
            dict.fromkeys(each.topic_id for each in target if each.topic_id not in self._names)
        )
        for topic in (yield from fetch_topics(self, unknown)):
            self._names[topic.id] = topic.name
        now = self.member.view()
        if (now.incarnation, now.target) != (incarnation, target):
            return
        wanted = dict.fromkeys(
            TopicIdPartition(self._names[each.topic_id], *each)
            for each in target
            if each.topic_id in self._names
        )
        self.set_in_use(
            incarnation, {place: None for place in self.in_use.partitions if place in wanted}
        )
        self.step_member(Adopted(incarnation, target))
        now = self.member.view()
        if (now.incarnation, now.owned) == (incarnation, target):
            self.restoring.update(
                dict.fromkeys(
                    task_of(place) for place in wanted if place not in self.in_use.partitions
                )
            )
            self.set_in_use(incarnation, wanted)

    def _write(self) -> Script:
        """Each store that is complete has some records more, in its changelog and in this
        process.
        """
        tasks = [
            task
            for task in self.active
            if task.subtopology == COUNT_SUBTOPOLOGY and task not in self.restoring
        ]
        if not tasks:
            return
        data = tuple(
            PartitionProduceData(index=task.partition, records=CHANGELOG_BATCH) for task in tasks
        )
        request = ProduceRequest(
            acks=-1,
            timeout_ms=2_000,
            topic_data=(TopicProduceData(name=COUNTS, partition_data=data),),
        )
        answer = yield SendRequest(request, PRODUCE_VERSION)
        for said in () if answer is None else answer.responses[0].partition_responses:
            if said.error_code == Code.NONE:
                self.instance.state[TaskId(COUNT_SUBTOPOLOGY, said.index)] = (
                    said.base_offset + RECORDS_PER_WRITE
                )

    def _read(self) -> Script:
        """Stores that lack something of their changelogs have read a little further."""
        tasks = [
            task
            for task in (*self.share.standby, *self.restoring)
            if task.subtopology == COUNT_SUBTOPOLOGY
        ]
        ends = yield from list_offsets(self, [_changelog(task) for task in tasks], LATEST)
        for task in tasks:
            end = ends[_changelog(task)]
            self.instance.state[task] = min(
                end, self.instance.state.get(task, 0) + RECORDS_PER_READ
            )
            if self.instance.state[task] == end:
                self.restoring.pop(task, None)
        for task in [
            task
            for task in self.restoring
            if task.subtopology != COUNT_SUBTOPOLOGY or task not in self.active
        ]:
            del self.restoring[task]


def assignor_of(release: Release) -> str:
    """What that release shares tasks out by, unless it is told otherwise: since 2.6 it lets stores
    warm up first (KIP-441).
    """
    return (
        "highavailability"
        if release.cooperative and release.newest_version >= FIRST_WARMUP_VERSION
        else "sticky"
    )


def task_of(place: TopicIdPartition) -> TaskId:
    """The task that reads the place."""
    return TaskId(
        SPLIT_SUBTOPOLOGY if place.topic == SOURCE else COUNT_SUBTOPOLOGY, place.partition
    )


def _changelog(task: TaskId) -> TopicIdPartition:
    return TopicIdPartition(COUNTS, b"", task.partition)
