"""The `uniform` assignor for members with different subscriptions: min-max fair shares by
`fair.py`.

`fair_counts` says how many partitions each pair (member, topic) gets; here they become owners: a
member keeps the first partitions it has of a topic, up to its count, and free partitions are handed
out in order.
"""

import numpy as np

from apportion.assign.fair import fair_counts
from apportion.assign.sticky_quota import free_above_quota, partition_counts
from apportion.assign.subscriptions import (
    Subscribers,
    Subscriptions,
    Vector,
    check_owner,
    check_starts,
    subscribers_of,
)


def uniform_heterogeneous(owner: Vector, starts: Vector, subscriptions: Subscriptions) -> Vector:
    """Return min-max fair owners of all partitions that any member subscribes to, with the fewest
    moves.

    A move takes a partition from a member that still subscribes to its topic. Raises ValueError for
    an owner that is not a member and for an unknown topic.
    """
    check_starts(starts, len(owner), "starts", "partitions")
    check_owner(owner, len(subscriptions[0]) - 1)
    subscribers = subscribers_of(subscriptions, len(starts) - 1)
    pair = owner_pairs(owner, starts, subscribers)
    held = partition_counts(pair, len(subscribers.members))
    granted = fair_counts(np.diff(starts).astype(np.int64), subscribers, held)
    free = free_above_quota(granted, pair, held)
    wanted = np.diff(subscribers.topic_starts) > 0
    result = np.where(free, np.int32(-1), owner)
    result[free & np.repeat(wanted, np.diff(starts))] = np.repeat(
        subscribers.members, np.maximum(granted - held, 0)
    )
    return result


def owner_pairs(owner: Vector, starts: Vector, subscribers: Subscribers) -> Vector:
    """Return the pair (member, topic) by which each partition is owned.

    -1 where it has no owner, or one that no longer subscribes to the topic.
    """
    pairs = np.full(len(owner), -1, np.int32)
    topic_starts, members = subscribers
    # the last element answers for owner -1
    pair_of = np.full(int(owner.max(initial=-1)) + 2, -1, np.int32)
    size = len(pair_of) - 1
    for topic in range(len(starts) - 1):
        wanting = members[topic_starts[topic] : topic_starts[topic + 1]]
        wanting = wanting[: np.searchsorted(wanting, size)]
        pair_of[wanting] = np.arange(topic_starts[topic], topic_starts[topic] + len(wanting))
        part = slice(starts[topic], starts[topic + 1])
        pairs[part] = pair_of.take(owner[part], mode="wrap")
        pair_of[wanting] = -1
    return pairs
