"""Bytes that Kafka Streams' own classes made, by tests/kafka/streams/record.py: read as they mean,
and written the same.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from apportion.streams.metadata.codec import (
    decode_assignment,
    decode_subscription,
    encode_assignment,
    encode_subscription,
)
from apportion.streams.metadata.model import LATEST, AssignmentInfo, SubscriptionInfo
from tests.streams.metadata import kept_assignment, kept_subscription, out_of_json

SAMPLES = json.loads(Path(__file__).with_name("golden").joinpath("metadata.json").read_text())[
    "samples"
]


def cases() -> Iterator[Any]:
    """(value, bytes as Kafka Streams made them, the same with their entries in order) of each
    sample.
    """
    for number, row in enumerate(SAMPLES):
        value, data = out_of_json(row["value"]), row["bytes"]
        name = f"{type(value).__name__}-v{value.used}-{number}"
        yield pytest.param(
            value, bytes.fromhex(data), bytes.fromhex(row.get("ordered", data)), id=name
        )


@pytest.mark.parametrize(("value", "data", "ordered"), list(cases()))
def test_we_write_the_bytes_of_kafka_streams(value: Any, data: bytes, ordered: bytes) -> None:
    encode = encode_subscription if isinstance(value, SubscriptionInfo) else encode_assignment
    assert encode(value).hex() == ordered.hex()


@pytest.mark.parametrize(("value", "data", "ordered"), list(cases()))
def test_we_read_the_bytes_of_kafka_streams(
    value: AssignmentInfo | SubscriptionInfo, data: bytes, ordered: bytes
) -> None:
    if isinstance(value, SubscriptionInfo):
        assert decode_subscription(data) == decode_subscription(ordered) == kept_subscription(value)
    else:
        assert decode_assignment(data) == kept_assignment(value)


def test_every_version_of_both_is_among_the_samples() -> None:
    data = {
        (type(value).__name__, value.used)
        for value in (out_of_json(row["value"]) for row in SAMPLES)
    }
    assert data == {
        (name, version)
        for name in ("SubscriptionInfo", "AssignmentInfo")
        for version in range(1, LATEST + 1)
    }
