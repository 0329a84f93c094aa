"""CreateTopics, CreatePartitions and DeleteTopics, most of them wrong."""

from collections.abc import Iterator
from typing import Any

from apportion.wire.messages.create_partitions import (
    CreatePartitionsAssignment,
    CreatePartitionsRequest,
    CreatePartitionsTopic,
)
from apportion.wire.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from apportion.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from tests.kafka.differential.wrong import (
    GOOD,
    NO_TOPIC,
    OFFSETS_TOPIC,
    STRANGE_ID,
    WAIT_MS,
    ZERO_ID,
    Case,
)


def create(*topics: CreatableTopic, validate_only: bool = True) -> Any:
    """CreateTopics with these topics."""
    return lambda good: CreateTopicsRequest(
        topics=topics, timeout_ms=WAIT_MS, validate_only=validate_only
    )


def topic(name: str = "new", count: int = 1, factor: int = 1, **facts: Any) -> CreatableTopic:
    """A topic to create."""
    return CreatableTopic(name=name, num_partitions=count, replication_factor=factor, **facts)


def creations() -> Iterator[Case]:
    """CreateTopics: names, partition counts, replication factors."""
    for name in (
        "",
        ".",
        "..",
        "bad name",
        "x" * 250,
        "ünicode",
        GOOD,
        OFFSETS_TOPIC,
        "a.b_c",
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
    here = CreatableReplicaAssignment(partition_index=0, broker_ids=(1,))
    for name, assigned in (
        ("by assignment", topic(count=-1, factor=-1, assignments=(here,))),
        ("by assignment and count", topic(count=1, factor=-1, assignments=(here,))),
        ("by assignment and factor", topic(count=-1, factor=1, assignments=(here,))),
        (
            "elsewhere",
            topic(
                count=-1,
                factor=-1,
                assignments=(CreatableReplicaAssignment(partition_index=0, broker_ids=(9,)),),
            ),
        ),
        (
            "nowhere",
            topic(
                count=-1,
                factor=-1,
                assignments=(CreatableReplicaAssignment(partition_index=0, broker_ids=()),),
            ),
        ),
        ("twice", topic(count=-1, factor=-1, assignments=(here, here))),
        (
            "with a hole",
            topic(
                count=-1,
                factor=-1,
                assignments=(CreatableReplicaAssignment(partition_index=1, broker_ids=(1,)),),
            ),
        ),
    ):
        yield Case(f"create {name}", 7, create(assigned))


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
        configured = topic(configs=(CreatableTopicConfig(name=name, value=value),))
        yield Case(f"create with {name}={value}", 7, create(configured))
    for policy in ("compact", "compact,delete"):
        configured = topic(
            policy.replace(",", "-"),
            configs=(CreatableTopicConfig(name="cleanup.policy", value=policy),),
        )
        yield Case(f"create a topic of {policy}", 7, create(configured, validate_only=False))


def growths() -> Iterator[Case]:
    """CreatePartitions."""

    def grow(*counts: tuple[str, int], where: Any = None) -> Any:
        grown = tuple(
            CreatePartitionsTopic(name=name, count=count, assignments=where)
            for name, count in counts
        )
        return lambda good: CreatePartitionsRequest(
            topics=grown, timeout_ms=WAIT_MS, validate_only=True
        )

    for count in (-1, 0, 2, 3, 4):
        yield Case(f"grow from 3 to {count}", 3, grow((GOOD, count)))
    for name in (NO_TOPIC, "bad name", ""):
        yield Case(f"grow {name!r}", 3, grow((name, 7)))
    yield Case("grow one topic twice", 3, grow((GOOD, 4), (GOOD, 5)))
    yield Case("grow the offsets", 3, grow((OFFSETS_TOPIC, 60)))
    for name, where in (
        ("here", ((1,),)),
        ("elsewhere", ((9,),)),
        ("too often", ((1,), (1,))),
        ("nowhere", ((),)),
        ("", ()),
    ):
        assignments = tuple(CreatePartitionsAssignment(broker_ids=ids) for ids in where)
        yield Case(f"grow {name or 'by no assignment'}", 3, grow((GOOD, 4), where=assignments))


def deletions() -> Iterator[Case]:
    """DeleteTopics."""

    def delete(*states: DeleteTopicState) -> Any:
        return lambda good: DeleteTopicsRequest(topics=states, timeout_ms=WAIT_MS)

    strange = DeleteTopicState(topic_id=STRANGE_ID)
    yield Case(
        "delete an unknown topic", 6, delete(DeleteTopicState(name=NO_TOPIC, topic_id=ZERO_ID))
    )
    yield Case("delete a bad name", 6, delete(DeleteTopicState(name="bad name", topic_id=ZERO_ID)))
    yield Case("delete an unknown id", 6, delete(strange))
    yield Case(
        "delete an id and a name", 6, delete(DeleteTopicState(name=GOOD, topic_id=STRANGE_ID))
    )
    yield Case(
        "delete neither id nor name", 6, delete(DeleteTopicState(name=None, topic_id=ZERO_ID))
    )
    yield Case("delete an unknown id twice", 6, delete(strange, strange))
    yield Case(
        "delete a topic twice", 6, delete(*[DeleteTopicState(name=NO_TOPIC, topic_id=ZERO_ID)] * 2)
    )


TOPIC_CASES = [
    *creations(),
    *assigned_creations(),
    *configured_creations(),
    *growths(),
    *deletions(),
]
