"""One error code in the shape of each response, for a request that failed as a whole.

A request fails as a whole when the disk has failed, or this broker has (`Node.give_up`).
"""

from typing import Any

from apportion.coord.error_responses import GROUP_ERROR_RESPONSES
from apportion.errors import Code, Refused
from apportion.machine import Arrived
from apportion.wire.error_slots import ErrorShape, error_shape, fill, slots
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


def error_response(arrived: Arrived, code: Code) -> Any:
    """Return the response to a request of any API in which everything failed with `code`.

    Called by the node where no handler answers: its step raised, or the disk refused the flush.
    Returns None where no response is expected (Produce with acks 0). The APIs
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
        return GROUP_ERROR_RESPONSES[kind](arrived, Refused(code))
    # A producer that asked for no response would take one for that of a later request.
    if isinstance(arrived.request, produce.ProduceRequest) and arrived.request.acks == 0:
        return None
    return fill(ERROR_SHAPES[kind], arrived.request, arrived.version, code)


ERROR_SHAPES: dict[type, ErrorShape] = {
    produce.ProduceRequest: error_shape(
        produce.ProduceResponse,
        responses=slots(
            "topic_data",
            "name",
            "topic_id",
            partition_responses=slots("partition_data", "index", values={"base_offset": -1}),
        ),
    ),
    # Only before version 7: from there on the response has an error of its own.
    fetch.FetchRequest: error_shape(
        fetch.FetchResponse,
        responses=slots(
            "topics",
            "topic",
            partitions=slots(
                "partitions",
                ("partition_index", "partition"),
                values={"high_watermark": -1, "records": b""},
            ),
        ),
    ),
    list_offsets.ListOffsetsRequest: error_shape(
        list_offsets.ListOffsetsResponse,
        topics=slots("topics", "name", partitions=slots("partitions", "partition_index")),
    ),
    offset_for_leader_epoch.OffsetForLeaderEpochRequest: error_shape(
        offset_for_leader_epoch.OffsetForLeaderEpochResponse,
        topics=slots("topics", "topic", partitions=slots("partitions", "partition")),
    ),
    metadata.MetadataRequest: error_shape(
        metadata.MetadataResponse,
        topics=slots("topics", "name", "topic_id"),
        always_fills_arrays=True,
    ),
    # Before version 4 the response has one coordinator, and its error.
    find_coordinator.FindCoordinatorRequest: error_shape(
        find_coordinator.FindCoordinatorResponse,
        coordinators=slots("coordinator_keys", item="key", values={"node_id": -1, "port": -1}),
        values={"node_id": -1, "port": -1},
    ),
    create_topics.CreateTopicsRequest: error_shape(
        create_topics.CreateTopicsResponse,
        topics=slots("topics", "name", values={"configs": None}),
    ),
    delete_topics.DeleteTopicsRequest: error_shape(
        delete_topics.DeleteTopicsResponse,
        responses=(slots("topics", "name", "topic_id"), slots("topic_names", item="name")),
    ),
    delete_records.DeleteRecordsRequest: error_shape(
        delete_records.DeleteRecordsResponse,
        topics=slots(
            "topics",
            "name",
            partitions=slots("partitions", "partition_index", values={"low_watermark": -1}),
        ),
    ),
    describe_configs.DescribeConfigsRequest: error_shape(
        describe_configs.DescribeConfigsResponse,
        results=slots("resources", "resource_type", "resource_name"),
    ),
    create_partitions.CreatePartitionsRequest: error_shape(
        create_partitions.CreatePartitionsResponse, results=slots("topics", "name")
    ),
    api_versions.ApiVersionsRequest: error_shape(api_versions.ApiVersionsResponse),
    describe_cluster.DescribeClusterRequest: error_shape(describe_cluster.DescribeClusterResponse),
    init_producer_id.InitProducerIdRequest: error_shape(
        init_producer_id.InitProducerIdResponse, values={"producer_epoch": -1}
    ),
}
