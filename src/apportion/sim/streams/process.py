"""One process of a Streams application in a consumer group: a real member with simulated work.

`StreamsRecordConsumer` decides what a poll does, as in `apportion.StreamsConsumer` with
`group_protocol="consumer"`, and `ClientSideStreamsMember` is the member (KIP-848's Streams
chapter). The application is word count: a task of the first subtopology writes a word for each
record, a task of the second one counts words in a store and writes its changelog. Copies of a
store, standby tasks and warm-ups, read the changelog. A process is one stream thread.
"""

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any, ClassVar

from apportion.errors import Refused, Unanswerable
from apportion.member.cluster_queries.records import ProduceQuery
from apportion.member.consumer.requests import ConsumerSettings
from apportion.member.membership import MembershipState, QueryCluster, Subscribe
from apportion.member.metadata_cache import MetadataCache
from apportion.member.records.fetch_buffer import ConsumerRecord
from apportion.member.records.queries import CallListener
from apportion.member.records.record_ownership import RecordConsumerSettings
from apportion.member.records.streams_consumer import (
    CallTaskListener,
    ReadStreamsMembership,
    ReportTaskOffsetSums,
    StreamsSnapshot,
)
from apportion.member.streams.assignor import StreamsSettings, TaskShare
from apportion.member.streams.client_side_machine import ChangeTopology, ClientSideStreamsMember
from apportion.member.streams.machine import TaskOffsetSums
from apportion.member.streams.task_lags import copies_of
from apportion.sim.actors.local_assignors import ApplicationAssignor
from apportion.sim.actors.member_answers import at_once
from apportion.sim.actors.members import member_settings
from apportion.sim.actors.record_application import ANSWERS, RecordApplication
from apportion.sim.actors.requests import list_ends, sending
from apportion.sim.kernel.client import REQUEST_TIMEOUT_MS, Sleep
from apportion.sim.kernel.clock import Script, ScriptRunner
from apportion.sim.kernel.network import RequestChannel
from apportion.sim.kernel.scenario import Scenario
from apportion.sim.kernel.settings import NO_LOCAL_ASSIGNOR
from apportion.sim.streams.thread import ObservedStreamsConsumer
from apportion.sim.streams.word_count import (
    CHANGELOG_BATCH,
    COUNT_SUBTOPOLOGY,
    RECORDS_PER_WRITE,
    SOURCE,
    WORD_BATCH,
    WORDS,
    changelog_of,
)
from apportion.streams.metadata.model import RUNNING, TaskId
from apportion.streams.task_assignment.client_states import AssignmentConfigs
from apportion.streams.topology import Topology
from apportion.topics import TopicIdPartition
from apportion.wire.messages.list_offsets import EARLIEST

POLL_TIMEOUT_MS = 500
MAX_POLL_RECORDS = 500
PRODUCE_TIMEOUT_MS = 2_000
RETRY_MS = 200
RECORDS_PER_READ = 50  # of a changelog, that a copy of a store reads at once
RESTORED_PER_S = 2_000  # records of a changelog, into the store of a task that is to run
CHECKPOINT_PROBABILITY = 0.2  # of writing the stores to the disk after some work
# `acceptable.recovery.lag`. A store grows by some records a second here, so Kafka's 10,000 would
# never make a task warm up.
ACCEPTABLE_LAG = 30
# `probing.rebalance.interval.ms`: after it, what was assigned without the ends of changelogs is
# assigned anew.
PROBING_MS = 3_000


