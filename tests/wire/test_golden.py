"""Bytes of a real Kafka and of real clients, recorded by tests/kafka/golden/record.py: read, and
written back unchanged.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from apportion.wire.codec import read_whole
from apportion.wire.frames import request_caller, request_header
from apportion.wire.records.codec import decode_key, decode_value, encode_key, encode_value
from apportion.wire.table import (
    APIS,
    SERVED_APIS,
    Api,
    DecodedRequest,
    decode_request,
    decode_response,
    encode_request,
    encode_response,
)

GOLDEN = Path(__file__).with_name("golden")


def frames() -> Iterator[Any]:
    """One case for each recorded exchange of an API that we speak."""
    for path in sorted(GOLDEN.glob("*.json")):
        recorded = json.loads(path.read_text())
        if recorded.get("key") in APIS:
            api = APIS[recorded["key"]]
            for number, row in enumerate(recorded["frames"]):
                name = f"{api.name}-v{row['version']}-{row['client']}-{number}"
                yield pytest.param(api, row, id=name)


def records() -> Iterator[Any]:
    """One case for each recorded record of `__consumer_offsets`."""
    for number, row in enumerate(
        json.loads((GOLDEN / "offsets_records.json").read_text())["records"]
    ):
        yield pytest.param(row, id=f"type-{row['type']}-{number}")


def decoded(frame: bytes) -> DecodedRequest:
    """A request of an API that our broker does not serve."""
    key, version, correlation_id, size = request_header(frame)
    api = APIS[key]
    client_id, offset = request_caller(frame, size, version >= api.flexible)
    body = read_whole(api.request, version, frame, offset)
    return DecodedRequest(api, version, correlation_id, client_id, body)


@pytest.mark.parametrize(("api", "row"), list(frames()))
def test_a_request_is_written_back_as_it_came(api: Api, row: dict[Any, Any]) -> None:
    frame = bytes.fromhex(row["request"])
    incoming = decode_request(frame) if api.key in SERVED_APIS else decoded(frame)
    client_id = None if frame[8:10] == b"\xff\xff" else incoming.client_id
    again = encode_request(incoming.body, incoming.version, incoming.correlation_id, client_id)
    assert (incoming.api, incoming.version, again[4:].hex()) == (
        api,
        row["version"],
        row["request"],
    )


@pytest.mark.parametrize(("api", "row"), list(frames()))
def test_a_response_is_written_back_as_it_came(api: Api, row: dict[Any, Any]) -> None:
    correlation_id, body = decode_response(
        api.request, row["version"], bytes.fromhex(row["response"])
    )
    again = b"".join(encode_response(api, row["version"], correlation_id, body))
    assert again[4:].hex() == row["response"]


@pytest.mark.parametrize("row", list(records()))
def test_a_record_of_consumer_offsets_is_written_back_as_it_stood(
    row: dict[Any, Any],
) -> None:
    key = decode_key(bytes.fromhex(row["key"]))
    assert encode_key(key).hex() == row["key"]
    if row["value"] is not None:
        value = bytes.fromhex(row["value"])
        assert (
            encode_value(decode_value(key, value), int.from_bytes(value[:2], "big")).hex()
            == row["value"]
        )


def test_every_api_has_a_response_recorded_from_kafka_for_every_version() -> None:
    recorded = {(case.values[0].key, case.values[1]["version"]) for case in frames()}
    wanted = {(api.key, version) for api in APIS.values() for version in api.versions}
    assert wanted - recorded == NOT_OFFERED


NOT_OFFERED = {(0, 0), (0, 1), (0, 2), (20848, 0), (20849, 0)}
"""Kafka 4.4.0 advertises Produce 0-2 and closes the connection of whoever uses them. It lacks the
APIs of KIP-848's client-side assignors.
"""
