"""Error responses made from a declaration of the slots in which an error stands."""

from typing import Any

import pytest

from apportion.errors import Code, Refused
from apportion.machine import Arrived, Caller, Ticket
from apportion.wire.error_slots import ErrorSlots
from apportion.wire.messages import delete_topics, fetch, list_offsets, offset_commit
from apportion.wire.messages.consumer_group_describe import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
    DescribedGroup,
)

FETCH = ErrorSlots(
    fetch.FetchResponse,
    {"responses": "topics", "partition_index": "partition"},
    values={"high_watermark": -1, "log_start_offset": -1},
)


def fill(slots: ErrorSlots, request: Any, version: int, code: Code, why: str = "") -> Any:
    """The response to a request that was refused."""
    arrived = Arrived(Ticket(1), request, version, Caller("", ""), bytes(16))
    return slots(arrived, Refused(code, why))


def test_an_error_stands_at_every_partition_of_the_request() -> None:
    slots = ErrorSlots(offset_commit.OffsetCommitResponse)
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
    assert fill(
        slots, request, 9, Code.COORDINATOR_NOT_AVAILABLE
    ) == offset_commit.OffsetCommitResponse(
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
    response = fill(FETCH, fetch.FetchRequest(topics=(topic,)), version, Code.KAFKA_STORAGE_ERROR)
    assert (response.error_code, len(response.responses)) == (error, topics)
    for each in response.responses:
        assert each.partitions == (
            fetch.PartitionData(partition_index=2, error_code=56, high_watermark=-1),
        )


def test_an_array_may_answer_two_arrays_of_the_request() -> None:
    slots = ErrorSlots(
        delete_topics.DeleteTopicsResponse, {"responses": ("topics", "topic_names")}, item="name"
    )
    request = delete_topics.DeleteTopicsRequest(
        topics=(delete_topics.DeleteTopicState(name="by-value"),), topic_names=("by-name",)
    )
    response = fill(slots, request, 6, Code.UNKNOWN_TOPIC_OR_PARTITION)
    named = [(each.name, each.error_code) for each in response.responses]
    assert named == [("by-value", 3), ("by-name", 3)]


@pytest.mark.parametrize("is_explained", [True, False])
def test_the_message_stands_beside_each_error_that_is_explained(is_explained: bool) -> None:
    slots = ErrorSlots(
        ConsumerGroupDescribeResponse,
        {"groups": "group_ids"},
        item="group_id",
        is_explained=is_explained,
    )
    request = ConsumerGroupDescribeRequest(group_ids=("g",))
    why = "gone" if is_explained else None
    assert fill(slots, request, 0, Code.GROUP_ID_NOT_FOUND, "gone").groups == (
        DescribedGroup(group_id="g", error_code=69, error_message=why),
    )


def test_a_declared_value_stands_in_place_of_what_the_request_has() -> None:
    slots = ErrorSlots(list_offsets.ListOffsetsResponse, values={"timestamp": -1})
    asked = list_offsets.ListOffsetsPartition(partition_index=2, timestamp=5)
    topic = list_offsets.ListOffsetsTopic(name="t", partitions=(asked,))
    response = fill(
        slots, list_offsets.ListOffsetsRequest(topics=(topic,)), 1, Code.NOT_COORDINATOR
    )
    assert response.topics[0].partitions == (
        list_offsets.ListOffsetsPartitionResponse(partition_index=2, error_code=16, timestamp=-1),
    )


def test_an_element_alone_has_the_error_at_each_of_its_partitions() -> None:
    topic = fetch.FetchTopic(topic="t", partitions=(fetch.FetchPartition(partition=7),))
    # Also in versions in which the whole response has an error of its own.
    for version in (4, 7):
        refused = FETCH.elements("responses", version)
        assert refused(
            topic, Refused(Code.TOPIC_AUTHORIZATION_FAILED)
        ) == fetch.FetchableTopicResponse(
            topic="t",
            partitions=(
                fetch.PartitionData(
                    partition_index=7,
                    error_code=29,
                    high_watermark=-1,
                    log_start_offset=-1,
                ),
            ),
        )
