from apportion.wire.messages.consumer_group_describe import (
    Assignment,
    DescribedGroup,
    Member,
    TopicPartitions,
)
from demo.observe import PartitionUser, memory_mb, partition_users

TOPIC = bytes(range(16))


def group(*members: tuple[str, int, list[int]]) -> DescribedGroup:
    """Members as (id, epoch, partitions)."""
    return DescribedGroup(
        members=tuple(
            Member(
                member_id=name,
                member_epoch=epoch,
                assignment=Assignment(
                    topic_partitions=(
                        TopicPartitions(topic_id=TOPIC, partitions=tuple(partitions)),
                    )
                ),
            )
            for name, epoch, partitions in members
        )
    )


def test_a_partition_being_revoked_is_its_old_owners_until_the_owner_confirms() -> None:
    before = {0: PartitionUser("a", 1), 1: PartitionUser("a", 1)}
    asked = partition_users(before, group(("a", 1, [0]), ("b", 2, [])), TOPIC)
    assert asked == before
    answered = partition_users(asked, group(("a", 2, [0]), ("b", 2, [])), TOPIC)
    assert answered == {0: PartitionUser("a", 2)}
    assert partition_users(answered, group(("a", 2, [0]), ("b", 2, [1])), TOPIC) == {
        0: PartitionUser("a", 2),
        1: PartitionUser("b", 2),
    }


def test_a_member_that_is_gone_holds_nothing() -> None:
    assert partition_users({0: PartitionUser("a", 1)}, group(("b", 2, [])), TOPIC) == {}


def test_partitions_of_other_topics_do_not_count() -> None:
    assert partition_users({}, group(("a", 1, [0])), b"x" * 16) == {}


def test_this_process_takes_some_memory() -> None:
    assert memory_mb() > 1
