"""Checks whether the sink of a Spark query has claimed a consumer's group.

A consumer must not be a member of such a group: its commits would pass over records that the sink
never gets (docs/decisions/0041). A claim is in the metadata of the group's committed offsets. A
consumer in a group that was claimed loses its partitions; a revocation would commit.
"""

from collections.abc import Callable, Iterable

from apportion.errors import UNKNOWN_TOPIC, Refused, Unanswerable
from apportion.machine import Note
from apportion.member.cluster_queries.offsets import OffsetAndMetadata
from apportion.member.group_claims import AnotherSink, EpochCheck, fetch_offsets, refuse_consumer
from apportion.member.membership import View
from apportion.member.queries import ExistingTopics, KnownTopics
from apportion.member.reactions import is_lost_membership, is_permanent
from apportion.rules import Rule
from apportion.topics import TopicIdPartition, Topics


class SinkClaims:
    """One consumer's checks for claims on its group. Each raises AnotherSink where there is one.

    lose_partitions: run before the error is raised; drops the consumer's partitions.
    """

    def __init__(self, group_id: str, lose_partitions: Callable[[], Rule[None]]) -> None:
        self._group, self._lose_partitions = group_id, lose_partitions
        self._epoch_check, self._commit_check = EpochCheck(), EpochCheck()

    def check(
        self, incarnation: int, names: Iterable[str], added: tuple[TopicIdPartition, ...] = ()
    ) -> Rule[dict[TopicIdPartition, OffsetAndMetadata]]:
        """Check the topics and those of the `added` partitions; return the committed offsets.

        Those of deleted topics are left out. incarnation: 0 before the consumer has joined.
        """
        requested = tuple(dict.fromkeys((*names, *(partition.topic for partition in added))))
        topics: Topics = yield KnownTopics(requested)
        try:
            committed = yield from self._fetch(incarnation, topics, added)
        except Refused as error:
            if error.code not in UNKNOWN_TOPIC:
                raise
            # A topic was deleted or created anew since its metadata was cached.
            topics = yield ExistingTopics(requested)
            committed = yield from self._fetch(incarnation, topics, added)
        try:
            refuse_consumer(self._group, committed)
        except AnotherSink:
            yield from self._lose_partitions()
            raise
        return committed

    def _fetch(
        self, incarnation: int, topics: Topics, added: Iterable[TopicIdPartition]
    ) -> Rule[dict[TopicIdPartition, OffsetAndMetadata]]:
        existing = (each for each in added if topics.with_id(each.topic_id) is not None)
        return (yield from fetch_offsets(topics, incarnation, existing))

    def check_once_per_epoch(self, view: View, names: Iterable[str]) -> Rule[bool]:
        """Check once for each new epoch, because a member with a sink may have joined.

        For every poll. Return False if the coordinator does not answer: a later poll checks again.
        """
        if view.epoch <= 0:
            return True
        try:
            check = self.check(view.incarnation, names)
            yield from self._epoch_check.run(view.incarnation, view.epoch, check)
        except (Refused, Unanswerable) as error:
            if is_final(error):
                raise
            why = f"cannot check now whether a sink has claimed the group: {error}"
            yield Note("warning", why)
            return False
        return True

    def check_before_commit(self, incarnation: int, epoch: int, names: Iterable[str]) -> Rule[None]:
        """Check once more before the first commit of an epoch.

        A query that has joined since the last check may have needed a moment to claim the group.
        """
        yield from self._commit_check.run(incarnation, epoch, self.check(incarnation, names))


def is_final(error: Refused | Unanswerable) -> bool:
    """Return whether a poll has to raise an error of the cluster: no later poll can succeed.

    A lost membership is no such error: the member's next state shows what follows.
    """
    is_lost = isinstance(error, Refused) and is_lost_membership(error.code)
    return is_permanent(error) and not is_lost
