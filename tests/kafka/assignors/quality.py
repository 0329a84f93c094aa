"""What an assignment is worth: whether it is complete, how even it is, and what it takes from
whom.
"""

from collections.abc import Mapping

from apportion.assign.by_name import ClusterTopics, Given, Subscription

Owners = dict[tuple[str, int], str]


def owners(given: Mapping[str, Given]) -> Owners:
    """Who has which partition; nobody has one twice."""
    pairs = [
        ((topic, number), name)
        for name, each in given.items()
        for topic, numbers in each.partitions
        for number in numbers
    ]
    result = dict(pairs)
    assert len(result) == len(pairs), "a partition was given twice"
    return result


def wanted(cluster: ClusterTopics, members: Mapping[str, Subscription]) -> list[tuple[str, int]]:
    """The partitions that must be somebody's."""
    topics = sorted({topic for subscription in members.values() for topic in subscription.topics})
    return [
        (topic, number)
        for topic in topics
        if topic in cluster
        for number in range(cluster[topic].partitions)
    ]


def loads(given: Mapping[str, Given]) -> list[int]:
    """How many partitions each member has, the largest first: of two such lists the lesser is the
    fairer.
    """
    return sorted(
        (sum(len(numbers) for _, numbers in each.partitions) for each in given.values()),
        reverse=True,
    )


def rightful(members: Mapping[str, Subscription]) -> Owners:
    """Who alone claims a partition in the highest generation and still wants it."""
    claims: dict[tuple[str, int], list[tuple[int, str]]] = {}
    for name, subscription in members.items():
        for topic, numbers in subscription.owned:
            for number in numbers:
                claims.setdefault((topic, number), []).append((subscription.generation, name))
    best = {partition: sorted(rivals, reverse=True)[:2] for partition, rivals in claims.items()}
    return {
        partition: rivals[0][1]
        for partition, rivals in best.items()
        if len(rivals) == 1 or rivals[0][0] > rivals[1][0]
        if partition[0] in members[rivals[0][1]].topics
    }


def moves(before: Owners, after: Owners) -> int:
    """How many partitions were taken from who had them."""
    return sum(after.get(partition) != owner for partition, owner in before.items())


def given_too_early(before: Owners, given: Mapping[str, Given]) -> bool:
    """Whether a partition has a new owner while its rightful one cannot have let go of it."""
    return any(before.get(partition, owner) != owner for partition, owner in owners(given).items())
