"""The error response of each API: for a request that failed, or was refused before its handler.

A request fails as a whole when the disk has failed, or this broker has (`Node.give_up`). Callers
without a permission are refused in the same shapes, as a whole or by element
(`node/authorization`).
"""

from dataclasses import replace
from typing import Any

from apportion.coord.error_responses import GROUP_ERROR_RESPONSES
from apportion.errors import Code, Refused
from apportion.machine import Arrived
from apportion.wire.error_slots import ErrorResponse, ErrorSlots
from apportion.wire.messages import (
    alter_configs,
    alter_user_scram_credentials,
    api_versions,
    create_acls,
    create_partitions,
    create_topics,
    delete_acls,
    delete_records,
    delete_topics,
    describe_acls,
    describe_cluster,
    describe_configs,
    describe_user_scram_credentials,
    fetch,
    find_coordinator,
    incremental_alter_configs,
    init_producer_id,
    list_config_resources,
    list_offsets,
    metadata,
    offset_for_leader_epoch,
    produce,
    sasl_authenticate,
    sasl_handshake,
)


def error_response(arrived: Arrived, code: Code) -> Any:
    """Return the response to a request of any API in which everything failed with `code`.

    Called by the node where no handler answers: its step raised, or the disk refused the flush. The
    APIs of groups, and FindCoordinator, get COORDINATOR_NOT_AVAILABLE instead of
    KAFKA_STORAGE_ERROR, which members do not understand: they would give up for good.
    """
    kind = type(arrived.request)
    is_of_a_group = kind in GROUP_ERROR_RESPONSES or kind is find_coordinator.FindCoordinatorRequest
    # Seed 93 of tests/sim/seeds.txt: a member that was answered so while it looked for its
    # coordinator gave up for good.
    if is_of_a_group and code == Code.KAFKA_STORAGE_ERROR:
        code = Code.COORDINATOR_NOT_AVAILABLE
    return ERROR_RESPONSES[kind](arrived, Refused(code))


def refused_response(arrived: Arrived, refusal: Refused, *, is_explained: bool) -> Any:
    """Return the response to a request of any API that was refused as a whole before its handler.

    is_explained: the response has the sentence, if it has a place for one.
    """
    slots = ERROR_RESPONSES[type(arrived.request)]
    if isinstance(slots, ErrorSlots):
        slots = replace(slots, is_explained=is_explained)
    return slots(arrived, refusal)


def expects_response(arrived: Arrived) -> bool:
    """Return whether the client waits for a response: not to Produce with acks 0.

    It would take one for that of a later request.
    """
    request = arrived.request
    return type(request) is not produce.ProduceRequest or request.acks != 0


ERROR_RESPONSES: dict[type[Any], ErrorResponse] = {
    **GROUP_ERROR_RESPONSES,
    produce.ProduceRequest: ErrorSlots(
        produce.ProduceResponse,
        {"responses": "topic_data", "partition_responses": "partition_data"},
        values={"base_offset": -1},
    ),
    # Only before version 7: from there on the response has an error of its own.
    fetch.FetchRequest: ErrorSlots(
        fetch.FetchResponse,
        {"responses": "topics", "partition_index": "partition"},
        values={"high_watermark": -1, "log_start_offset": -1, "records": b""},
    ),
    list_offsets.ListOffsetsRequest: ErrorSlots(
        list_offsets.ListOffsetsResponse, values={"timestamp": -1}
    ),
    offset_for_leader_epoch.OffsetForLeaderEpochRequest: ErrorSlots(
        offset_for_leader_epoch.OffsetForLeaderEpochResponse, values={"leader_epoch": -1}
    ),
    metadata.MetadataRequest: ErrorSlots(metadata.MetadataResponse, always_fills_arrays=True),
    # Before version 4 the response has one coordinator, and its error.
    find_coordinator.FindCoordinatorRequest: ErrorSlots(
        find_coordinator.FindCoordinatorResponse,
        {"coordinators": "coordinator_keys"},
        item="key",
        values={"node_id": -1, "port": -1},
    ),
    create_topics.CreateTopicsRequest: ErrorSlots(
        create_topics.CreateTopicsResponse,
        values={"num_partitions": -1, "replication_factor": -1, "configs": None},
    ),
    delete_topics.DeleteTopicsRequest: ErrorSlots(
        delete_topics.DeleteTopicsResponse, {"responses": ("topics", "topic_names")}, item="name"
    ),
    delete_records.DeleteRecordsRequest: ErrorSlots(
        delete_records.DeleteRecordsResponse, values={"low_watermark": -1}
    ),
    describe_acls.DescribeAclsRequest: ErrorSlots(describe_acls.DescribeAclsResponse),
    create_acls.CreateAclsRequest: ErrorSlots(
        create_acls.CreateAclsResponse, {"results": "creations"}
    ),
    delete_acls.DeleteAclsRequest: ErrorSlots(
        delete_acls.DeleteAclsResponse, {"filter_results": "filters"}, values={"matching_acls": ()}
    ),
    describe_configs.DescribeConfigsRequest: ErrorSlots(
        describe_configs.DescribeConfigsResponse, {"results": "resources"}
    ),
    incremental_alter_configs.IncrementalAlterConfigsRequest: ErrorSlots(
        incremental_alter_configs.IncrementalAlterConfigsResponse, {"responses": "resources"}
    ),
    alter_configs.AlterConfigsRequest: ErrorSlots(
        alter_configs.AlterConfigsResponse, {"responses": "resources"}
    ),
    list_config_resources.ListConfigResourcesRequest: ErrorSlots(
        list_config_resources.ListConfigResourcesResponse
    ),
    describe_user_scram_credentials.DescribeUserScramCredentialsRequest: ErrorSlots(
        describe_user_scram_credentials.DescribeUserScramCredentialsResponse
    ),
    alter_user_scram_credentials.AlterUserScramCredentialsRequest: ErrorSlots(
        alter_user_scram_credentials.AlterUserScramCredentialsResponse,
        {"results": ("deletions", "upsertions"), "user": "name"},
    ),
    create_partitions.CreatePartitionsRequest: ErrorSlots(
        create_partitions.CreatePartitionsResponse, {"results": "topics"}
    ),
    api_versions.ApiVersionsRequest: ErrorSlots(api_versions.ApiVersionsResponse),
    describe_cluster.DescribeClusterRequest: ErrorSlots(describe_cluster.DescribeClusterResponse),
    init_producer_id.InitProducerIdRequest: ErrorSlots(
        init_producer_id.InitProducerIdResponse, values={"producer_epoch": -1}
    ),
    sasl_handshake.SaslHandshakeRequest: ErrorSlots(sasl_handshake.SaslHandshakeResponse),
    sasl_authenticate.SaslAuthenticateRequest: ErrorSlots(
        sasl_authenticate.SaslAuthenticateResponse
    ),
}
