"""The table of APIs, and whole frames of requests and responses.

A client can send every API of the table; the broker serves those that `ABSENT_APIS` does not name.
A request that the broker does not serve, or of an unknown version, is a `DecodeError`, except
ApiVersions: KIP-511 has a broker answer an unknown version of it in version 0, so that the client
can choose another.
"""

from typing import Any, NamedTuple

from apportion.errors import Code, DecodeError
from apportion.wire.absent_apis import ABSENT_APIS
from apportion.wire.codec import Buffer, FramePart, read, read_whole, write, write_onto
from apportion.wire.frames import (
    frame_request,
    frame_response,
    request_caller,
    request_header,
    response_body,
)
from apportion.wire.messages import (
    alter_configs,
    alter_user_scram_credentials,
    api_versions,
    consumer_group_describe,
    consumer_group_heartbeat,
    consumer_group_install_assignment,
    consumer_group_prepare_assignment,
    create_acls,
    create_partitions,
    create_topics,
    delete_acls,
    delete_groups,
    delete_records,
    delete_topics,
    describe_acls,
    describe_cluster,
    describe_configs,
    describe_groups,
    describe_user_scram_credentials,
    fetch,
    find_coordinator,
    heartbeat,
    incremental_alter_configs,
    init_producer_id,
    join_group,
    leave_group,
    list_config_resources,
    list_groups,
    list_offsets,
    metadata,
    offset_commit,
    offset_delete,
    offset_fetch,
    offset_for_leader_epoch,
    produce,
    sasl_authenticate,
    sasl_handshake,
    sync_group,
)


class Api(NamedTuple):
    """One API: key, name, request and response class, and the supported versions of both."""

    key: int
    name: str
    request: Any
    response: Any
    versions: range
    flexible: int
    """The first flexible version."""

    def has_flexible_response_header(self, version: int) -> bool:
        """Return True if the response header has tagged fields; never for ApiVersions (KIP-511)."""
        return version >= self.flexible and self.key != API_VERSIONS


class DecodedRequest(NamedTuple):
    """A decoded request.

    body: None for ApiVersions in an unknown version; answer it in version 0.
    """

    api: Api
    version: int
    correlation_id: int
    client_id: str
    body: Any


API_VERSIONS = 18
UNSUPPORTED = Code.UNSUPPORTED_VERSION.to_bytes(2)


def _api(module: Any) -> Api:
    """Return the API that a module of `wire/messages` declares by its request and response."""
    name = "".join(word.capitalize() for word in module.__name__.rpartition(".")[2].split("_"))
    request, response = getattr(module, name + "Request"), getattr(module, name + "Response")
    return Api(request.__key__, name, request, response, request.__versions__, request.__flexible__)


APIS: dict[int, Api] = {
    api.key: api
    for api in (
        _api(produce),
        _api(fetch),
        _api(list_offsets),
        _api(metadata),
        _api(offset_commit),
        _api(offset_fetch),
        _api(find_coordinator),
        _api(join_group),
        _api(heartbeat),
        _api(leave_group),
        _api(sync_group),
        _api(describe_groups),
        _api(list_groups),
        _api(sasl_handshake),
        _api(api_versions),
        _api(create_topics),
        _api(delete_topics),
        _api(delete_records),
        _api(init_producer_id),
        _api(offset_for_leader_epoch),
        _api(describe_acls),
        _api(create_acls),
        _api(delete_acls),
        _api(describe_configs),
        _api(alter_configs),
        _api(sasl_authenticate),
        _api(create_partitions),
        _api(delete_groups),
        _api(incremental_alter_configs),
        _api(offset_delete),
        _api(describe_user_scram_credentials),
        _api(alter_user_scram_credentials),
        _api(describe_cluster),
        _api(consumer_group_heartbeat),
        _api(consumer_group_describe),
        _api(list_config_resources),
        _api(consumer_group_prepare_assignment),
        _api(consumer_group_install_assignment),
    )
}
"""All APIs of which there are messages, by their keys: a client can send them."""

SERVED_APIS = {key: api for key, api in APIS.items() if key not in ABSENT_APIS}
"""The APIs that the broker serves and advertises, by their keys."""

_BY_REQUEST = {api.request: api for api in APIS.values()}


def api_of(request_class: Any) -> Api:
    """Return the API of a request class."""
    return _BY_REQUEST[request_class]


def decode_request(frame: Buffer) -> DecodedRequest:
    """Decode a client's request frame, for the broker; bytes and records are views of the frame.

    Bytes after the request are ignored, as Kafka does: librdkafka sends three when it asks Metadata
    for all topics (9 and later).
    """
    key, version, correlation_id, client_size = request_header(frame)
    api = SERVED_APIS.get(key)
    if api is None:
        raise DecodeError(_unknown(key))
    if version not in api.versions:
        # KIP-511: a client sends ApiVersions before it knows which version the broker supports.
        if key == API_VERSIONS:
            return DecodedRequest(api, version, correlation_id, "", None)
        raise DecodeError(
            f"{api.name} has versions {api.versions[0]} to {api.versions[-1]} here, and a "
            f"request has {version}"
        )
    client_id, offset = request_caller(frame, client_size, version >= api.flexible)
    return DecodedRequest(
        api, version, correlation_id, client_id, read(api.request, version, frame, offset)[0]
    )


def _unknown(key: int) -> str:
    """Return the sentence for a request of an API that the broker does not have."""
    name = ABSENT_APIS.get(key)
    if name is None:
        return f"a request has API key {key}, which is unknown here"
    return f"a request is {name} (API key {key}), which this broker does not have"


def encode_response(api: Api, version: int, correlation_id: int, body: Any) -> list[FramePart]:
    """Encode the broker's response frame with its length; long records are parts of their own."""
    parts: list[FramePart] = [b""]
    write_onto(parts, body, version)
    return frame_response(correlation_id, api.has_flexible_response_header(version), parts)


def encode_request(body: Any, version: int, correlation_id: int, client_id: str | None) -> bytes:
    """Encode a client's request frame with its length, for a connection to a broker."""
    api = api_of(body.__class__)
    return frame_request(
        api.key,
        version,
        correlation_id,
        client_id,
        flexible=version >= api.flexible,
        body=write(body, version),
    )


def decode_response(request_class: Any, version: int, frame: Buffer) -> tuple[int, Any]:
    """Decode a broker's response frame for the client: correlation id and body.

    request_class, version: those of the request that it answers.
    """
    api = api_of(request_class)
    correlation_id, offset = response_body(frame, api.has_flexible_response_header(version))
    # KIP-511: a broker that does not know the version of ApiVersions answers in version 0.
    if api.key == API_VERSIONS and bytes(frame[offset : offset + 2]) == UNSUPPORTED:
        version = 0
    return correlation_id, read_whole(api.response, version, frame, offset)


def api_versions_response(
    error: Code = Code.NONE, **fields: Any
) -> api_versions.ApiVersionsResponse:
    """Return the ApiVersions response: every API that the broker serves, with its versions.

    error: UNSUPPORTED_VERSION, by the broker's server, for an ApiVersions request of a version that
    is unknown here and was not decoded. fields: features and other response fields by name.
    """
    keys = tuple(
        api_versions.ApiVersion(
            api_key=api.key, min_version=api.versions[0], max_version=api.versions[-1]
        )
        for api in sorted(SERVED_APIS.values())
    )
    return api_versions.ApiVersionsResponse(error_code=error, api_keys=keys, **fields)
