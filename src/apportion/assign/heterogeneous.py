"""The `uniform` assignor for members with different subscriptions, by the shares of `fair.py`.

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
    """Return min-max fair owners of all subscribed partitions, with the fewest moves.

    A move takes a partition from a member that still subscribes to its topic. Raises ValueError for
    an owner that is not a member and for an unknown topic.
    """
    check_starts(starts, len(owner), "starts", "partitions")
    check_owner(owner, len(subscriptions[0]) - 1)
    subscribers = subscribers_of(subscriptions, len(starts) - 1)
    pair = owner_pairs(owner, starts, subscribers)
    owned = partition_counts(pair, len(subscribers.members))
    granted = fair_counts(np.diff(starts).astype(np.int64), subscribers, owned)
    free = free_above_quota(granted, pair, owned)
    has_subscribers = np.diff(subscribers.topic_starts) > 0
    # Pairs are in order of topics, and so are the free partitions: each topic has as many free
    # partitions as its pairs still lack, so the two lists match.
    result = np.where(free, np.int32(-1), owner)
    # Topics without subscribers stay at -1: nobody may own what nobody reads.
    result[free & np.repeat(has_subscribers, np.diff(starts))] = np.repeat(
        subscribers.members, np.maximum(granted - owned, 0)
    )
    return result


def owner_pairs(owner: Vector, starts: Vector, subscribers: Subscribers) -> Vector:
    """Return the pair (member, topic) by which each partition is owned, for the `uniform` assignor.

    -1 where it has no owner, or one that no longer subscribes to the topic.
    """
    pairs = np.full(len(owner), -1, np.int32)
    topic_starts, members = subscribers
    # the last element answers for owner -1
    pair_of = np.full(int(owner.max(initial=-1)) + 2, -1, np.int32)
    size = len(pair_of) - 1
    for topic in range(len(starts) - 1):
        topic_members = members[topic_starts[topic] : topic_starts[topic + 1]]
        topic_members = topic_members[: np.searchsorted(topic_members, size)]
        pair_of[topic_members] = np.arange(
            topic_starts[topic], topic_starts[topic] + len(topic_members)
        )
        topic_slice = slice(starts[topic], starts[topic + 1])
        pairs[topic_slice] = pair_of.take(owner[topic_slice], mode="wrap")
        pair_of[topic_members] = -1
    return pairs
