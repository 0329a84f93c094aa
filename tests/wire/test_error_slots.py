"""Error responses made from a declaration of the slots in which an error stands."""

import pytest

from apportion.wire.error_slots import error_shape, fill, slots
from apportion.wire.messages import delete_topics, fetch, offset_commit
from apportion.wire.messages.consumer_group_describe import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
    DescribedGroup,
)

FETCH = error_shape(
    fetch.FetchResponse,
    responses=slots(
        "topics",
        "topic",
        partitions=slots(
            "partitions", ("partition_index", "partition"), values={"high_watermark": -1}
        ),
    ),
)


def test_an_error_stands_at_every_partition_of_the_request() -> None:
    shape = error_shape(
        offset_commit.OffsetCommitResponse,
        topics=slots("topics", "name", partitions=slots("partitions", "partition_index")),
    )
    request = offset_commit.OffsetCommitRequest(
        topics=(
            offset_commit.OffsetCommitRequestTopic(
                name="t",
                partitions=(
                    offset_commit.OffsetCommitRequestPartition(partition_index=3),
                    offset_commit.OffsetCommitRequestPartition(partition_index=5),
                ),
            ),
            offset_commit.OffsetCommitRequestTopic(name="u"),
        )
    )
    assert fill(shape, request, 9, 15) == offset_commit.OffsetCommitResponse(
        topics=(
            offset_commit.OffsetCommitResponseTopic(
                name="t",
                partitions=(
                    offset_commit.OffsetCommitResponsePartition(partition_index=3, error_code=15),
                    offset_commit.OffsetCommitResponsePartition(partition_index=5, error_code=15),
                ),
            ),
            offset_commit.OffsetCommitResponseTopic(name="u"),
        )
    )


@pytest.mark.parametrize(("version", "error", "topics"), [(4, 0, 1), (7, 56, 0)])
def test_slots_stay_empty_where_the_response_has_an_error_of_its_own(
    version: int, error: int, topics: int
) -> None:
    topic = fetch.FetchTopic(topic="t", partitions=(fetch.FetchPartition(partition=2),))
    response = fill(FETCH, fetch.FetchRequest(topics=(topic,)), version, 56)
    assert (response.error_code, len(response.responses)) == (error, topics)
    for each in response.responses:
        assert each.partitions == (
            fetch.PartitionData(partition_index=2, error_code=56, high_watermark=-1),
        )


def test_an_array_may_answer_two_arrays_of_the_request() -> None:
    shape = error_shape(
        delete_topics.DeleteTopicsResponse,
        responses=(slots("topics", "name", "topic_id"), slots("topic_names", item="name")),
    )
    request = delete_topics.DeleteTopicsRequest(
        topics=(delete_topics.DeleteTopicState(name="by-value"),), topic_names=("by-name",)
    )
    named = [(each.name, each.error_code) for each in fill(shape, request, 6, 3).responses]
    assert named == [("by-value", 3), ("by-name", 3)]


def test_the_message_stands_beside_each_error() -> None:
    shape = error_shape(ConsumerGroupDescribeResponse, groups=slots("group_ids", item="group_id"))
    request = ConsumerGroupDescribeRequest(group_ids=("g",))
    assert fill(shape, request, 0, 69, "gone").groups == (
        DescribedGroup(group_id="g", error_code=69, error_message="gone"),
    )
