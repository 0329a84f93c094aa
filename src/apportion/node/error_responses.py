"""One error code in the shape of each response, for a request that failed as a whole.

A request fails as a whole when the disk has failed, or this broker has (`Node.give_up`).
"""

from collections.abc import Callable
from typing import Any

from apportion.coord.error_responses import GROUP_ERROR_RESPONSES
from apportion.coord.turn import GroupRequest
from apportion.errors import Code, Refused
from apportion.machine import Arrived
from apportion.wire.messages import (
    api_versions,
    create_partitions,
    create_topics,
    delete_records,
    delete_topics,
    describe_cluster,
    describe_configs,
    fetch,
    find_coordinator,
    init_producer_id,
    list_offsets,
    metadata,
    offset_for_leader_epoch,
    produce,
)

ErrorResponse = Callable[[Any, int, Code], Any]
"""(request, version, code) -> the response that says nothing but that code."""


def error_response(arrived: Arrived, code: Code) -> Any:
    """Return the response to a request of any API in which everything failed with `code`.

    Called by the node where no handler answers: its step raised, or the disk refused the flush.
    Returns None where no response is expected (Produce with acks 0, by `ERROR_RESPONSES`). The APIs
    of groups, and FindCoordinator, get COORDINATOR_NOT_AVAILABLE instead of KAFKA_STORAGE_ERROR,
    which members do not understand: they would give up for good.
    """
    kind = type(arrived.request)
    is_of_a_group = kind in GROUP_ERROR_RESPONSES or kind is find_coordinator.FindCoordinatorRequest
    # Seed 93 of tests/sim/seeds.txt: a member that was answered so while it looked for its
    # coordinator gave up for good.
    if is_of_a_group and code == Code.KAFKA_STORAGE_ERROR:
        code = Code.COORDINATOR_NOT_AVAILABLE
    if kind in GROUP_ERROR_RESPONSES:
        request = GroupRequest(
            arrived.ticket, arrived.request, arrived.version, arrived.caller, arrived.fresh
        )
        return GROUP_ERROR_RESPONSES[kind](request, Refused(code))
    return ERROR_RESPONSES[kind](arrived.request, arrived.version, code)


def _produce(
    request: produce.ProduceRequest, _version: int, code: Code
) -> produce.ProduceResponse | None:
    """Return the Produce response in which every partition has the error; None for acks 0."""
    # A producer would take a response for that of a later request.
    if request.acks == 0:
        return None
    return produce.ProduceResponse(
        responses=tuple(
            produce.TopicProduceResponse(
                name=topic.name,
                topic_id=topic.topic_id,
                partition_responses=tuple(
                    produce.PartitionProduceResponse(
                        index=data.index, error_code=code, base_offset=-1
                    )
                    for data in topic.partition_data
                ),
            )
            for topic in request.topic_data
        )
    )


def _fetch(request: fetch.FetchRequest, version: int, code: Code) -> fetch.FetchResponse:
    """Return the Fetch response that says the error."""
    # From version 7 on the response has an error of its own; before that each partition has to say
    # it.
    if version >= 7:
        return fetch.FetchResponse(error_code=code)
    return fetch.FetchResponse(
        responses=tuple(
            fetch.FetchableTopicResponse(
                topic=topic.topic,
                partitions=tuple(
                    fetch.PartitionData(
                        partition_index=each.partition,
                        error_code=code,
                        high_watermark=-1,
                        records=b"",
                    )
                    for each in topic.partitions
                ),
            )
            for topic in request.topics
        )
    )


def _list_offsets(
    request: list_offsets.ListOffsetsRequest, _version: int, code: Code
) -> list_offsets.ListOffsetsResponse:
    """Return the ListOffsets response in which every partition has the error."""
    return list_offsets.ListOffsetsResponse(
        topics=tuple(
            list_offsets.ListOffsetsTopicResponse(
                name=topic.name,
                partitions=tuple(
                    list_offsets.ListOffsetsPartitionResponse(
                        partition_index=each.partition_index, error_code=code
                    )
                    for each in topic.partitions
                ),
            )
            for topic in request.topics
        )
    )


def _offset_for_leader_epoch(
    request: offset_for_leader_epoch.OffsetForLeaderEpochRequest, _version: int, code: Code
) -> offset_for_leader_epoch.OffsetForLeaderEpochResponse:
    """Return the OffsetForLeaderEpoch response in which every partition has the error."""
    return offset_for_leader_epoch.OffsetForLeaderEpochResponse(
        topics=tuple(
            offset_for_leader_epoch.OffsetForLeaderTopicResult(
                topic=topic.topic,
                partitions=tuple(
                    offset_for_leader_epoch.EpochEndOffset(
                        partition=each.partition, error_code=code
                    )
                    for each in topic.partitions
                ),
            )
            for topic in request.topics
        )
    )


