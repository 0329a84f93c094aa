"""A thread that samples the group five times a second, and the memory of all processes once.

It sends requests that any client may send: ConsumerGroupDescribe, OffsetFetch and ListOffsets. It
is no member of the group. `partition_users` adds the one thing that they do not say.
"""

import threading
from collections.abc import Mapping
from contextlib import suppress
from time import monotonic
from typing import NamedTuple

import psutil

from apportion.client.cluster import Cluster
from apportion.client.connection import Disconnected
from apportion.errors import Code, Refused
from apportion.member.cluster_queries.groups import ConsumerGroupDescribeQuery
from apportion.topics import Topic, partitions_of
from apportion.wire.group_states import GroupState
from apportion.wire.messages.consumer_group_describe import (
    DescribedGroup,
)
from apportion.wire.messages.list_offsets import LATEST
from demo.timeline import Sample

SAMPLE_INTERVAL_S = 0.2
MEMORY_INTERVAL_S = 1.0
TIMEOUT_MS = 2_000


class PartitionUser(NamedTuple):
    """The member that uses a partition, and its epoch when it was last assigned the partition."""

    member_id: str
    epoch: int


def partition_users(
    before: Mapping[int, PartitionUser], group: DescribedGroup, topic_id: bytes
) -> dict[int, PartitionUser]:
    """Return the member that uses each partition now.

    KIP-848: a partition that a member must revoke leaves its described assignment at once, but the
    member uses it until it has confirmed the revocation; then its epoch changes.
    """
    epochs = {member.member_id: member.member_epoch for member in group.members}
    still_used = {
        partition: holder
        for partition, holder in before.items()
        if epochs.get(holder.member_id) == holder.epoch
    }
    assigned = {
        partition: PartitionUser(member.member_id, member.member_epoch)
        for member in group.members
        for topic in member.assignment.topic_partitions
        if bytes(topic.topic_id) == topic_id
        for partition in topic.partitions
    }
    return still_used | assigned


class Observer(threading.Thread):
    """Samples of the group since `started_s` (monotonic), and the peak memory of all processes."""

    def __init__(self, bootstrap: str, group: str, topic: Topic, started_s: float) -> None:
        super().__init__(name="observer", daemon=True)
        self._cluster = Cluster(bootstrap, client_id="observer", timeout_ms=TIMEOUT_MS)
        self._group, self._topic, self._partitions, self._started_s = (
            group,
            topic,
            partitions_of(topic),
            started_s,
        )
        self._holders: dict[int, PartitionUser] = {}
        self._stopped = threading.Event()
        self.samples: list[Sample] = [Sample(0, {}, frozenset(), True, {}, {})]
        self.memory_mb = 0
        self.peak_memory_mb = 0
        self.error: str | None = None  # why the last sample failed

    @property
    def latest(self) -> Sample:
        """The last sample."""
        return self.samples[-1]

    def run(self) -> None:
        """Take samples until `end` is called."""
        next_memory_s = 0.0
        while not self._stopped.wait(SAMPLE_INTERVAL_S):
            try:
                self.samples.append(self._take_sample())
                self.error = None
            except (Refused, Disconnected) as error:
                self.error = str(error)
            if monotonic() >= next_memory_s:
                self.memory_mb = memory_mb()
                self.peak_memory_mb = max(self.peak_memory_mb, self.memory_mb)
                next_memory_s = monotonic() + MEMORY_INTERVAL_S
        self._cluster.close()

    def end(self) -> None:
        """Stop the thread."""
        self._stopped.set()
        if self.is_alive():
            self.join()

    def _describe_group(self) -> DescribedGroup:
        """Return the group; one that no member has joined yet counts as empty."""
        query = ConsumerGroupDescribeQuery(self._group)
        try:
            return self._cluster.ask_coordinator(query, timeout_ms=TIMEOUT_MS)
        except Refused as refused:
            if refused.code is not Code.GROUP_ID_NOT_FOUND:
                raise
            return DescribedGroup(group_id=self._group, group_state=GroupState.EMPTY)

    def _take_sample(self) -> Sample:
        group = self._describe_group()
        at_ms = int((monotonic() - self._started_s) * 1000)
        self._holders = partition_users(self._holders, group, self._topic.id)
        names = {member.member_id: member.client_id for member in group.members}
        committed = self._cluster.committed(self._group, self._partitions)
        ends = self._cluster.list_offsets(self._partitions, LATEST)
        return Sample(
            at_ms,
            {
                partition: names[holder.member_id]
                for partition, holder in sorted(self._holders.items())
            },
            frozenset(names.values()),
            group.group_state in (GroupState.STABLE, GroupState.EMPTY),
            {partition.partition: offset or 0 for partition, offset in committed.items()},
            {partition.partition: offset for partition, offset in ends.items()},
        )


def memory_mb() -> int:
    """Return the memory of this process and all of its descendants.

    Shared pages are counted once where the system knows them (PSS); else it is the RSS.
    """
    own = psutil.Process()
    return sum(_memory_bytes(process) for process in [own, *own.children(recursive=True)]) >> 20


def _memory_bytes(process: psutil.Process) -> int:
    with suppress(psutil.NoSuchProcess, psutil.AccessDenied):
        memory = process.memory_full_info() if psutil.LINUX else process.memory_info()
        return int(getattr(memory, "pss", memory.rss))
    return 0
