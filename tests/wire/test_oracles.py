"""Two independent libraries read our bytes as the same values, and write those values as the same
bytes.

What an oracle knows and is not compared, and what it does not know, stands in a table with its
reason.
"""

import dataclasses
import datetime
import importlib
import re
import uuid
import warnings
from collections.abc import Callable
from io import BytesIO
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from kio.serial import entity_reader, entity_writer

from apportion.wire.codec import write
from apportion.wire.messages.api_versions import ApiVersionsResponse
from apportion.wire.table import APIS
from tests import profiles

# it reads its schemas in an old way
with warnings.catch_warnings(action="ignore", category=DeprecationWarning):
    PACKAGES = [
        importlib.import_module(f"kafka.protocol.{part}")
        for part in ("admin", "consumer", "metadata", "producer", "sasl")
    ]

MESSAGES = {kind.__name__: kind for api in APIS.values() for kind in (api.request, api.response)}
OURS = {(name, version) for name, kind in MESSAGES.items() for version in kind.__versions__}
ZERO_UUID = bytes(16)

FIRST_OWN_TAG = 848
"""From this tag on, fields are of KIP-848's client-side assignors, which no Kafka has."""

OF_KAFKA_4_4 = {
    (f"{name}{kind}", version): "new in Kafka 4.4, and in no release of the package yet"
    for name, version in (("ApiVersions", 5), ("DeleteGroups", 3))
    for kind in ("Request", "Response")
}
KIO_DOES_NOT_KNOW = {
    **OF_KAFKA_4_4,
    **{
        (f"Produce{kind}", version): "removed in Kafka 4.0; declared here only to be refused"
        for kind in ("Request", "Response")
        for version in range(3)
    },
    **{
        (f"ConsumerGroup{what}Assignment{kind}", 0): "in KIP-848, and in no Kafka"
        for what in ("Prepare", "Install")
        for kind in ("Request", "Response")
    },
}
KAFKA_PYTHON_DOES_NOT_KNOW = {
    **KIO_DOES_NOT_KNOW,
    **{
        (f"ConsumerGroup{what}{kind}", version): "no KIP-848 schema in the package"
        for what in ("Heartbeat", "Describe")
        for kind in ("Request", "Response")
        for version in range(2)
    },
}
"""Ours, and unknown to the oracle."""

KIO_ONLY = {
    (f"InitProducerId{kind}", 6): "two-phase commit, which no Kafka offers yet"
    for kind in ("Request", "Response")
}
KAFKA_PYTHON_ONLY = {**KIO_ONLY}
"""Known to the oracle, and not ours."""


OTHER_WORDS = {
    ("topic_authorized_operations", "authorized_operations"),
    ("cluster_authorized_operations", "authorized_operations"),
}
"""(our name, an oracle's name) of a field where they differ."""

KAFKA_PYTHON_HOLDS = {"ApiVersionsResponse": ("error_code", 0)}
"""It reads this answer in version 0 whenever it holds an error, as a client must that does not know
the answer's version.
"""


def kio_name(name: str) -> tuple[str, str]:
    """The package and the module of a message in kio."""
    parts = re.fullmatch(r"(.*)(Request|Response)", name)
    assert parts is not None
    stem, kind = parts.groups()
    return re.sub(r"(?<!^)([A-Z])", r"_\1", stem).lower(), kind.lower()


def kio_class_or_none(name: str, version: int) -> Any:
    package, kind = kio_name(name)
    try:
        result: type[Any] | None = getattr(
            importlib.import_module(f"kio.schema.{package}.v{version}.{kind}"), name
        )
        return result
    except ModuleNotFoundError:
        return None


def kafka_python_class_or_none(name: str) -> Any:
    for package in PACKAGES:
        if hasattr(package, name):
            result: type[Any] | None = getattr(package, name)
            return result
    return None


KIO = {
    (name, version)
    for name in MESSAGES
    for version in range(30)
    if kio_class_or_none(name, version)
}
KAFKA_PYTHON = {
    (name, version)
    for name in MESSAGES
    if (known := kafka_python_class_or_none(name))
    for version in range(known.valid_versions[0], known.valid_versions[1] + 1)
}


def cases(known: set[tuple[str, int]]) -> list[Any]:
    return [
        pytest.param(name, version, id=f"{name}-{version}")
        for name, version in sorted(OURS & known)
    ]


@pytest.mark.parametrize(
    ("known", "not_known", "only"),
    [
        (KIO, KIO_DOES_NOT_KNOW, KIO_ONLY),
        (KAFKA_PYTHON, KAFKA_PYTHON_DOES_NOT_KNOW, KAFKA_PYTHON_ONLY),
    ],
    ids=["kio", "kafka-python"],
)
def test_every_message_that_the_oracle_knows_is_compared(
    known: set[tuple[str, int]],
    not_known: dict[tuple[str, int], str],
    only: dict[tuple[str, int], str],
) -> None:
    assert OURS - known == not_known.keys()
    assert known - OURS == only.keys()


