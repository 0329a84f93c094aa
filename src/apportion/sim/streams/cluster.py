"""The simulated cluster of one Streams group: its instances, its tasks, and their checks."""

from collections.abc import Sequence
from typing import Any, NamedTuple

from apportion.coord.classic.state import ClassicGroup
from apportion.member.membership import MembershipState
from apportion.sim.actors.application import Application
from apportion.sim.cluster import SimulatedCluster
from apportion.sim.kernel.clock import Simulation
from apportion.sim.kernel.outcome import LawBroken
from apportion.sim.streams.instance import Instance
from apportion.sim.streams.laws import ALWAYS, AT_REST, StreamsGroup
from apportion.sim.streams.thread import StreamThread
from apportion.sim.streams.word_count import COUNT_SUBTOPOLOGY, SPLIT_SUBTOPOLOGY
from apportion.streams.metadata.model import TaskId
from apportion.streams.metadata.releases import VersionNegotiation
from apportion.streams.metadata.upgrades import RollingBounce
from apportion.streams.task_assignment.client_states import AssignmentConfigs
from apportion.wire.group_states import GroupState


class InstanceChange(NamedTuple):
    """The state of an instance from `at_ms` on.

    runs_as: None while no thread of it lives. version: the metadata version of its newest
    assignment, -1 without one. tasks: how many active tasks it runs.
    """

    at_ms: int
    instance: str
    runs_as: RollingBounce | None
    version: int
    tasks: int