def _metadata(
    request: metadata.MetadataRequest, _version: int, code: Code
) -> metadata.MetadataResponse:
    """Return the Metadata response in which every requested topic has the error."""
    return metadata.MetadataResponse(
        error_code=code,
        topics=tuple(
            metadata.MetadataResponseTopic(
                error_code=code, name=topic.name, topic_id=topic.topic_id
            )
            for topic in request.topics or ()
        ),
    )


def _find_coordinator(
    request: find_coordinator.FindCoordinatorRequest, version: int, code: Code
) -> find_coordinator.FindCoordinatorResponse:
    """Return the FindCoordinator response in which every key has the error."""
    if version < 4:
        return find_coordinator.FindCoordinatorResponse(
            error_code=code, error_message=None, node_id=-1, port=-1
        )
    return find_coordinator.FindCoordinatorResponse(
        coordinators=tuple(
            find_coordinator.Coordinator(
                key=key, error_code=code, error_message=None, node_id=-1, port=-1
            )
            for key in request.coordinator_keys
        )
    )


def _create_topics(
    request: create_topics.CreateTopicsRequest, _version: int, code: Code
) -> create_topics.CreateTopicsResponse:
    """Return the CreateTopics response in which every topic has the error."""
    return create_topics.CreateTopicsResponse(
        topics=tuple(
            create_topics.CreatableTopicResult(
                name=topic.name, error_code=code, error_message=None, configs=None
            )
            for topic in request.topics
        )
    )


def _delete_topics(
    request: delete_topics.DeleteTopicsRequest, _version: int, code: Code
) -> delete_topics.DeleteTopicsResponse:
    """Return the DeleteTopics response in which every topic has the error."""
    named = [(state.name, state.topic_id) for state in request.topics] + [
        (name, bytes(16)) for name in request.topic_names
    ]
    return delete_topics.DeleteTopicsResponse(
        responses=tuple(
            delete_topics.DeletableTopicResult(name=name, topic_id=topic_id, error_code=code)
            for name, topic_id in named
        )
    )


def _delete_records(
    request: delete_records.DeleteRecordsRequest, _version: int, code: Code
) -> delete_records.DeleteRecordsResponse:
    """Return the DeleteRecords response in which every partition has the error."""
    return delete_records.DeleteRecordsResponse(
        topics=tuple(
            delete_records.DeleteRecordsTopicResult(
                name=topic.name,
                partitions=tuple(
                    delete_records.DeleteRecordsPartitionResult(
                        partition_index=each.partition_index, low_watermark=-1, error_code=code
                    )
                    for each in topic.partitions
                ),
            )
            for topic in request.topics
        )
    )


def _describe_configs(
    request: describe_configs.DescribeConfigsRequest, _version: int, code: Code
) -> describe_configs.DescribeConfigsResponse:
    """Return the DescribeConfigs response in which every resource has the error."""
    return describe_configs.DescribeConfigsResponse(
        results=tuple(
            describe_configs.DescribeConfigsResult(
                error_code=code,
                error_message=None,
                resource_type=each.resource_type,
                resource_name=each.resource_name,
            )
            for each in request.resources
        )
    )


ERROR_RESPONSES: dict[type, ErrorResponse] = {
    produce.ProduceRequest: _produce,
    fetch.FetchRequest: _fetch,
    list_offsets.ListOffsetsRequest: _list_offsets,
    offset_for_leader_epoch.OffsetForLeaderEpochRequest: _offset_for_leader_epoch,
    metadata.MetadataRequest: _metadata,
    find_coordinator.FindCoordinatorRequest: _find_coordinator,
    create_topics.CreateTopicsRequest: _create_topics,
    delete_topics.DeleteTopicsRequest: _delete_topics,
    delete_records.DeleteRecordsRequest: _delete_records,
    describe_configs.DescribeConfigsRequest: _describe_configs,
    create_partitions.CreatePartitionsRequest: lambda request, _version, code: (
        create_partitions.CreatePartitionsResponse(
            results=tuple(
                create_partitions.CreatePartitionsTopicResult(name=topic.name, error_code=code)
                for topic in request.topics
            )
        )
    ),
    api_versions.ApiVersionsRequest: lambda _request, _version, code: (
        api_versions.ApiVersionsResponse(error_code=code)
    ),
    describe_cluster.DescribeClusterRequest: lambda _request, _version, code: (
        describe_cluster.DescribeClusterResponse(error_code=code)
    ),
    init_producer_id.InitProducerIdRequest: lambda _request, _version, code: (
        init_producer_id.InitProducerIdResponse(error_code=code, producer_epoch=-1)
    ),
}