def plain(value: Any) -> Any:
    """A value of an oracle in the words of ours."""
    if value is None or isinstance(value, str | bool):
        return value
    if isinstance(value, uuid.UUID):
        return value.bytes
    if isinstance(value, datetime.timedelta):
        return value // datetime.timedelta(milliseconds=1)
    if isinstance(value, datetime.datetime):
        return (value - datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)) // datetime.timedelta(
            milliseconds=1
        )
    if isinstance(value, bytes | bytearray | memoryview):
        return bytes(value)
    return value


def is_kafkas(field: Any) -> bool:
    """Whether a field is one that Kafka has."""
    return field.tag is None or field.tag < FIRST_OWN_TAG


def as_kafka_has_it(value: Any) -> Any:
    """One of our values, or of their parts, without the fields that Kafka does not have."""
    if isinstance(value, tuple):
        return tuple(as_kafka_has_it(item) for item in value)
    if not hasattr(value, "__fields__"):
        return value
    kept = [field.name for field in value.__fields__ if is_kafkas(field)]
    return value.__class__(**{name: as_kafka_has_it(getattr(value, name)) for name in kept})


def as_ours(cls: Any, version: int, names: Callable[..., list[tuple[str, Any]]], value: Any) -> Any:
    """The oracle's value as a value of ours; `names(value)` gives its fields of that version in our
    order and our words.
    """
    if value is None:
        return None
    fields = [field for field in cls.__fields__ if field.is_in(version) and is_kafkas(field)]
    theirs = names(value)
    converted = {}
    for field, (their_name, their) in zip(fields, theirs, strict=True):
        name = field.name
        assert their_name == name or (name, their_name) in OTHER_WORDS
        if field.kind == "struct":
            converted[name] = as_ours(field.element, version, names, their)
        elif field.kind == "array":
            items = (
                their
                if their is None or not hasattr(field.element, "__fields__")
                else [as_ours(field.element, version, names, item) for item in their]
            )
            converted[name] = None if items is None else tuple(plain(item) for item in items)
        elif field.kind == "uuid":
            converted[name] = plain(their) or ZERO_UUID
        elif field.name == "log_append_time_ms":
            converted[name] = -1 if their is None else plain(their)
        elif name.endswith("authorized_operations") and not isinstance(their, int):
            converted[name] = sum(
                -(2**31) if bit == 31 else 1 << bit for bit in ({31} if their is None else their)
            )
        else:
            converted[name] = plain(their)
    return cls(**converted)


def with_field(value: Any, name: str, content: int) -> ApiVersionsResponse:
    """A copy of one of our values with another content in one field."""
    result: ApiVersionsResponse = value.__class__(
        **{field.name: getattr(value, field.name) for field in value.__fields__} | {name: content}
    )
    return result


TIMES = ("timedelta_i32", "timedelta_i64", "datetime_i64")


def kio_fields(value: Any) -> list[tuple[str, Any]]:
    """The fields of a value of kio, which leaves the unit off the name of a time."""
    return [
        (
            field.name + "_ms" if field.metadata.get("kafka_type") in TIMES else field.name,
            getattr(value, field.name),
        )
        for field in dataclasses.fields(value)
    ]


@pytest.mark.parametrize(("name", "version"), cases(KIO))
def test_kio_reads_and_writes_the_same(
    name: str, version: int, values_of: Callable[..., st.SearchStrategy[Any]]
) -> None:
    ours, theirs = MESSAGES[name], kio_class_or_none(name, version)
    assert theirs is not None
    reader, writer = entity_reader(theirs), entity_writer(theirs)

    @profiles.scaled_now(
        settings(max_examples=8, deadline=None, suppress_health_check=[*HealthCheck])
    )
    @given(values_of(ours, version))
    def the_same(value: Any) -> None:
        value = as_kafka_has_it(value)
        frame = write(value, version)
        their, size = reader(frame, 0)
        assert size == len(frame)
        assert as_ours(ours, version, kio_fields, their) == value
        out = BytesIO()
        writer(out, their)
        assert out.getvalue() == frame

    the_same()


@pytest.mark.parametrize(("name", "version"), cases(KAFKA_PYTHON))
def test_kafka_python_reads_and_writes_the_same(
    name: str, version: int, values_of: Callable[..., st.SearchStrategy[Any]]
) -> None:
    ours, theirs = MESSAGES[name], kafka_python_class_or_none(name)

    def fields(value: Any) -> list[tuple[str, Any]]:
        return [
            (field.name, getattr(value, field.name))
            for field in value._struct._fields
            if field.for_version_q(version)
        ]

    @profiles.scaled_now(
        settings(max_examples=8, deadline=None, suppress_health_check=[*HealthCheck])
    )
    @given(values_of(ours, version))
    def the_same(value: Any) -> None:
        if name in KAFKA_PYTHON_HOLDS:
            value = with_field(value, *KAFKA_PYTHON_HOLDS[name])
        frame = write(value, version)
        assert theirs is not None
        their = theirs.decode(frame, version=version)
        their._header = None  # which its writer asks for and its reader does not set
        assert as_ours(ours, version, fields, their) == value
        assert their.encode(version=version) == frame

    the_same()
