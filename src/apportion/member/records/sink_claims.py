"""The check whether the sink of a Spark query has claimed a consumer's group.

A consumer must not be a member of such a group: its commits would pass over records that the sink
never gets (docs/decisions/0041). A claim is in the metadata of the group's committed offsets.
"""

from collections.abc import Iterable

from apportion.errors import UNKNOWN_TOPIC, Refused, Unanswerable
from apportion.member.cluster_queries.offsets import OffsetAndMetadata
from apportion.member.group_claims import AnotherSink, fetch_offsets, refuse_consumer
from apportion.member.membership import CoordinatorFound, Leave, Unanswered
from apportion.member.queries import ExistingTopics, KnownTopics
from apportion.member.reactions import is_permanent
from apportion.rules import Rule
from apportion.topics import TopicIdPartition, Topics


class JoinCheck:
    """The check of one consumer's group before its member joins.

    refusal: the error that keeps the member out of a group that a sink has claimed; None before.
    """

    def __init__(self, group_id: str) -> None:
        """Know nothing of the group yet."""
        self._group_id = group_id
        self._is_over = False
        self.refusal: AnotherSink | None = None

    def run(
        self, found: CoordinatorFound, names: Iterable[str]
    ) -> Rule[CoordinatorFound | Unanswered | Leave]:
        """Return `found`, after which the member joins, or the event that it gets in its place.

        A group that a sink has claimed is left; without an answer the member looks for its
        coordinator again after a pause, and the group is checked again.
        names: the topics to which the consumer subscribes.
        """
        if self._is_over:
            return found
        try:
            yield from fetch_offsets_unless_claimed(self._group_id, 0, names)
        except AnotherSink as refusal:
            self.refusal = refusal
            return Leave()
        except (Refused, Unanswerable) as error:
            # An error that no retry mends does not keep the member out: the join will meet it.
            if not is_permanent(error):
                return Unanswered(found.request_id, str(error))
        self._is_over = True
        return found


def fetch_offsets_unless_claimed(
    group_id: str,
    incarnation: int,
    names: Iterable[str],
    added: tuple[TopicIdPartition, ...] = (),
) -> Rule[dict[TopicIdPartition, OffsetAndMetadata]]:
    """Return the committed offsets of these topics, and of those of the `added` partitions.

    Those of deleted topics are left out. incarnation: 0 before the consumer has joined.
    Raises AnotherSink if a sink has claimed the group.
    """
    requested = tuple(dict.fromkeys((*names, *(partition.topic for partition in added))))
    topics: Topics = yield KnownTopics(requested)
    try:
        committed = yield from _fetch(topics, incarnation, added)
    except Refused as error:
        if error.code not in UNKNOWN_TOPIC:
            raise
        # A topic was deleted or created anew since its metadata was cached.
        topics = yield ExistingTopics(requested)
        committed = yield from _fetch(topics, incarnation, added)
    refuse_consumer(group_id, committed)
    return committed


def _fetch(
    topics: Topics, incarnation: int, added: Iterable[TopicIdPartition]
) -> Rule[dict[TopicIdPartition, OffsetAndMetadata]]:
    existing = (each for each in added if topics.with_id(each.topic_id) is not None)
    return (yield from fetch_offsets(topics, incarnation, existing))
