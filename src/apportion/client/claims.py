"""Whether a sink has claimed a plain consumer's group: then the consumer must not be in it.

Nobody knows where a plain consumer's records go, so its commits would pass over records that the
sink never gets (docs/decisions/0041).
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

MEMBERSHIP_LOST = (  # the session will tell what comes of it
    Code.UNKNOWN_MEMBER_ID,
    Code.STALE_MEMBER_EPOCH,
    Code.FENCED_MEMBER_EPOCH,
    Code.ILLEGAL_GENERATION,
    Code.REBALANCE_IN_PROGRESS,
)


class SinkClaimChecks:
    """One consumer's checks for claims on its group. Each raises AnotherSink where there is one."""

    def __init__(self, cluster: Cluster, timeout_ms: int) -> None:
        """Nothing has been looked at. timeout_ms: how long one look may take."""
        self._cluster = cluster
        self._timeout_ms = timeout_ms
        self._checked_epoch = self._epoch_checked_for_commit = (
            0,
            0,
        )  # the incarnation and epoch of the last look, and of the last look before a commit

    def check_before_join(self, group_id: str, names: Iterable[str]) -> None:
        """Check without a member id, before the consumer joins. Runs on a thread of its session."""
        places = [
            place for topic in self._cluster.topics(tuple(names)) for place in partitions_of(topic)
        ]
        refuse_consumer(
            group_id,
            self._cluster.committed_offsets(group_id, places, timeout_ms=self._timeout_ms),
        )

    def check(
        self,
        session: GroupMembership,
        incarnation: int,
        names: Iterable[str],
        coming: Iterable[TopicIdPartition] = (),
    ) -> dict[TopicIdPartition, OffsetAndMetadata]:
        """Check all partitions of these topics and of `coming`; return the committed offsets."""
        topics = self._cluster.topics(
            tuple(dict.fromkeys((*names, *(place.topic for place in coming))))
        )
        places = dict.fromkeys(
            (*coming, *(place for topic in topics for place in partitions_of(topic)))
        )
        stored = session.committed_offsets(
            places, incarnation=incarnation, timeout_ms=self._timeout_ms
        )
        refuse_consumer(session.settings.group_id, stored)
        return stored

    def check_once_per_epoch(
        self, session: GroupMembership, view: View, names: Iterable[str]
    ) -> None:
        """Check once for each new epoch, as a member with a sink may have joined.

        Tries again later if unanswered.
        """
        if view.epoch <= 0 or (view.incarnation, view.epoch) == self._checked_epoch:
            return
        try:
            self.check(session, view.incarnation, names)
        except (Disconnected, Refused) as error:
            if (
                isinstance(error, Refused)
                and not error.code.retriable
                and error.code not in MEMBERSHIP_LOST
            ):
                raise
            log.warning("cannot look at the group now: %s", error)
        else:
            self._checked_epoch = view.incarnation, view.epoch

    def check_before_commit(
        self, session: GroupMembership, incarnation: int, names: Iterable[str]
    ) -> None:
        """Check once more before the first commit of an epoch: a new member needs a moment to claim
        the group.
        """
        epoch = session.status().epoch
        if (incarnation, epoch) != self._epoch_checked_for_commit:
            self.check(session, incarnation, names)
            self._epoch_checked_for_commit = incarnation, epoch
