"""Queries about topics, and those that change them: each request, and what its response has."""

from typing import Any

from apportion.errors import Code, Refused
from apportion.member.cluster_queries.query import OffsetQuery
from apportion.member.cluster_queries.records import ProduceQuery
from apportion.member.cluster_queries.topic_changes import (
    CreatePartitionsQuery,
    CreateTopicsQuery,
    DeleteTopicsQuery,
    NewTopic,
)
from apportion.member.cluster_queries.topics import (
    Leader,
    ListOffsetsQuery,
    MetadataQuery,
    TopicDescription,
    TopicWithLeaders,
)
from apportion.topics import Topic, TopicIdPartition, Topics
from apportion.wire.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
    CreatePartitionsTopicResult,
)
from apportion.wire.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from apportion.wire.messages.delete_topics import (
    DeletableTopicResult,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DeleteTopicState,
)
from apportion.wire.messages.list_offsets import (
    LATEST,
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
    ListOffsetsTopicResponse,
)
from apportion.wire.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from apportion.wire.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
    TopicProduceResponse,
)
from tests.member.refusal import refusal

ID = b"i" * 16
P0, P1, P2 = (TopicIdPartition("t", ID, number) for number in range(3))


# topics


def test_metadata_names_topics_by_name_or_by_id_and_creates_none() -> None:
    assert MetadataQuery(("t", ID)).request() == MetadataRequest(
        topics=(MetadataRequestTopic(name="t"), MetadataRequestTopic(topic_id=ID, name=None)),
        allow_auto_topic_creation=False,
    )


def test_metadata_has_topics_racks_and_leaders_and_the_first_error_but_absence() -> None:
    topic = MetadataResponseTopic(
        name="t",
        topic_id=ID,
        partitions=(
            MetadataResponsePartition(
                partition_index=1, leader_id=-1, leader_epoch=4, replica_nodes=(2,)
            ),
            MetadataResponsePartition(
                partition_index=0, leader_id=1, leader_epoch=3, replica_nodes=(2, 1)
            ),
        ),
    )
    absent, leaderless, invalid = (
        MetadataResponseTopic(name=name, error_code=code)
        for name, code in (
            ("absent", Code.UNKNOWN_TOPIC_OR_PARTITION),
            ("leaderless", Code.LEADER_NOT_AVAILABLE),
            ("invalid", Code.INVALID_TOPIC_EXCEPTION),
        )
    )
    brokers = (
        MetadataResponseBroker(node_id=1, host="a", port=9, rack="r"),
        MetadataResponseBroker(node_id=2, host="b", port=9, rack="q"),
    )
    parsed = MetadataQuery(("absent", "leaderless", "t", "invalid")).parse(
        MetadataResponse(brokers=brokers, topics=(absent, leaderless, topic, invalid))
    )
    description = TopicDescription("t", ID, 2, (("q", "r"), ("q",)))
    assert parsed.nodes == {1: ("a", 9), 2: ("b", 9)}
    assert parsed.existing == (TopicWithLeaders(description, {1: None, 0: Leader(1, 3)}),)
    assert parsed.topics == Topics([Topic("t", ID, 2)])
    assert parsed.descriptions == (description,)
    assert parsed.refused is not None
    assert str(parsed.refused) == (
        f"LEADER_NOT_AVAILABLE: topic 'leaderless': {Code.LEADER_NOT_AVAILABLE.sentence}"
    )


def test_metadata_without_topic_ids_is_refused() -> None:
    response = MetadataResponse(topics=(MetadataResponseTopic(name="t"),))
    assert refusal(MetadataQuery(("t",)), response) == (
        Code.UNSUPPORTED_VERSION,
        "the broker sends no topic ids (Metadata 10); Apache Kafka does since 2.8",
    )


def test_offsets_are_listed_by_topic_name_with_leader_epochs() -> None:
    assert ListOffsetsQuery(LATEST, {P0: 3, P1: -1}).request() == ListOffsetsRequest(
        replica_id=-1,
        isolation_level=1,
        topics=(
            ListOffsetsTopic(
                name="t",
                partitions=(
                    ListOffsetsPartition(
                        partition_index=0, current_leader_epoch=3, timestamp=LATEST
                    ),
                    ListOffsetsPartition(
                        partition_index=1, current_leader_epoch=-1, timestamp=LATEST
                    ),
                ),
            ),
        ),
    )


