"""CreateTopics, CreatePartitions and DeleteTopics, most of them wrong."""

from collections.abc import Iterator
from typing import Any

from tests.kafka.differential.wrong import (
    GOOD,
    NO_TOPIC,
    OFFSETS_TOPIC,
    STRANGE_ID,
    WAIT_MS,
    ZERO_ID,
    Case,
    asking,
)


def create(*topics: dict[str, Any], validate_only: bool = True) -> Any:
    """CreateTopics with these topics."""
    return asking("CreateTopics", topics=topics, timeout_ms=WAIT_MS, validate_only=validate_only)


def topic(name: str = "new", count: int = 1, factor: int = 1, **facts: Any) -> dict[str, Any]:
    """A topic to create."""
    return {"name": name, "num_partitions": count, "replication_factor": factor} | facts


def creations() -> Iterator[Case]:
    """CreateTopics: names, partition counts, replication factors."""
    for name in (
        *("", ".", "..", "bad name", "x" * 250, "ünicode", GOOD, OFFSETS_TOPIC, "a.b_c"),
        "__transaction_state",
    ):
        yield Case(f"create {name[:20]!r}", 7, create(topic(name)))
    yield Case("create what differs in . and _ alone", 7, create(topic("with.dots_and_bars")))
    for count in (-2, -1, 0, 1):
        yield Case(f"create {count} partitions", 7, create(topic(count=count)))
    for factor in (-2, -1, 0, 2, 3):
        yield Case(f"create {factor} replicas", 7, create(topic(factor=factor)))
    yield Case("create one topic twice", 7, create(topic(), topic()))
    yield Case("create one good and one bad", 7, create(topic(), topic("bad name")))


def assigned_creations() -> Iterator[Case]:
    """CreateTopics with the replicas of each partition."""
    here = (0, (1,))
    for name, assigned, count, factor in (
        ("by assignment", [here], -1, -1),
        ("by assignment and count", [here], 1, -1),
        ("by assignment and factor", [here], -1, 1),
        ("elsewhere", [(0, (9,))], -1, -1),
        ("nowhere", [(0, ())], -1, -1),
        ("twice", [here, here], -1, -1),
        ("with a hole", [(1, (1,))], -1, -1),
    ):
        replicas = [{"partition_index": index, "broker_ids": ids} for index, ids in assigned]
        yield Case(
            f"create {name}", 7, create(topic(count=count, factor=factor, assignments=replicas))
        )


def configured_creations() -> Iterator[Case]:
    """CreateTopics with topic configs."""
    for name, value in (
        ("no.such.setting", "1"),
        ("retention.ms", "soon"),
        ("retention.ms", None),
        ("retention.ms", "-7"),
        ("cleanup.policy", "burn"),
        ("max.message.bytes", "-1"),
        ("segment.bytes", "1"),
        ("compression.type", "rar"),
        ("retention.ms", "1000"),
        ("cleanup.policy", "compact,delete"),
    ):
        configured = topic(configs=[{"name": name, "value": value}])
        yield Case(f"create with {name}={value}", 7, create(configured))
    for policy in ("compact", "compact,delete"):
        configs = [{"name": "cleanup.policy", "value": policy}]
        configured = topic(policy.replace(",", "-"), configs=configs)
        yield Case(f"create a topic of {policy}", 7, create(configured, validate_only=False))


def growths() -> Iterator[Case]:
    """CreatePartitions."""

    def grow(*counts: tuple[str, int], where: Any = None) -> Any:
        grown = [{"name": name, "count": count, "assignments": where} for name, count in counts]
        return asking("CreatePartitions", topics=grown, timeout_ms=WAIT_MS, validate_only=True)

    for count in (-1, 0, 2, 3, 4):
        yield Case(f"grow from 3 to {count}", 3, grow((GOOD, count)))
    for name in (NO_TOPIC, "bad name", ""):
        yield Case(f"grow {name!r}", 3, grow((name, 7)))
    yield Case("grow one topic twice", 3, grow((GOOD, 4), (GOOD, 5)))
    yield Case("grow the offsets", 3, grow((OFFSETS_TOPIC, 60)))
    for name, where in (
        ("here", [(1,)]),
        ("elsewhere", [(9,)]),
        ("too often", [(1,), (1,)]),
        ("nowhere", [()]),
        ("by no assignment", []),
    ):
        yield Case(f"grow {name}", 3, grow((GOOD, 4), where=[{"broker_ids": ids} for ids in where]))


def deletions() -> Iterator[Case]:
    """DeleteTopics."""
    for name, *deleted in (
        ("an unknown topic", (NO_TOPIC, ZERO_ID)),
        ("a bad name", ("bad name", ZERO_ID)),
        ("an unknown id", (None, STRANGE_ID)),
        ("an id and a name", (GOOD, STRANGE_ID)),
        ("neither id nor name", (None, ZERO_ID)),
        ("an unknown id twice", (None, STRANGE_ID), (None, STRANGE_ID)),
        ("a topic twice", (NO_TOPIC, ZERO_ID), (NO_TOPIC, ZERO_ID)),
    ):
        states = [{"name": each, "topic_id": topic_id} for each, topic_id in deleted]
        yield Case(f"delete {name}", 6, asking("DeleteTopics", topics=states, timeout_ms=WAIT_MS))


TOPIC_CASES = [
    *creations(),
    *assigned_creations(),
    *configured_creations(),
    *growths(),
    *deletions(),
]
