"""A member of a Kafka Streams group of KIP-848: a consumer group member that assigns tasks itself.

It is a KIP-848 member with one client-side assignor (`client_side.py`), and takes the events of
the classic protocol's Streams member (`machine.py`) and two more. Its heartbeats say with a reason
why the group needs a new assignment. No probing rebalances are planned: the member looks at the
ends of its copies' changelogs itself, and says when one is ready (`task_lags.py`).

A coordinator that has accepted a reason may crash before it has saved it, and the epoch that comes
next may be of a target that knows nothing of it. So a member says once more that a warm-up is ready
when it has not moved in `probing.rebalance.interval.ms`.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from apportion.machine import Instant, Note, Tick
from apportion.member.consumer.machine import ConsumerMember
from apportion.member.consumer.requests import ConsumerSettings
from apportion.member.consumer.states import IN_GROUP
from apportion.member.lookups import Lookups
from apportion.member.membership import (
    Action,
    AssignorRan,
    Event,
    Failed,
    Left,
    Lost,
    QueryAnswered,
    QueryCluster,
    Subscribe,
    Unanswered,
)
from apportion.member.step import Step
from apportion.member.streams.assignor import StreamsSettings, TaskShare
from apportion.member.streams.client_side import NAME, ClientSideStreamsAssignor
from apportion.member.streams.machine import ShutDownApplication, StreamsEvent, TaskOffsetSums
from apportion.member.streams.task_lags import Changelogs, TaskLags
from apportion.rules import RunningRule
from apportion.streams.metadata.kip848 import AssignmentError, Reason
from apportion.streams.metadata.model import TaskId
from apportion.streams.task_planning import fetch_changelog_ends
from apportion.streams.topology import Topology
from apportion.topics import TopicPartition


@dataclass(slots=True, frozen=True)
class WarmUpFailed:
    """The owner cannot restore these tasks, so the group shall look for another place."""

    tasks: tuple[TaskId, ...]


@dataclass(slots=True, frozen=True)
class ChangeTopology:
    """The owner runs another topology from now on. The member subscribes to its source topics."""

    topology: Topology


ClientSideStreamsEvent = StreamsEvent | WarmUpFailed | ChangeTopology


@dataclass(frozen=True, slots=True)
class _EndsQuery:
    """The end offsets that the member asks the cluster for, to know the lags of its copies."""

    changelogs: Changelogs
    running: RunningRule[Mapping[TopicPartition, int]]


class ClientSideStreamsMember(ConsumerMember):
    """One consumer of one process in one Streams group of KIP-848."""

    _without_local_assignors = "group_protocol='classic', with which Kafka Streams works on it"
    _assignor_errors: ClassVar[Mapping[int, str]] = {
        int(error): error.name.lower().replace("_", " ") for error in AssignmentError
    }

    def __init__(self, settings: StreamsSettings, consumer: ConsumerSettings) -> None:
        """Begin as a member with one client-side assignor. consumer: all settings but that."""
        self._assignor = ClientSideStreamsAssignor(settings)
        super().__init__(replace(consumer, assignors=(self._assignor,)))
        self._lags = TaskLags(settings.policy.acceptable_recovery_lag)
        self._shuts_down = False
        self._has_asked_for_topology = False  # in this membership, for tasks of another topology
        self._ends_lookup = Lookups()
        self._ends: _EndsQuery | None = None
        self._assigns_again_ms: int | None = None
        self._says_ready_again_ms: int | None = None
        # Also for a look-up of ends, beside the assignor's own.
        self.concurrent_calls += 1

    def tasks(self) -> TaskShare:
        """Return the last assigned tasks; none after a lost membership."""
        return self._assignor.tasks

    def step(self, event: ClientSideStreamsEvent, now: Instant) -> list[Action]:
        """Apply an event to a Streams member and return the actions that follow, in order."""
        assignor = self._assignor
        match event:
            # Of any incarnation: the state of a task that does not run outlives a membership.
            case TaskOffsetSums(offset_sums):
                if self._lags.report(offset_sums, assignor.tasks):
                    self._ask_for_assignment(Reason.WARM_UP_READY)
                event = Tick()
            case WarmUpFailed(tasks):
                if self._lags.report_failed(tasks):
                    self._ask_for_assignment(Reason.WARM_UP_FAILED)
                event = Tick()
            case ChangeTopology(topology):
                assignor.change_topology(topology)
                self._ask_for_assignment(Reason.TOPOLOGY_CHANGED)
                # In the heartbeat that tells the group of the topology: a subscription that comes
                # later lacks the new source topics when the group is assigned.
                event = self._subscribe(topology.source_topics)
            case Subscribe(topics):
                event = self._subscribe(topics)
            case ShutDownApplication():
                self._shuts_down = True
                self._ask_for_assignment(Reason.SHUTDOWN)
                event = Tick()
        before = assignor.tasks
        actions = super().step(event, now)
        # Tasks of a lost membership may run elsewhere already, so nobody may read them here.
        if any(isinstance(action, Lost | Left) for action in actions):
            assignor.tasks = TaskShare()
        if any(isinstance(action, Failed | Left) for action in actions):
            # or the next membership of this member would ask for the shutdown again
            self._shuts_down = False
        if assignor.tasks is not before:
            self._lags.take_assignment(assignor.tasks)
        return [*self._take_notes(), *actions]

    def _take_notes(self) -> list[Note]:
        # One by one: a computation on another thread may add to them meanwhile.
        notes = self._assignor.notes
        return [Note("warning", notes.popleft()) for _ in range(len(notes))]

    def _due_times(self) -> list[int | None]:
        again_ms = (self._assigns_again_ms, self._says_ready_again_ms)
        return [*super()._due_times(), self._ends_at_ms(), *again_ms]

    def _apply_event(self, step: Step, event: Event) -> None:
        super()._apply_event(step, event)
        match event:
            case AssignorRan() if self._assignor.is_unfinished:
                self._assignor.is_unfinished = False
                self._assigns_again_ms = self._after_probing_interval(step)
            case QueryAnswered() | Unanswered():
                self._apply_ends(step, event)
        if step.is_due(self._assigns_again_ms):
            self._assigns_again_ms = None
            self._ask_for_assignment(Reason.WARM_UP_READY)
        if step.is_due(self._says_ready_again_ms):
            self._says_ready_again_ms = None
            if self._lags.has_ready_warm_up(self.tasks()):
                self._say_ready(step)
        if step.is_due(self._ends_at_ms()):
            self._ask_for_ends(step)

    def _after_probing_interval(self, step: Step) -> int:
        return step.now.mono_ms + self._assignor.settings.probing_interval_ms

    def _subscribe(self, topics: tuple[str, ...]) -> Subscribe:
        """Return the event that subscribes the member to these topics, and keeps the present ones.

        The coordinator takes a partition away when its topic is left; but the tasks of the older
        topology go on until those of the newer are assigned.
        """
        return Subscribe((*self._topics, *topics))

    def _unsubscribe_older_topics(self) -> None:
        """Subscribe to the topics of the topology alone, once its tasks are assigned."""
        if not self._assignor.is_changing:
            sources = self._assignor.settings.topology.source_topics
            self._topics = tuple(topic for topic in self._topics if topic in sources)

    def _tell_assignment(self, step: Step) -> None:
        super()._tell_assignment(step)
        self._unsubscribe_older_topics()
        if self._lags.take_ready(self.tasks()):
            self._say_ready(step)
        # A static member that was started again with another topology: its join asks for nothing.
        if self._assignor.is_of_unknown_topology and not self._has_asked_for_topology:
            self._has_asked_for_topology = True
            self._ask_for_assignment(Reason.TOPOLOGY_CHANGED)

    def _start_incarnation(self, number: int) -> None:
        super()._start_incarnation(number)
        self._assignor.begin_membership(self._lags.in_metadata(TaskShare()))
        self._unsubscribe_older_topics()
        self._ends = self._assigns_again_ms = self._says_ready_again_ms = None
        self._has_asked_for_topology = False

    def _ask_for_assignment(self, reason: Reason) -> None:
        """Have the next heartbeat ask for a new assignment, with all that the group may hear."""
        # The request to shut down stands until the member has left.
        reason = Reason.SHUTDOWN if self._shuts_down else reason
        self._assignor.update(reason, self._lags.in_metadata(self.tasks()))
        self._local.request_rebalance(NAME, reason, stands=reason is Reason.SHUTDOWN)

    # the ends of the copies' changelogs

    def _changelogs_to_ask(self) -> Changelogs:
        return self._lags.changelogs_to_ask(self._assignor.settings.topology, self.tasks())

    def _ends_at_ms(self) -> int | None:
        """Return when the ends of changelogs are asked for next; None if they are not needed."""
        is_needed = self._ends is not None or self._changelogs_to_ask()
        return self._ends_lookup.due_at() if self.state in IN_GROUP and is_needed else None

    def _ask_for_ends(self, step: Step) -> None:
        if self._ends is None:
            changelogs = self._changelogs_to_ask()
            self._lags.begin_asking(changelogs)
            partitions = [each for every in changelogs.values() for each in every]
            rule = fetch_changelog_ends(self._assignor.settings.topology, partitions)
            self._ends = _EndsQuery(changelogs, RunningRule(rule))
        query: Any = self._ends.running.query
        step.emit(self._ends_lookup.start(QueryCluster(self._link.next_request_id(), query)))

    def _apply_ends(self, step: Step, event: QueryAnswered | Unanswered) -> None:
        """Take the ends of changelogs; ask for a new assignment if copies are ready by them."""
        if self._ends_lookup.take_answered(event.request_id) is None or self._ends is None:
            return
        ends = self._ends
        if isinstance(event, Unanswered):
            self._ends = None
            self._lags.ask_again()
        else:
            ends.running.resume(event.answer)
            if not ends.running.is_finished:
                return
            self._ends = None
            if self._lags.apply_ends(ends.changelogs, ends.running.result, self.tasks()):
                self._say_ready(step)
        # An application may report after each poll; the ends are not asked for as often.
        self._ends_lookup.schedule(step.now, self.settings.backoff_limit_ms)

    def _say_ready(self, step: Step) -> None:
        """Have the next heartbeat say that copies are ready.

        A later one says it again if a warm-up is still one after the probing interval.
        """
        self._ask_for_assignment(Reason.WARM_UP_READY)
        self._says_ready_again_ms = self._after_probing_interval(step)
