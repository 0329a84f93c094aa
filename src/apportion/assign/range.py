"""`range`: Kafka's rule, topic by topic, blind to who owns what now."""

import numpy as np

from apportion.assign.subscriptions import Subscriptions, Vector, check_starts, subscribers_of


def range_assignment(starts: Vector, subscriptions: Subscriptions) -> Vector:
    """Of each topic, its subscribers in order hold contiguous ranges of equal size; the first n mod m hold one more.

    Topics with the same subscribers and the same number of partitions are cut alike. A topic that nobody wants stays at -1.
    Raises ValueError for an unknown topic. Source: KIP-848's server-side range assignor.
    """
    check_starts(starts, int(starts[-1]) if len(starts) else 0, "starts", "partitions")
    partitions = np.diff(starts)
    subscribers = subscribers_of(subscriptions, len(partitions))
    topic_starts, members = subscribers
    counts = np.diff(topic_starts)
    topics = subscribers.topics
    place = np.arange(len(members)) - topic_starts[topics]
    lengths = partitions[topics] // counts[topics] + (place < partitions[topics] % counts[topics])
    owner = np.full(starts[-1], -1, np.int32)
    owner[np.repeat(counts > 0, partitions)] = np.repeat(members, lengths)
    return owner