def test_a_list_of_offsets_has_an_offset_or_an_error_of_each_partition() -> None:
    query, moved = ListOffsetsQuery(LATEST, {P0: 3, P1: 3}), Code.NOT_LEADER_OR_FOLLOWER
    first = ListOffsetsPartitionResponse(partition_index=0, offset=7)
    second = ListOffsetsPartitionResponse(partition_index=1, error_code=moved)

    def response(*results: ListOffsetsPartitionResponse) -> ListOffsetsResponse:
        return ListOffsetsResponse(topics=(ListOffsetsTopicResponse(name="t", partitions=results),))

    third = ListOffsetsPartitionResponse(partition_index=1, offset=9)
    assert query.parse(response(third, first)) == {P0: 7, P1: 9}
    why = f"ListOffsets of t-1: {moved.sentence}"
    assert results(query, response(second, first)) == {P0: 7, P1: (moved, why)}
    assert refusal(query, response(first, second)) == (moved, why)
    absent = Code.UNKNOWN_SERVER_ERROR, "ListOffsets of t-1: the response leaves it out"
    assert results(query, response(first)) == {P0: 7, P1: absent}
    assert refusal(query, response(first)) == absent


def results(query: OffsetQuery, response: Any) -> dict[TopicIdPartition, int | tuple[Code, str]]:
    """The offset, or the code and sentence of the error, that a query reads of each partition."""
    return {
        partition: (result.code, result.why) if isinstance(result, Refused) else result
        for partition, result in query.results(response).items()
    }


# records


def test_batches_are_appended_with_all_acks_to_topics_named_both_ways() -> None:
    data = tuple(
        PartitionProduceData(index=number, records=batch)
        for number, batch in ((0, b"a"), (1, b"b"))
    )
    assert ProduceQuery({P0: b"a", P1: b"b"}, 500).request() == ProduceRequest(
        acks=-1,
        timeout_ms=500,
        topic_data=(TopicProduceData(name="t", topic_id=ID, partition_data=data),),
    )


def produced(*results: PartitionProduceResponse) -> tuple[ProduceResponse, ProduceResponse]:
    """Two responses with these results of `t`, by name and by id."""
    return (
        ProduceResponse(
            responses=(TopicProduceResponse(name="t", partition_responses=results),),
        ),
        ProduceResponse(
            responses=(TopicProduceResponse(topic_id=ID, partition_responses=results),),
        ),
    )


def test_a_produce_response_is_read_by_name_and_by_id() -> None:
    query, moved = ProduceQuery({P0: b"a", P1: b"b"}, 500), Code.NOT_LEADER_OR_FOLLOWER
    first = PartitionProduceResponse(index=0, base_offset=7)
    second = PartitionProduceResponse(index=1, error_code=moved)
    why = f"Produce of t-1: {moved.sentence}"
    for response in produced(second, first):
        assert results(query, response) == {P0: 7, P1: (moved, why)}
        assert refusal(query, response) == (moved, why)
    absent = Code.UNKNOWN_SERVER_ERROR, "Produce of t-1: the response leaves it out"
    for response in produced(first):
        assert results(query, response) == {P0: 7, P1: absent}


# changes of topics


def test_topics_are_created_with_their_settings_or_refused_in_the_brokers_words() -> None:
    query = CreateTopicsQuery((NewTopic("t", 2), NewTopic("u", 1, 3, {"k": "v"})), 500)
    assert query.request() == CreateTopicsRequest(
        topics=(
            CreatableTopic(name="t", num_partitions=2, replication_factor=1),
            CreatableTopic(
                name="u",
                num_partitions=1,
                replication_factor=3,
                configs=(CreatableTopicConfig(name="k", value="v"),),
            ),
        ),
        timeout_ms=500,
    )
    created = CreatableTopicResult(name="t")
    exists = CreatableTopicResult(
        name="u", error_code=Code.TOPIC_ALREADY_EXISTS, error_message="u is there"
    )
    query.parse(CreateTopicsResponse(topics=(created,)))
    assert refusal(query, CreateTopicsResponse(topics=(created, exists))) == (
        Code.TOPIC_ALREADY_EXISTS,
        "u is there",
    )


def test_a_topic_grows_to_a_number_of_partitions_or_is_refused() -> None:
    query, fewer = CreatePartitionsQuery("t", 3, 500), Code.INVALID_PARTITIONS
    topic = CreatePartitionsTopic(name="t", count=3, assignments=None)
    assert query.request() == CreatePartitionsRequest(topics=(topic,), timeout_ms=500)
    query.parse(CreatePartitionsResponse(results=(CreatePartitionsTopicResult(name="t"),)))
    refused = CreatePartitionsTopicResult(name="t", error_code=fewer)
    assert refusal(query, CreatePartitionsResponse(results=(refused,))) == (fewer, fewer.sentence)


def test_a_topic_is_deleted_by_its_name_in_every_version_or_refused() -> None:
    query, absent = DeleteTopicsQuery("t", 500), Code.UNKNOWN_TOPIC_OR_PARTITION
    assert query.request() == DeleteTopicsRequest(
        topics=(DeleteTopicState(name="t"),), topic_names=("t",), timeout_ms=500
    )
    query.parse(DeleteTopicsResponse(responses=(DeletableTopicResult(name="t"),)))
    refused = DeletableTopicResult(name="t", error_code=absent)
    assert refusal(query, DeleteTopicsResponse(responses=(refused,))) == (absent, absent.sentence)
