"""The `range` assignor: contiguous ranges of each topic, whatever the current owners are.

Used by the coordinator for consumer groups (KIP-848), by the client-side `range` of classic groups,
and by `racks.py` for the sizes of shares.
"""

import numpy as np

from apportion.assign.subscriptions import Subscriptions, Vector, check_starts, subscribers_of


def range_assignment(starts: Vector, subscriptions: Subscriptions) -> Vector:
    """Return owners by topic: its subscribers in order get contiguous ranges of equal size.

    Of n partitions and m subscribers, the first n mod m get one more. Topics with the same
    subscribers and equal counts are cut alike, so co-partitioned topics stay together. A topic
    without subscribers stays at -1. Raises ValueError for an unknown topic. Source: KIP-848's
    server-side range assignor.
    """
    check_starts(starts, int(starts[-1]) if len(starts) else 0, "starts", "partitions")
    partitions = np.diff(starts)
    subscribers = subscribers_of(subscriptions, len(partitions))
    topic_starts, members = subscribers
    counts = np.diff(topic_starts)
    topics = subscribers.topics
    index = np.arange(len(members)) - topic_starts[topics]
    # The first members of every topic get the extra partition, as in Kafka, even if that loads
    # member 0 most: the same index of co-partitioned topics must go to one member.
    lengths = partitions[topics] // counts[topics] + (index < partitions[topics] % counts[topics])
    owner = np.full(starts[-1], -1, np.int32)
    owner[np.repeat(counts > 0, partitions)] = np.repeat(members, lengths)
    return owner