class StreamsProcess(RecordApplication):
    """One process of the Streams application. All of them form one group.

    topology: that it runs; next_topology: that its next process will run. active: the tasks that it
    runs, by its rule. active_incarnation: the incarnation of the member in which they were
    assigned. disk, state: for each task with a store, the changelog offset up to which the
    store goes: on the disk, where the next process finds it, and in this process.
    """

    group = "streams"
    member: ClientSideStreamsMember
    rule: ObservedStreamsConsumer

    def __init__(self, *facts: Any) -> None:
        super().__init__(*facts)
        # It has an assignor of its own.
        self.local_assignor = ApplicationAssignor(self.simulation, self.name, NO_LOCAL_ASSIGNOR)
        self.disk: dict[TaskId, int] = {}
        self._has_stopped()

    def attach(
        self, topology: Topology, standbys: int, on_change: Callable[["StreamsProcess"], None]
    ) -> None:
        """Set what the process runs. on_change: called when its tasks may have changed."""
        self.topology = self.next_topology = topology
        self._standbys, self._on_change = standbys, on_change
        self.topics = topology.source_topics

    def _has_stopped(self) -> None:
        self.state = dict(self.disk)
        self.active: dict[TaskId, None] = {}
        self.active_incarnation = 0
        self._reported: dict[TaskId, int] = {}
        self._caught_up: TaskShare | None = None
        self._queries: list[tuple[ScriptRunner, RequestChannel]] = []

    @property
    def share(self) -> TaskShare:
        """The tasks in the newest assignment of its member."""
        return self.member.tasks()

    @property
    def has_caught_up(self) -> bool:
        """Return whether its copies of stores have reached the ends of their changelogs."""
        return self._caught_up is self.share

    def start(self) -> None:
        """Start a new process, of the newest topology, with the stores that are on the disk."""
        self._has_stopped()
        self.topology, self.topics = self.next_topology, self.next_topology.source_topics
        super().start()

    def end_incarnation(self) -> None:
        """End this incarnation of the process; no task runs any more."""
        super().end_incarnation()
        self.active = {}
        self._on_change(self)

    def stop(self) -> None:
        """Close the consumer: give up its tasks, write the stores to the disk, leave the group."""
        if self.is_up:
            self.give_up_partitions(self._leave)

    def _leave(self) -> None:
        self.disk = dict(self.state)
        super().stop()

    def _new_member(self, scenario: Scenario) -> ClientSideStreamsMember:
        streams = StreamsSettings(
            topology=self.topology,
            process_id=self.name.encode().rjust(16, b"."),
            policy=AssignmentConfigs(
                num_standby_replicas=self._standbys, acceptable_recovery_lag=ACCEPTABLE_LAG
            ),
            probing_interval_ms=PROBING_MS,
        )
        settings = member_settings(scenario, self.instance_id)
        member_id = f"{self.name}.{self.incarnation}"
        return ClientSideStreamsMember(
            streams, ConsumerSettings(self.group, member_id=member_id, **settings)
        )

    def subscribe(self, topics: tuple[str, ...]) -> None:
        """Change nothing: the topology decides the subscription."""

    def stays_with(self, topology: Topology) -> bool:
        """Return whether the process runs that topology, and its next one will."""
        return self.topology == self.next_topology == topology

    def change_topology(self, topology: Topology) -> None:
        """Run another topology from now on, as `StreamsConsumer.change_topology` does."""
        self.next_topology = topology
        is_member = self.is_up and self._status.state is not MembershipState.UNSUBSCRIBED
        if is_member and self.is_working:
            self.topology, self.topics = topology, topology.source_topics
            self.simulation.write_trace(self.name, f"runs a topology of {', '.join(self.topics)}")
            self.step_member(ChangeTopology(topology))
            self.rule.topics = self.topics
            self.step_member(Subscribe(self.topics))

    # a member may ask for the ends of changelogs while its assignor waits for an answer

    @property
    def channels(self) -> tuple[RequestChannel, ...]:
        """The connections that end with the process."""
        return (*super().channels, *(channel for _, channel in self._queries))

    def query_cluster(self, action: QueryCluster) -> None:
        """Send a query of the member beside those that wait for an answer."""
        self._queries = [each for each in self._queries if not each[0].is_finished]
        channel = RequestChannel(self, self.link, self.broker)
        runner = ScriptRunner(
            self.answer_assignor(action), partial(self.perform_for_assignor, channel)
        )
        self._queries.append((runner, channel))
        runner.resume(0)

    def cancel_assignor_query(self) -> None:
        """Wait for no answer to a query of the member any more."""
        for runner, _ in self._queries:
            runner.cancel()

    # the work of the tasks

    def script(self) -> Script:
        """Poll and work until the process ends."""
        self.metadata = MetadataCache()
        self.rule = ObservedStreamsConsumer(
            RecordConsumerSettings(
                group_id=self.group,
                reset=EARLIEST,
                auto_commit_ms=self.rng.choice((200, 1_000, 3_000)),
                max_poll_interval_ms=self.simulation.scenario.rebalance_ms,
                request_timeout_ms=REQUEST_TIMEOUT_MS,
            ),
            self.report_failed_commit,
        )
        self.rule.topics = self.topics
        while True:
            try:
                records = yield from self.poll_records(POLL_TIMEOUT_MS, MAX_POLL_RECORDS)
                if records:
                    yield Sleep(self.work_ms(self.simulation.scenario.batch_ms))
                    yield from self._write_results(records)
                yield from self._read_changelogs()
            except (Refused, Unanswerable):
                yield Sleep(RETRY_MS)
            if self.rng.random() < CHECKPOINT_PROBABILITY:
                self.disk = dict(self.state)

    def _write_results(self, records: Iterable[ConsumerRecord]) -> Script:
        """Write the words of lines, and the changelogs of counted words."""
        read = dict.fromkeys((each.topic, each.partition) for each in records)
        counted = [TaskId(COUNT_SUBTOPOLOGY, number) for topic, number in read if topic == WORDS]
        batches = {
            TopicIdPartition(WORDS, b"", number): WORD_BATCH
            for topic, number in read
            if topic == SOURCE
        } | {changelog_of(task): CHANGELOG_BATCH for task in counted if task in self.active}
        if not batches:
            return
        query = ProduceQuery(batches, PRODUCE_TIMEOUT_MS)
        answer = yield sending(query)
        for partition, result in () if answer is None else query.results(answer).items():
            if partition.topic != WORDS and isinstance(result, int):
                task = TaskId(COUNT_SUBTOPOLOGY, partition.partition)
                self.state[task] = result + RECORDS_PER_WRITE

    def _read_changelogs(self) -> Script:
        """Read the changelogs of copies a little further; report the stores that have changed."""
        share = self.share
        tasks = [task for task in copies_of(share) if task.subtopology == COUNT_SUBTOPOLOGY]
        ends = yield from list_ends(self, [changelog_of(task) for task in tasks])
        for task in tasks:
            end = ends[changelog_of(task)]
            self.state[task] = min(end, self.state.get(task, 0) + RECORDS_PER_READ)
        if all(self.state[task] == ends[changelog_of(task)] for task in tasks):
            self._caught_up = share
        sums = {task: offset for task, offset in self.state.items() if task not in self.active}
        if sums != self._reported:
            self._reported = sums
            yield from self.run_rule(self.rule.report(sums))

    def snapshot(self) -> StreamsSnapshot:
        """Return the member's state with its tasks, and the time of its process."""
        member = super().snapshot()
        return StreamsSnapshot(member.view, member.read_at_ms, member.interruptions, self.share)

    # answers to the rule's queries

    def _close_tasks(self) -> Script:
        """Take time for the tasks that go, in which the target may change."""
        yield Sleep(self.work_ms(100))

    def _restore(self, query: CallTaskListener) -> Script:
        """Restore the stores of tasks that are to run, from their changelogs."""
        tasks = [
            task
            for task in query.share.active
            if task.subtopology == COUNT_SUBTOPOLOGY and task not in self.active
        ]
        ends: Mapping[TopicIdPartition, int] | None = None
        while ends is None:
            try:
                ends = yield from list_ends(self, [changelog_of(task) for task in tasks])
            except (Refused, Unanswerable):
                yield Sleep(RETRY_MS)
        for task in tasks:
            end = ends[changelog_of(task)]
            yield Sleep(1 + max(0, end - self.state.get(task, 0)) * 1_000 // RESTORED_PER_S)
            self.state[task] = end

    def _run_tasks(self, query: ReportTaskOffsetSums) -> Script:
        """Run exactly the tasks that the rule reports as running, and tell the member."""
        self.active = dict.fromkeys(
            task for task, offset_sum in query.offset_sums.items() if offset_sum == RUNNING
        )
        self.active_incarnation = query.incarnation
        self._on_change(self)
        self.step_member(TaskOffsetSums(query.offset_sums, query.incarnation))
        return at_once(None)

    answers: ClassVar[Mapping[type, Any]] = {
        **ANSWERS,
        CallListener: lambda process, _query: process._close_tasks(),
        ReadStreamsMembership: lambda process, _query: at_once(process.snapshot()),
        CallTaskListener: _restore,
        ReportTaskOffsetSums: _run_tasks,
    }
