"""Partitions that a stream is given by the option assign, in place of a membership.

The class has the calls of a membership that a batch member makes (`MembershipCalls`). It joins no
group and sends no heartbeat, so nobody balances anything. Offsets are committed without a member
id, as a simple consumer commits them, which a coordinator accepts only while the group has no
members.
"""

import logging
import time
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

from apportion.client.cluster import Cluster
from apportion.drive.clocks import now
from apportion.errors import Code, Refused
from apportion.member.batch.first_look import missing_partition
from apportion.member.batch.membership import MembershipFailed
from apportion.member.consumer.requests import ConsumerSettings
from apportion.member.group_protocols import describe_by_protocol
from apportion.member.membership import MembershipState, View, assignment
from apportion.member.offset_requests import request_offsets, request_offsets_within
from apportion.member.queries import (
    NO_MEMBER_INCARNATION,
    CommitOffsets,
    FetchCommitted,
    MembershipSnapshot,
)
from apportion.readable import readable
from apportion.rules import run_rule
from apportion.topics import IdPartition, TopicIdPartition
from apportion.wire.messages.consumer_group_describe import DescribedGroup as ConsumerGroup
from apportion.wire.messages.describe_groups import DescribedGroup as ClassicGroup

# What the planner asks of a member before it reads: one that has joined, with an epoch.
ONLY_INCARNATION = ONLY_EPOCH = 1

log = logging.getLogger("apportion.spark")


class FixedAssignment:
    """The partitions of one stream, which it reads whatever others do."""

    def __init__(
        self, cluster: Cluster, group_id: str, partitions: Iterable[tuple[str, int]]
    ) -> None:
        """Keep the partitions' names; ask nobody yet."""
        self.cluster = cluster
        self.settings = ConsumerSettings(group_id, member_id="")
        self._partitions = tuple(partitions)
        self._view = View("", 0, MembershipState.JOINING, ONLY_INCARNATION, None, (), None, None, 1)

    def start(self) -> None:
        """Find the partitions in the cluster.

        Raises MembershipFailed if one does not exist or the group has members, Refused and
        Unanswerable.
        """
        # Asked before anything is read: the members may read the same records.
        group = run_rule(
            describe_by_protocol(self.settings.group_id, classic_first=False),
            lambda query: self.cluster.ask_coordinator(query.query),
        )
        if isinstance(group, ClassicGroup | ConsumerGroup) and group.members:
            raise self._beside_members()
        names = dict.fromkeys(topic for topic, _ in self._partitions)
        topics = self.cluster.topics(names, fresh=True)
        target: list[IdPartition] = []
        for name, number in self._partitions:
            topic = topics.named(name)
            if topic is None or number >= topic.partitions:
                raise missing_partition(name, number)
            target.append(IdPartition(topic.id, number))
        self._view = replace(
            self._view,
            epoch=ONLY_EPOCH,
            state=MembershipState.RECONCILING,
            target=assignment(target),
        )
        log.warning(
            "%s",
            readable(
                f"group {self.settings.group_id}: option assign: the stream reads "
                f"{', '.join(f'{name}-{number}' for name, number in self._partitions)} without a "
                "membership; no other query takes them over, and the group only keeps the offsets"
            ),
        )

    def status(self) -> View:
        """Return what a member of the same partitions would show."""
        # There is no session that could end.
        return replace(self._view, last_accepted_ms=now().mono_ms)

    def snapshot(self) -> MembershipSnapshot:
        """Return the status and the time at which it was read."""
        status = self.status()
        return MembershipSnapshot(status, status.last_accepted_ms or 0, self.cluster.interruptions)

    def wait(self, ready: Callable[[View], bool], timeout_ms: int) -> View:
        """Return the status, at once if `ready` holds, else after the timeout: nothing changes."""
        if not ready(self.status()):
            time.sleep(timeout_ms / 1000)
        return self.status()

    def wait_for_change(self, timeout_ms: int) -> View:
        """Return the status after the timeout."""
        return self.wait(lambda _view: False, timeout_ms)

    def adopt(self, _incarnation: int, owned: Iterable[IdPartition | TopicIdPartition]) -> View:
        """Own these partitions from now on."""
        self._view = replace(
            self._view,
            state=MembershipState.STABLE,
            owned=assignment(IdPartition(each.topic_id, each.partition) for each in owned),
        )
        return self.status()

    def touch(self) -> None:
        """Do nothing: no poll is awaited."""

    def request_offsets(
        self, request: CommitOffsets | FetchCommitted, timeout_ms: int | None = None
    ) -> Any:
        """Commit or fetch offsets without a member id; return the answer.

        Raises MembershipFailed if the group has members, and Refused.
        """
        limit_ms = self.cluster.timeout_ms if timeout_ms is None else timeout_ms
        rule = request_offsets(
            replace(request, incarnation=NO_MEMBER_INCARNATION), self.settings.group_id, None
        )
        try:
            return run_rule(
                request_offsets_within(rule, self.cluster.metadata, limit_ms), self.cluster.answer
            )
        except Refused as refused:
            if refused.code is Code.UNKNOWN_MEMBER_ID and isinstance(request, CommitOffsets):
                raise self._beside_members() from refused
            raise

    def _beside_members(self) -> MembershipFailed:
        return MembershipFailed(
            f"group {readable(self.settings.group_id)} has members, beside which a stream with "
            "assign cannot commit: give the stream a group of its own, or stop them"
        )

    def leave(self, _timeout_ms: int = 0, **_for_good: bool) -> bool:
        """Forget the partitions: there is nothing to leave."""
        self._view = replace(
            self._view, epoch=0, target=None, owned=(), state=MembershipState.UNSUBSCRIBED
        )
        return True
