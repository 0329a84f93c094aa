"""Checks the tasks of a Streams application in a consumer group, over its processes.

The laws between any two steps are checked whenever the tasks of a process may have changed, those
of an application at rest when the world has settled.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import combinations
from typing import NamedTuple

from apportion.coord.consumer.state import ConsumerGroup
from apportion.sim.actors.broker import BrokerProcess
from apportion.sim.kernel.outcome import LawBroken
from apportion.sim.streams.laws import all_owned, one_active
from apportion.sim.streams.process import StreamsProcess
from apportion.streams.metadata.model import TaskId
from apportion.streams.task_assignment.client_states import AssignmentConfigs
from apportion.streams.topology import Topology
from apportion.topics import Topics


class StreamsProcesses(NamedTuple):
    """The living processes, the members in the coordinator by id, and all tasks."""

    threads: Sequence[StreamsProcess]
    members: Mapping[str, object]
    tasks: Sequence[TaskId]


class TaskChecker:
    """The checks of one Streams application in a consumer group.

    topology: that all processes shall run.
    """

    def __init__(self, broker: BrokerProcess, topology: Topology) -> None:
        self._broker = broker
        self.topology = topology
        self.processes: list[StreamsProcess] = []

    def check_change(self, _process: StreamsProcess) -> None:
        """Check the laws of any moment: the tasks of a process may have changed."""
        group = self._broker.group_or_none(StreamsProcess.group)
        members = group.saved.members if isinstance(group, ConsumerGroup) else {}
        processes = StreamsProcesses(self._living(), members, ())
        for law, check in (
            ("one-active", one_active),
            ("one-role", _one_role),
            ("few-warmups", _few_warmups),
        ):
            for why in check(processes):
                raise LawBroken(law, why)

    def unsettled(self) -> Iterator[str]:
        """Yield a sentence for each process that has yet to do something for its tasks."""
        for process in self.processes:
            if process.topology != self.topology:
                yield f"{process.name} runs an older topology"
            if process.is_up and process.share.warmup:
                yield f"{process.name} warms a task up"
            if process.is_up and not process.has_caught_up:
                yield f"{process.name} has yet to read changelogs"

    def unowned(self) -> Iterator[str]:
        """Yield a sentence for each task that is not active in exactly one process."""
        node = self._broker.node
        if node is None or not self.processes:
            return
        tasks = [
            TaskId(number, partition)
            for number, part in self.topology.subtopologies.items()
            for partition in range(max(_sizes(node.topics, part.source_topics), default=0))
        ]
        yield from all_owned(StreamsProcesses(self._living(), {}, tasks))

    def _living(self) -> list[StreamsProcess]:
        return [each for each in self.processes if each.is_up and each.is_working]


def _sizes(topics: Topics, names: Iterable[str]) -> Iterator[int]:
    """Yield the partition counts of those topics that exist."""
    for name in names:
        topic = topics.named(name)
        if topic is not None:
            yield topic.partitions


def _one_role(application: StreamsProcesses) -> Iterator[str]:
    """Yield Streams tasks that one assignment gives to a process twice, in two roles."""
    for process in application.threads:
        share = process.share
        roles = {"active": share.active, "standby": share.standby, "warm-up": share.warmup}
        for (one, tasks), (other, others) in combinations(roles.items(), 2):
            for task in tasks:
                if task in others:
                    yield f"{process.name} was given task {task} as {one} and as {other}."


def _few_warmups(application: StreamsProcesses) -> Iterator[str]:
    """Yield a sentence if more Streams tasks warm up than `max.warmup.replicas` allows.

    While assignments of two epochs are about, a task may be counted in both.
    """
    shares = [process.share for process in application.threads]
    count, limit = sum(len(each.warmup) for each in shares), AssignmentConfigs().max_warmup_replicas
    if len({each.generation for each in shares}) == 1 and count > limit:
        yield f"{count} tasks are warming up at once; no more than {limit} may."
