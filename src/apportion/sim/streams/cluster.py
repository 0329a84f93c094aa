"""Everybody in a world with one Streams group, and what was seen of it: who ran which task when,
and which laws held.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

from apportion.coord.classic.state import ClassicGroup
from apportion.coord.classic.states import ClassicGroupState
from apportion.member.membership import MembershipState
from apportion.sim.actors.application import Application
from apportion.sim.cluster import SimulatedCluster
from apportion.sim.kernel.clock import Simulation
from apportion.sim.kernel.outcome import LawBroken
from apportion.sim.streams.instance import Instance
from apportion.sim.streams.laws import ALWAYS, AT_REST, StreamsGroup
from apportion.sim.streams.thread import StreamThread
from apportion.sim.streams.word_count import COUNT_SUBTOPOLOGY, SOURCE, SPLIT_SUBTOPOLOGY
from apportion.streams.metadata.model import TaskId
from apportion.streams.metadata.releases import VersionNegotiation
from apportion.streams.metadata.upgrades import RollingBounce
from apportion.streams.task_assignment.client_states import AssignmentConfigs


class InstanceChange(NamedTuple):
    """From `at_ms` on the instance is this. runs_as: None while it does not live. version: of its
    assignment, -1 without one.
    """

    at_ms: int
    instance: str
    runs_as: RollingBounce | None
    version: int
    tasks: int


class StreamsCluster(SimulatedCluster):
    """One world in which all applications are threads of the instances of one Streams application.
    tasks: all that it has.

    instance_changes: what each instance was, in the order of time. gaps: tasks and how long they
    were active nowhere, from the moment on at which all were active for the first time.
    """

    def __init__(
        self,
        simulation: Simulation,
        instances: Sequence[Instance[StreamThread]],
        policy: AssignmentConfigs,
        probing_ms: int,
    ) -> None:
        """instances: those of the application; they share the world's workers, which are their
        threads, evenly.
        """
        self._probing_ms = probing_ms
        self.policy = policy
        self.instances = instances
        self.threads: list[StreamThread] = []
        self.instance_changes: list[InstanceChange] = []
        self.gaps: list[tuple[TaskId, int]] = []
        self._seen: dict[str, Any] = {}  # of each thread: what it was when it was looked at last
        self._shown: dict[str, Any] = {}  # of each instance: its last point
        # None until all tasks have been active once
        self._free_since_ms: dict[TaskId, int] | None = None
        super().__init__(simulation)
        numbers = range(simulation.scenario.partitions)
        self.tasks = tuple(
            TaskId(part, number)
            for part in (SPLIT_SUBTOPOLOGY, COUNT_SUBTOPOLOGY)
            for number in numbers
        )

    def _add_application(self, index: int) -> None:
        scenario = self.simulation.scenario
        threads = scenario.workers // len(self.instances)
        instance, number = self.instances[index // threads], index % threads + 1
        name = instance.name if threads == 1 else f"{instance.name}-{number}"
        thread = StreamThread(
            self.simulation,
            name,
            self.broker,
            (SOURCE,),
            index < scenario.statics,
            self.checker,
            self._protocols[index],
        )
        thread.on_newer_version, thread.restart_later = (
            self.on_newer_version,
            self._start_if_current,
        )
        thread.attach(
            instance, self._record_change, policy=self.policy, probing_interval_ms=self._probing_ms
        )
        self.threads.append(thread)
        self.applications.append(thread)
        self.checker.owners[thread.name] = thread

    def _start_if_current(self, application: Application, incarnation: int) -> None:
        """Nobody begins before there is something to read, and no process before the one of before
        has ended.
        """
        assert isinstance(application, StreamThread)
        if self.topic_admin.is_idle and not application.instance.is_closing:
            super()._start_if_current(application, incarnation)
        elif application.incarnation == incarnation:
            self.start_later(application, 100)

    @property
    def classic_or_none(self) -> ClassicGroup | None:
        """The group as its coordinator has it; None while there is none."""
        shards = () if self.broker.node is None else self.broker.node.shards()
        for _, shard in shards:
            group = shard.ledger.groups.get(StreamThread.group)
            if isinstance(group, ClassicGroup):
                return group
        return None

    def leader_or_none(self) -> Instance[StreamThread] | None:
        """The instance of which a thread leads the group."""
        group = self.classic_or_none
        return (
            None
            if group is None
            else next(
                (each.instance for each in self._live() if self._id(each) == group.live.leader),
                None,
            )
        )

    def is_at_rest(self) -> bool:
        """Every living thread has what its newest assignment gives it, and the group knows of
        nobody else.
        """
        group = self.classic_or_none
        if (
            group is None
            or group.live.state is not ClassicGroupState.STABLE
            or not self.broker.is_listening
        ):
            return False
        live = self._live()
        if sorted(group.live.members) != sorted(map(self._id, live)):
            return False
        return all(
            each.member.view().state is MembershipState.STABLE
            and each.member.view().epoch == group.live.generation
            and len(each.in_use.partitions) == len(each.member.view().owned)
            for each in live
        )

    def check_rest(self) -> None:
        """The group, which is at rest, is as it shall be."""
        for law, check in AT_REST.items():
            for why in check(self._group()):
                raise LawBroken(law, why)

    def check_alive(self) -> None:
        """Nobody has died but by a fault."""
        for name, why in self.died().items():
            raise LawBroken("no-defect", f"{name} cannot be a member: {why}")

    def version(self) -> int:
        """The highest metadata version that somebody's assignment is in; at rest all are in the
        same.
        """
        return max((each.share.used for each in self._live()), default=-1)

    def owners(self) -> dict[TaskId, str]:
        """The instance that runs each task now, whichever thread of it does."""
        return {task: each.instance.name for each in self._live() for task in each.active}

    def longest_gap_ms(self) -> int:
        """The longest time that a task was active nowhere, gaps that are still open included."""
        open_ = (
            self.simulation.now_ms - since_ms for since_ms in (self._free_since_ms or {}).values()
        )
        return max([0, *(gap_ms for _, gap_ms in self.gaps), *open_])

    def died(self) -> dict[str, str]:
        """The instances that are dead for good, and why."""
        return {
            each.name: each.died_of for each in self.instances if each.died_of and not each.is_up
        }

    def _live(self) -> list[StreamThread]:
        return [each for each in self.threads if each.is_up and each.is_working]

    def _id(self, thread: StreamThread) -> str:
        return thread.member.view().member_id

    def _group(self) -> StreamsGroup:
        group = self.classic_or_none
        return StreamsGroup(
            self._live(), {} if group is None else group.live.members, self.tasks, self.policy
        )

    def on_newer_version(self, thread: StreamThread, why: str) -> None:
        """The thread joins again because all understand a newer version."""
        if (
            thread.instance.runs_as.release.negotiation is VersionNegotiation.PROBES
            and not thread.is_leader
        ):
            raise LawBroken(
                "leader-triggers", f"{thread.name}, which does not lead, joins again: {why}."
            )

    def _record_change(self, thread: StreamThread) -> None:
        """The thread may have other tasks than before, or have begun or ended to live."""
        instance = thread.instance
        point = InstanceChange(
            self.simulation.now_ms,
            instance.name,
            instance.runs_as if instance.is_up else None,
            instance.version,
            instance.active,
        )
        seen = (point[1:], thread.share, tuple(thread.active))
        if self._seen.get(thread.name) == seen:
            return
        self._seen[thread.name] = seen
        if self._shown.get(instance.name) != point[1:]:
            self._shown[instance.name] = point[1:]
            self.instance_changes.append(point)
        self._count()
        for law, check in ALWAYS.items():
            for why in check(self._group()):
                raise LawBroken(law, why)

    def _count(self) -> None:
        """It is known which tasks are active nowhere, and since when."""
        now_ms, owned = self.simulation.now_ms, self.owners()
        if self._free_since_ms is None:
            if len(owned) == len(self.tasks):
                self._free_since_ms = {}
            return
        for task in self.tasks:
            if task not in owned:
                self._free_since_ms.setdefault(task, now_ms)
            elif task in self._free_since_ms:
                self.gaps.append((task, now_ms - self._free_since_ms.pop(task)))