class StreamsCluster(SimulatedCluster):
    """A simulated cluster whose applications are the stream threads of one Streams application.

    tasks: all tasks of the application. instance_changes: in the order of time. gaps: for each time
    that a task was active nowhere, the task and how long; counted from the moment on at which all
    tasks were active for the first time.
    """

    def __init__(
        self,
        simulation: Simulation,
        instances: Sequence[Instance[StreamThread]],
        configs: AssignmentConfigs,
        probing_ms: int,
    ) -> None:
        """Create the threads of the instances: the scenario's workers, equally many for each."""
        self._probing_ms = probing_ms
        self.configs = configs
        self.instances = instances
        self.threads: list[StreamThread] = []
        self.instance_changes: list[InstanceChange] = []
        self.gaps: list[tuple[TaskId, int]] = []
        self._last_threads: dict[str, Any] = {}  # of each thread: its state at the last change
        self._last_instances: dict[str, Any] = {}  # of each instance: its last InstanceChange
        # of each task without an owner: since when; None until all tasks have been active once
        self._unowned_since_ms: dict[TaskId, int] | None = None
        super().__init__(simulation)
        numbers = range(simulation.scenario.partitions)
        self.tasks = tuple(
            TaskId(subtopology, number)
            for subtopology in (SPLIT_SUBTOPOLOGY, COUNT_SUBTOPOLOGY)
            for number in numbers
        )

    def _add_application(self, index: int) -> None:
        """Add the stream thread of that number: those of the first instance first."""
        threads = self.simulation.scenario.workers // len(self.instances)
        instance, number = self.instances[index // threads], index % threads + 1
        name = instance.name if threads == 1 else f"{instance.name}-{number}"
        thread = self._create(StreamThread, name, self._protocols[index], index)
        thread.on_newer_version = self.on_newer_version
        thread.restart_later = self._start_if_current
        thread.attach(
            instance, self._record_change, policy=self.configs, probing_interval_ms=self._probing_ms
        )
        self.threads.append(thread)
        self.applications.append(thread)

    def _start_if_current(self, application: Application, incarnation: int) -> None:
        """Start the thread once the source topic exists and the instance's old process ended."""
        assert isinstance(application, StreamThread)
        if self.topic_admin.is_idle and not application.instance.is_closing:
            super()._start_if_current(application, incarnation)
        elif application.incarnation == incarnation:
            self.start_later(application, 100)

    @property
    def classic_or_none(self) -> ClassicGroup | None:
        """The simulated Streams group in the coordinator; None while it does not exist."""
        group = self.broker.group_or_none(StreamThread.group)
        return group if isinstance(group, ClassicGroup) else None

    def leader_or_none(self) -> Instance[StreamThread] | None:
        """Return the instance one thread of which leads the group; None without a living leader."""
        group = self.classic_or_none
        leader = None if group is None else group.live.leader
        leaders = (each.instance for each in self._live() if self._member_id(each) == leader)
        return next(leaders, None)

    def is_at_rest(self) -> bool:
        """Return whether the group is Stable and every living thread runs its newest assignment.

        The group must have no other members than the living threads.
        """
        group = self.classic_or_none
        if (
            group is None
            or group.live.state is not GroupState.STABLE
            or not self.broker.is_listening
            # It has the tasks that it is about to give up.
            or any(instance.is_closing for instance in self.instances)
        ):
            return False
        live = self._live()
        if sorted(group.live.members) != sorted(map(self._member_id, live)):
            return False
        return all(
            thread.member.view().state is MembershipState.STABLE
            and thread.member.view().epoch == group.live.generation
            and len(thread.in_use.partitions) == len(thread.member.view().owned)
            for thread in live
        )

    def check_rest(self) -> None:
        """Check the laws of a group at rest. Raises LawBroken."""
        for law, check in AT_REST.items():
            for why in check(self._streams_group()):
                raise LawBroken(law, why)

    def check_alive(self) -> None:
        """Check that no instance failed by itself. Raises LawBroken."""
        for name, why in self.died().items():
            raise LawBroken("no-defect", f"{name} cannot be a member: {why}")

    def version(self) -> int:
        """Return the highest metadata version of all assignments; at rest it is the only one."""
        return max((thread.share.used for thread in self._live()), default=-1)

    def owners(self) -> dict[TaskId, str]:
        """Return the instance that runs each task now."""
        return {task: thread.instance.name for thread in self._live() for task in thread.active}

    def longest_gap_ms(self) -> int:
        """Return the longest time that a Streams task was active nowhere, open gaps included."""
        open_ = (
            self.simulation.now_ms - since_ms
            for since_ms in (self._unowned_since_ms or {}).values()
        )
        return max([0, *(gap_ms for _, gap_ms in self.gaps), *open_])

    def died(self) -> dict[str, str]:
        """Return the instances whose member failed for good, with the reasons."""
        return {
            instance.name: instance.died_of
            for instance in self.instances
            if instance.died_of and not instance.is_up
        }

    def _live(self) -> list[StreamThread]:
        return [thread for thread in self.threads if thread.is_up and thread.is_working]

    def _member_id(self, thread: StreamThread) -> str:
        return thread.member.view().member_id

    def _streams_group(self) -> StreamsGroup:
        group = self.classic_or_none
        return StreamsGroup(
            self._live(), {} if group is None else group.live.members, self.tasks, self.configs
        )

    def on_newer_version(self, thread: StreamThread, why: str) -> None:
        """Check the law `leader-triggers` when a thread rejoins to use a newer metadata version.

        By KIP-268 (2.0 to 2.3) only the leader starts that rebalance; since 2.4 every member may.
        """
        if (
            thread.instance.runs_as.release.negotiation is VersionNegotiation.PROBES
            and not thread.is_leader
        ):
            raise LawBroken(
                "leader-triggers", f"{thread.name}, which does not lead, joins again: {why}."
            )

    def _record_change(self, thread: StreamThread) -> None:
        """Record the tasks that a stream thread runs now; check the laws of ALWAYS.

        The thread calls it whenever its tasks may have changed.
        """
        instance = thread.instance
        change = InstanceChange(
            self.simulation.now_ms,
            instance.name,
            instance.runs_as if instance.is_up else None,
            instance.version,
            instance.active,
        )
        state = (change[1:], thread.share, tuple(thread.active))
        if self._last_threads.get(thread.name) == state:
            return
        self._last_threads[thread.name] = state
        if self._last_instances.get(instance.name) != change[1:]:
            self._last_instances[instance.name] = change[1:]
            self.instance_changes.append(change)
        self._measure_gaps()
        for law, check in ALWAYS.items():
            for why in check(self._streams_group()):
                raise LawBroken(law, why)

    def _measure_gaps(self) -> None:
        """Note since when each Streams task has been active nowhere, and gaps that end now."""
        now_ms, owned = self.simulation.now_ms, self.owners()
        if self._unowned_since_ms is None:
            if len(owned) == len(self.tasks):
                self._unowned_since_ms = {}
            return
        for task in self.tasks:
            if task not in owned:
                self._unowned_since_ms.setdefault(task, now_ms)
            elif task in self._unowned_since_ms:
                self.gaps.append((task, now_ms - self._unowned_since_ms.pop(task)))
