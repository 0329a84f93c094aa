"""Fetch as a query: the request, and each partition's part of a response by name and by id."""

from apportion.errors import Code
from apportion.member.cluster_queries.records import FetchPosition, FetchQuery, PartitionFetch
from apportion.topics import TopicIdPartition
from apportion.wire.batch import encode_batch
from apportion.wire.messages.fetch import (
    FetchableTopicResponse,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    PartitionData,
)
from tests.member.refusal import refusal

ID = b"i" * 16
P0, P1 = (TopicIdPartition("t", ID, number) for number in range(2))
RECORDS = encode_batch([(None, b"a", ()), (None, b"b", ())], timestamp_ms=1)


def responses(*data: PartitionData) -> tuple[FetchResponse, FetchResponse]:
    """Two responses with these parts of `t`, by name and by id."""
    return (
        FetchResponse(responses=(FetchableTopicResponse(topic="t", partitions=data),)),
        FetchResponse(responses=(FetchableTopicResponse(topic_id=ID, partitions=data),)),
    )


def test_a_fetch_names_its_topics_both_ways_with_positions_and_limits() -> None:
    query = FetchQuery({P0: FetchPosition(5, 2), P1: FetchPosition(0)}, 300, 1_000)
    partitions = (
        FetchPartition(
            partition=0, current_leader_epoch=2, fetch_offset=5, partition_max_bytes=1_000
        ),
        FetchPartition(
            partition=1, current_leader_epoch=-1, fetch_offset=0, partition_max_bytes=1_000
        ),
    )
    assert query.request() == FetchRequest(
        max_wait_ms=300,
        min_bytes=1,
        max_bytes=1_000,
        isolation_level=1,
        topics=(FetchTopic(topic="t", topic_id=ID, partitions=partitions),),
    )


def test_a_fetch_has_room_for_the_largest_batch_that_brokers_take() -> None:
    assert FetchQuery({P0: FetchPosition(0)}, 0).request().max_bytes > 1_048_588


def test_parts_come_in_order_with_batches_bounds_and_their_own_errors() -> None:
    query = FetchQuery({P0: FetchPosition(0), P1: FetchPosition(9)}, 0)
    readable = PartitionData(
        partition_index=0,
        high_watermark=2,
        last_stable_offset=2,
        log_start_offset=0,
        records=RECORDS,
    )
    gone = PartitionData(partition_index=1, error_code=Code.OFFSET_OUT_OF_RANGE)
    for response in responses(gone, readable):
        fetched = query.parse(response)
        assert list(fetched) == [P1, P0]
        assert fetched[P0] == PartitionFetch((memoryview(RECORDS),), 2, Code.NONE)
        assert fetched[P1].code is Code.OFFSET_OUT_OF_RANGE
        assert fetched[P1].next_offset == 9
    for response in responses(readable):
        assert list(query.parse(response)) == [P0]


def test_batches_from_the_end_on_are_left_out() -> None:
    data = PartitionData(partition_index=0, last_stable_offset=2, records=RECORDS)
    for response in responses(data):
        assert FetchQuery({P0: FetchPosition(0)}, 0, end=0).parse(response)[P0].batches == ()


def test_an_error_of_the_whole_response_refuses_the_fetch() -> None:
    failed = Code.UNKNOWN_SERVER_ERROR
    query = FetchQuery({P0: FetchPosition(0)}, 0)
    assert refusal(query, FetchResponse(error_code=failed)) == (failed, f"Fetch: {failed.sentence}")
