"""One stream thread of a Kafka Streams application: a real Streams member with simulated work.

`StreamsRecordConsumer` decides what a poll does, as in `apportion.StreamsConsumer`. The work is
what a group can see of word count: the active task of a store writes to its changelog, and standby
and restoring tasks read it. A thread closes as Kafka Streams does: without LeaveGroup, so the group
waits for its session to end.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar

from apportion.errors import Code, Refused, Unanswerable
from apportion.member.classic.requests import ClassicSettings
from apportion.member.cluster_queries.records import ProduceQuery
from apportion.member.membership import SendToCoordinator
from apportion.member.metadata_cache import MetadataCache
from apportion.member.reactions import Reaction, reaction
from apportion.member.records.queries import CallListener, FetchRecords
from apportion.member.records.record_ownership import RecordConsumerSettings
from apportion.member.records.streams_consumer import (
    CallTaskListener,
    ReadStreamsMembership,
    ReportTaskOffsetSums,
    StreamsRecordConsumer,
    StreamsSnapshot,
)
from apportion.member.streams.assignor import StreamsSettings, TaskShare
from apportion.member.streams.machine import StreamsMember, TaskOffsetSums
from apportion.sim.actors.member_answers import at_once
from apportion.sim.actors.members import classic_settings, has_new_target
from apportion.sim.actors.record_application import (
    ANSWERS,
    ObservedCommits,
    RecordApplication,
)
from apportion.sim.actors.requests import AwaitMember, list_ends, sending
from apportion.sim.kernel.client import REQUEST_TIMEOUT_MS, Sleep
from apportion.sim.kernel.clock import Script
from apportion.sim.kernel.scenario import Scenario
from apportion.sim.streams.word_count import (
    CHANGELOG_BATCH,
    COUNT_SUBTOPOLOGY,
    RECORDS_PER_WRITE,
    WORD_COUNT,
    changelog_of,
    task_of,
)
from apportion.streams.metadata.model import RUNNING, TaskId
from apportion.streams.metadata.releases import Release
from apportion.wire.messages.join_group import JoinGroupRequest, JoinGroupResponse
from apportion.wire.messages.list_offsets import EARLIEST

if TYPE_CHECKING:
    from apportion.sim.streams.instance import Instance

PRODUCE_TIMEOUT_MS = 2_000
FIRST_WARMUP_VERSION = 8  # the metadata version of 2.6
RECORDS_PER_READ = 200  # of a changelog, that a standby or a restoring task reads at once
WORK_INTERVAL_MS = 2_000
CHECKPOINT_PROBABILITY = 0.2  # of writing the state to the disk after some work
TASK_CLOSE_MS = 200  # the mean time to finish tasks before they are given up
COMMIT_INTERVAL_MS = 30_000  # commit.interval.ms
MAX_POLL_RECORDS = 1_000
RETRY_MS = 200


class ObservedStreamsConsumer(ObservedCommits, StreamsRecordConsumer):
    """The rule of a stream thread, observed."""


class StreamThread(RecordApplication):
    """One stream thread of `instance`.

    active: the tasks that it runs, by its rule. restoring: those of them whose stores are not
    complete yet. active_incarnation: the incarnation of the member in which `active` was assigned.
    offset_sums: the task offset sums that the member knows; offset_sums_at_join: those in the
    subscription of the last JoinGroup. join_versions: the metadata version of the subscription with
    which the thread joined each generation. is_leader: in the generation joined last.
    """

    group = "wordcount"
    member: StreamsMember
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
        """Make this stream thread one of `instance`.

        on_change: called when its tasks may have changed. settings: fields of StreamsSettings.
        """
        self.on_change = on_change
        self.instance = instance
        instance.threads.append(self)
        self.settings = settings
        self.topics = WORD_COUNT.source_topics
        self.is_leader = False
        self.join_versions: dict[int, int] = {}
        self.offset_sums: dict[TaskId, int] = {}
        self.offset_sums_at_join: dict[TaskId, int] = {}
        self.active: dict[TaskId, None] = {}
        self.active_incarnation = 0
        self.restoring: dict[TaskId, None] = {}

    @property
    def share(self) -> TaskShare:
        """The tasks in the newest assignment of its member."""
        return self.member.tasks()

    @property
    def assigned_version(self) -> int:
        """The metadata version of its newest assignment; -1 without one."""
        return self.share.used

    @property
    def locked(self) -> Mapping[TaskId, None]:
        """The tasks whose state directories the thread has locked: no other thread may use them."""
        return self.active | dict.fromkeys((*self.share.active, *self.share.standby))

    @property
    def uses_classic_protocol(self) -> bool:
        """True: groups of the assignor "stream" are classic groups."""
        return True

    @property
    def _protocol_suffix(self) -> str:
        return f" ({self.instance.runs_as})"

    def subscribe(self, topics: tuple[str, ...]) -> None:
        """Change nothing: the topology decides the subscription."""

    def start(self) -> None:
        """Start the stream thread, and its instance's process if this is the first thread."""
        if not self.instance.is_up:
            self.instance.start()
        self.active, self.restoring, self.offset_sums_at_join = {}, {}, {}
        super().start()

    def end_incarnation(self) -> None:
        """End this incarnation of the process; no task runs any more."""
        super().end_incarnation()
        self.active = {}
        self.on_change(self)

    def close(self) -> None:
        """Close the stream thread as `KafkaStreams.close` does: with a checkpoint of the state.

        Only the oldest releases send LeaveGroup (`LEAVES_GROUP_ON_CLOSE`).
        """
        if not self.is_up:
            return
        self.give_up_partitions(self._leave if self.instance.leaves_on_close else self._end)

    def stop(self) -> None:
        """Remove the stream thread from its application: give up its tasks, and leave the group."""
        if self.is_up:
            self.give_up_partitions(self._leave)

    def _leave(self) -> None:
        self.instance.write_checkpoint()
        super().stop()

    def _end(self) -> None:
        self.instance.write_checkpoint()
        self.die(closes_connections=True)

    def _new_member(self, scenario: Scenario) -> StreamsMember:
        """Create the Streams member of the release that the instance runs as now."""
        bounce = self.instance.runs_as
        settings = StreamsSettings(
            topology=WORD_COUNT,
            process_id=self.instance.name.encode().rjust(16, b"."),
            release=bounce.release,
            upgrade_from=bounce.upgrade_from,
            assignor=default_assignor(bounce.release),
            **self.settings,
        )
        classic = classic_settings(scenario, self.instance_id)
        return StreamsMember(settings, ClassicSettings(group_id=self.group, **classic))

    def step_member(self, event: Any) -> None:
        """Step the Streams member over `event`, after it was given the process's state."""
        # Before each step: the step may build a JoinGroup, and Kafka Streams reports the state of
        # that moment.
        self.offset_sums = self._current_offset_sums()
        self.member.step(TaskOffsetSums(self.offset_sums, self.active_incarnation), self.now())
        super().step_member(event)
        self.on_change(self)

    def note_use(self) -> None:
        """Report the partitions in use: those of the tasks that run."""
        running = (each for each in self.rule.positions if task_of(each) in self.active)
        self.set_in_use(self.rule.incarnation, dict.fromkeys(running))

    def _current_offset_sums(self) -> dict[TaskId, int]:
        """Return the state that this thread reports, with RUNNING for each complete active task."""
        sums = self.instance.reportable_state(self)
        sums.update({task: RUNNING for task in self.active if task not in self.restoring})
        return sums

    def _give_up(self, code: Code, why: str) -> None:
        """End the whole process, as Kafka Streams does when a thread fails for good.

        If a new attempt can help, start the thread again instead.
        """
        if reaction("JoinGroup", code) is Reaction.RETRY_FOR_A_TIME:
            super()._give_up(code, why)
            return
        self.instance.died_of = why
        self.simulation.write_trace(self.name, f"dies: {why}")
        for thread in self.instance.threads:
            thread._end_process()

    def _restart(self, incarnation: int) -> None:
        # A process that failed for good stays down: a restart would fail in the same way.
        if not self.instance.died_of:
            self.restart_later(self, incarnation)

    def _receive(self, send: SendToCoordinator, answer: Any) -> None:
        if isinstance(answer, JoinGroupResponse) and answer.error_code == Code.NONE:
            self.is_leader = answer.leader == answer.member_id
            self.join_versions[answer.generation_id] = self.member.used_version
        super()._receive(send, answer)

    def _send(self, send: SendToCoordinator) -> None:
        request = send.request
        if isinstance(request, JoinGroupRequest):
            # The leader decides by these sums; the laws compare its plan with them, not with later
            # ones.
            self.offset_sums_at_join = self.offset_sums
            if self.member.rejoins_with_newer_version:
                self.on_newer_version(self, request.reason or "")
        super()._send(send)

    # the work of the tasks

    def script(self) -> Script:
        """Poll as a stream thread, until the process ends."""
        self.metadata = MetadataCache()
        self.rule = ObservedStreamsConsumer(
            RecordConsumerSettings(
                group_id=self.group,
                reset=EARLIEST,
                auto_commit_ms=COMMIT_INTERVAL_MS,
                max_poll_interval_ms=self.simulation.scenario.rebalance_ms,
                request_timeout_ms=REQUEST_TIMEOUT_MS,
            ),
            self.report_failed_commit,
        )
        self.rule.topics = self.topics
        while True:
            try:
                yield from self.poll_records(0, MAX_POLL_RECORDS)
                yield from self._work_on_tasks()
            except (Refused, Unanswerable):
                yield Sleep(RETRY_MS)
            yield AwaitMember(self.work_ms(WORK_INTERVAL_MS), has_new_target)

    def _work_on_tasks(self) -> Script:
        """Work on the active, restoring and standby tasks once."""
        yield from self._write_changelogs()
        yield from self._read_changelogs()
        if self.rng.random() < CHECKPOINT_PROBABILITY:
            self.instance.write_checkpoint()

    def _write_changelogs(self) -> Script:
        """Write some records to each complete store and its changelog, as the thread's tasks do."""
        tasks = [
            task
            for task in self.active
            if task.subtopology == COUNT_SUBTOPOLOGY and task not in self.restoring
        ]
        if not tasks:
            return
        query = ProduceQuery(
            {changelog_of(task): CHANGELOG_BATCH for task in tasks}, PRODUCE_TIMEOUT_MS
        )
        answer = yield sending(query)
        for partition, result in () if answer is None else query.results(answer).items():
            if isinstance(result, int):
                self.instance.state[TaskId(COUNT_SUBTOPOLOGY, partition.partition)] = (
                    result + RECORDS_PER_WRITE
                )

    def _read_changelogs(self) -> Script:
        """Read the changelogs of the thread's standby and restoring tasks a little further."""
        # Once each: a restoring task becomes a standby before the thread has given it up.
        tasks = [
            task
            for task in self.restoring | dict.fromkeys(self.share.standby)
            if task.subtopology == COUNT_SUBTOPOLOGY
        ]
        ends = yield from list_ends(self, [changelog_of(task) for task in tasks])
        for task in tasks:
            end = ends[changelog_of(task)]
            self.instance.state[task] = min(
                end, self.instance.state.get(task, 0) + RECORDS_PER_READ
            )
            if self.instance.state[task] == end:
                self.restoring.pop(task, None)

    def snapshot(self) -> StreamsSnapshot:
        """Return the member's state with its tasks, and the time of its process."""
        member = super().snapshot()
        return StreamsSnapshot(member.view, member.read_at_ms, member.interruptions, self.share)

    # answers to the rule's queries

    def _fetch(self, query: FetchRecords) -> Script:
        """Fetch for the running tasks; Kafka Streams pauses the partitions of restoring ones."""
        ready = {
            partition: offset
            for partition, offset in query.positions.items()
            if task_of(partition) not in self.restoring
        }
        if not ready:
            return {}
        return (yield from self.fetch_records(replace(query, positions=ready)))

    def _call_listener(self, query: CallListener) -> Script:
        # Closing a task takes time, in which the target may change.
        if query.name == "on_revoked":
            yield Sleep(self.work_ms(TASK_CLOSE_MS))

    def _run_tasks(self, query: ReportTaskOffsetSums) -> Script:
        """Run exactly the tasks that the rule reports as running; restore the stores of new ones.

        The member has it with the whole state of the process before its next step.
        """
        running = dict.fromkeys(
            task for task, offset_sum in query.offset_sums.items() if offset_sum == RUNNING
        )
        self.restoring = {
            task: None
            for task in running
            if task in self.restoring
            or (task not in self.active and task.subtopology == COUNT_SUBTOPOLOGY)
        }
        self.active, self.active_incarnation = running, query.incarnation
        self.on_change(self)
        return at_once(None)

    answers: ClassVar[Mapping[type, Any]] = {
        **ANSWERS,
        FetchRecords: _fetch,
        CallListener: _call_listener,
        ReadStreamsMembership: lambda thread, _query: at_once(thread.snapshot()),
        # The report that follows it names the same tasks.
        CallTaskListener: lambda _thread, _query: at_once(None),
        ReportTaskOffsetSums: _run_tasks,
    }


def default_assignor(release: Release) -> str:
    """Return the default task assignor of that release: since 2.6 it warms up stores (KIP-441)."""
    return (
        "highavailability"
        if release.cooperative and release.newest_version >= FIRST_WARMUP_VERSION
        else "sticky"
    )
