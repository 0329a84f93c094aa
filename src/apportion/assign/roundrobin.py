"""The client-side `roundrobin` assignor of classic groups: members in turn over all partitions."""

import numpy as np

from apportion.assign.subscriptions import Subscriptions, Vector, check_starts, subscribers_of


def roundrobin_assignment(starts: Vector, subscriptions: Subscriptions) -> Vector:
    """Return as owner of each partition the next member in turn that subscribes to the topic.

    A topic continues where the one before it ended. A topic without subscribers stays at -1. Raises
    ValueError for an unknown topic.
    """
    check_starts(starts, int(starts[-1]) if len(starts) else 0, "starts", "partitions")
    topic_starts, members = subscribers_of(subscriptions, len(starts) - 1)
    owner = np.full(starts[-1], -1, np.int32)
    next_member = 0
    for topic in range(len(starts) - 1):
        topic_members = members[topic_starts[topic] : topic_starts[topic + 1]]
        if not len(topic_members) or starts[topic] == starts[topic + 1]:
            continue
        # the first subscriber at or after `next_member`; behind the last one the circle closes
        first = int(np.searchsorted(topic_members, next_member))
        indexes = (first + np.arange(starts[topic + 1] - starts[topic])) % len(topic_members)
        owner[starts[topic] : starts[topic + 1]] = topic_members[indexes]
        # Not reset for the next topic, as in Kafka: else the first members would get one more of
        # every topic.
        next_member = int(topic_members[indexes[-1]]) + 1
    return owner
