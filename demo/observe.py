"""A thread that looks at the group five times a second, from outside, and at the memory of all
processes once a second.

It asks the broker what anybody may ask: who is in the group and has what, the group's offsets,
where the topic ends. The one thing it adds is said in `holders`. It never takes part in the group.
"""

import threading
from collections.abc import Mapping
from contextlib import suppress
from time import monotonic
from typing import NamedTuple

import psutil

from apportion.client.cluster import LATEST, Cluster, partitions_of
from apportion.client.connection import Disconnected
from apportion.errors import Code, Refused
from apportion.topics import Topic
from apportion.wire.messages.consumer_group_describe import (
    ConsumerGroupDescribeRequest,
    DescribedGroup,
)
from demo.timeline import Sample

LOOK_EVERY_S = 0.2
WEIGH_EVERY_S = 1.0
PATIENCE_MS = 2_000


class Holder(NamedTuple):
    """Who uses a partition: a member, in the epoch in which it was last told that it has it."""

    member_id: str
    epoch: int


def holders(
    before: Mapping[int, Holder], group: DescribedGroup, topic_id: bytes
) -> dict[int, Holder]:
    """Who uses each partition now.

    What a member is told to give up leaves its assignment at once, but is its own until it has
    answered; then its epoch moves.
    """
    epochs = {member.member_id: member.member_epoch for member in group.members}
    kept = {
        partition: holder
        for partition, holder in before.items()
        if epochs.get(holder.member_id) == holder.epoch
    }
    assigned = {
        partition: Holder(member.member_id, member.member_epoch)
        for member in group.members
        for topic in member.assignment.topic_partitions
        if bytes(topic.topic_id) == topic_id
        for partition in topic.partitions
    }
    return kept | assigned


class Observer(threading.Thread):
    """Samples of the group since `began_s` (monotonic), and the most memory that all processes took
    together.
    """

    def __init__(self, bootstrap: str, group: str, topic: Topic, began_s: float) -> None:
        super().__init__(name="observer", daemon=True)
        self._cluster = Cluster(bootstrap, client_id="observer", timeout_ms=PATIENCE_MS)
        self._group, self._topic, self._places, self._began_s = (
            group,
            topic,
            partitions_of(topic),
            began_s,
        )
        self._holders: dict[int, Holder] = {}
        self._ended = threading.Event()
        self.samples: list[Sample] = [Sample(0, {}, frozenset(), True, {}, {})]
        self.memory_mb = 0
        self.peak_memory_mb = 0
        self.error: str | None = None  # why the last look failed

    @property
    def latest(self) -> Sample:
        """What was seen last."""
        return self.samples[-1]

    def run(self) -> None:
        """Look and weigh until `end`."""
        weigh_at_s = 0.0
        while not self._ended.wait(LOOK_EVERY_S):
            try:
                self.samples.append(self._look())
                self.error = None
            except (Refused, Disconnected) as error:
                self.error = str(error)
            if monotonic() >= weigh_at_s:
                self.memory_mb = memory_mb()
                self.peak_memory_mb = max(self.peak_memory_mb, self.memory_mb)
                weigh_at_s = monotonic() + WEIGH_EVERY_S
        self._cluster.close()

    def end(self) -> None:
        """No look follows."""
        self._ended.set()
        if self.is_alive():
            self.join()

    def _look(self) -> Sample:
        group = self._cluster.ask_coordinator(
            "ConsumerGroupDescribe",
            ConsumerGroupDescribeRequest(group_ids=(self._group,)),
            self._group,
            lambda answer: _described(answer.groups[0]),
            PATIENCE_MS,
        )
        at_ms = int((monotonic() - self._began_s) * 1000)
        self._holders = holders(self._holders, group, self._topic.id)
        names = {member.member_id: member.client_id for member in group.members}
        committed = self._cluster.committed(self._group, self._places)
        ends = self._cluster.list_offsets(self._places, LATEST)
        return Sample(
            at_ms,
            {
                partition: names[holder.member_id]
                for partition, holder in sorted(self._holders.items())
            },
            frozenset(names.values()),
            group.group_state in ("Stable", "Empty"),
            {place.partition: offset or 0 for place, offset in committed.items()},
            {place.partition: offset for place, offset in ends.items()},
        )


def _described(group: DescribedGroup) -> tuple[Code, DescribedGroup]:
    """A group that nobody has joined yet is an empty one."""
    code = Code.of(group.error_code)
    if code is Code.GROUP_ID_NOT_FOUND:
        return Code.NONE, DescribedGroup(group_id=group.group_id, group_state="Empty")
    return code, group


def memory_mb() -> int:
    """What this process and all of its descendants take: shared pages counted once where the system
    can tell (PSS), else RSS.
    """
    here = psutil.Process()
    return sum(_memory_bytes(process) for process in [here, *here.children(recursive=True)]) >> 20


def _memory_bytes(process: psutil.Process) -> int:
    with suppress(psutil.NoSuchProcess, psutil.AccessDenied):
        memory = process.memory_full_info() if psutil.LINUX else process.memory_info()
        return int(getattr(memory, "pss", memory.rss))
    return 0
