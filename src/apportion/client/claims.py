"""Checks whether the sink of a Spark query has claimed a consumer's group.

A consumer must not be a member of such a group: its commits would pass over records that the sink
never gets (docs/decisions/0041). A claim is in the metadata of the group's committed offsets.
"""

import logging
from collections.abc import Iterable

from apportion.client.cluster import Cluster, partitions_of
from apportion.client.connection import Disconnected
from apportion.client.group_membership import GroupMembership
from apportion.errors import Code, Refused
from apportion.member.batch.offsets import OffsetAndMetadata
from apportion.member.batch.sinks import refuse_consumer
from apportion.member.membership import View
from apportion.topics import TopicIdPartition

log = logging.getLogger("apportion.consumer")

MEMBERSHIP_LOST = (  # not worth an error: the membership's next status shows what follows
    Code.UNKNOWN_MEMBER_ID,
    Code.STALE_MEMBER_EPOCH,
    Code.FENCED_MEMBER_EPOCH,
    Code.ILLEGAL_GENERATION,
    Code.REBALANCE_IN_PROGRESS,
)


class SinkClaimChecks:
    """One consumer's checks for claims on its group. Each raises AnotherSink where there is one."""

    def __init__(self, cluster: Cluster, timeout_ms: int) -> None:
        """Begin for one consumer, before any check.

        timeout_ms: how long the requests of one check may take.
        """
        self._cluster = cluster
        self._timeout_ms = timeout_ms
        # (incarnation, epoch) of the last check, and of the last check before a commit
        self._checked_epoch = self._epoch_checked_for_commit = (0, 0)

    def check_before_join(self, group_id: str, names: Iterable[str]) -> None:
        """Check the claims without a member id: the `before_join` of the group's membership."""
        # All partitions of the topics, not the assigned ones: before the join none is assigned.
        topics = self._cluster.topics(tuple(names))
        partitions = [partition for topic in topics for partition in partitions_of(topic)]
        refuse_consumer(
            group_id,
            self._cluster.committed_offsets(group_id, partitions, timeout_ms=self._timeout_ms),
        )

    def check(
        self,
        membership: GroupMembership,
        incarnation: int,
        names: Iterable[str],
        added: Iterable[TopicIdPartition] = (),
    ) -> dict[TopicIdPartition, OffsetAndMetadata]:
        """Check the consumer's topics and added partitions for claims; return committed offsets."""
        topics = self._cluster.topics(
            tuple(dict.fromkeys((*names, *(partition.topic for partition in added))))
        )
        partitions = dict.fromkeys(
            (*added, *(partition for topic in topics for partition in partitions_of(topic)))
        )
        committed = membership.committed_offsets(
            partitions, incarnation=incarnation, timeout_ms=self._timeout_ms
        )
        refuse_consumer(membership.settings.group_id, committed)
        return committed

    def check_once_per_epoch(
        self, membership: GroupMembership, view: View, names: Iterable[str]
    ) -> None:
        """Check for claims once in each new epoch: a Spark query may have joined the group.

        For every poll. If the coordinator does not answer, a later poll checks again.
        """
        # A member cannot join or leave without a new epoch, so one check for each is enough.
        if view.epoch <= 0 or (view.incarnation, view.epoch) == self._checked_epoch:
            return
        try:
            self.check(membership, view.incarnation, names)
        except (Disconnected, Refused) as error:
            if (
                isinstance(error, Refused)
                and not error.code.retriable
                and error.code not in MEMBERSHIP_LOST
            ):
                raise
            log.warning("cannot check now whether a sink has claimed the group: %s", error)
        else:
            self._checked_epoch = view.incarnation, view.epoch

    def check_before_commit(
        self, membership: GroupMembership, incarnation: int, names: Iterable[str]
    ) -> None:
        """Check for claims once more before the consumer's first commit of an epoch.

        A query that has joined since the last check may have needed a moment to claim the group.
        """
        epoch = membership.status().epoch
        if (incarnation, epoch) != self._epoch_checked_for_commit:
            self.check(membership, incarnation, names)
            self._epoch_checked_for_commit = incarnation, epoch
