"""The Spark types of Avro, JSON Schema and Protobuf, and values that are decoded to them."""

import json
import uuid
from datetime import UTC, date, datetime, time
from decimal import Decimal
from typing import Any

import pytest
from confluent_kafka.schema_registry import Schema, SchemaReference, SchemaRegistryClient
from google.protobuf import struct_pb2, timestamp_pb2
from pyspark.sql import types

from apportion.spark.decoding import avro, json_schema, protobuf
from apportion.spark.decoding.columns import decode
from apportion.spark.decoding.errors import UndecodableRecord, UnsupportedSchema
from apportion.spark.decoding.framing import framed, without_message_indexes
from apportion.spark.decoding.registry import SchemaRegistry
from tests.spark.schema_registry import Registry, avro_bytes

FLIGHT = {
    "type": "record",
    "name": "Flight",
    "fields": [{"name": "carrier", "type": "string"}, {"name": "delay", "type": "int"}],
}


# Avro


def decoded_avro(registry: Registry, client: SchemaRegistryClient, schema: Any, value: Any) -> Any:
    """The Spark type of an Avro schema, and a value after serializer and decoder."""
    record = {"type": "record", "name": "Of", "fields": [{"name": "one", "type": schema}]}
    raw = avro_bytes(client, f"t{len(registry.schemas)}-value", record, {"one": value})
    known = SchemaRegistry.at(registry.url)
    read = known.by_id(framed(raw).schema_id)
    decoder = avro.AvroDecoder(known, read)
    column: Any = avro.AvroSchema(known, read).spark_type()
    (field,) = column.fields
    return field.dataType.simpleString(), decoder(raw)["one"]


NOON = datetime(2026, 11, 26, 12, 0, 1, 2000, tzinfo=UTC)
NAMED = {"type": "enum", "name": "E", "symbols": ["A", "B"]}
RECORD = {
    "type": "record",
    "name": "R",
    "fields": [{"name": "t", "type": {"type": "int", "logicalType": "time-millis"}}],
}


@pytest.mark.parametrize(
    ("schema", "value", "expected", "spark_type"),
    [
        ("string", "a", "a", "string"),
        ("bytes", b"a", b"a", "binary"),
        ({"type": "fixed", "name": "F", "size": 2}, b"ab", b"ab", "binary"),
        (NAMED, "B", "B", "string"),
        (["null", "string"], None, None, "string"),
        (["int", "long"], 2**40, 2**40, "bigint"),
        (["float", "double", "null"], 0.5, 0.5, "double"),
        ({"type": "int", "logicalType": "date"}, date(2026, 1, 2), date(2026, 1, 2), "date"),
        ({"type": "long", "logicalType": "timestamp-millis"}, NOON, NOON, "timestamp"),
        (
            {"type": "long", "logicalType": "local-timestamp-micros"},
            NOON.replace(tzinfo=None),
            NOON.replace(tzinfo=None),
            "timestamp_ntz",
        ),
        (
            {"type": "bytes", "logicalType": "decimal", "precision": 5, "scale": 2},
            Decimal("1.50"),
            Decimal("1.50"),
            "decimal(5,2)",
        ),
        (
            {"type": "string", "logicalType": "uuid"},
            uuid.UUID(int=1),
            str(uuid.UUID(int=1)),
            "string",
        ),
        ({"type": "long", "logicalType": "time-micros"}, time(0, 0, 1, 5), 1_000_005, "bigint"),
        (
            ["null", RECORD],
            {"t": time(0, 0, 1)},
            {"t": 1_000},
            "struct<t:int>",
        ),
        (
            {"type": "array", "items": ["null", {"type": "int", "logicalType": "time-millis"}]},
            [None, time(0, 0, 2)],
            [None, 2_000],
            "array<int>",
        ),
        (
            {"type": "map", "values": {"type": "string", "logicalType": "uuid"}},
            {"k": uuid.UUID(int=2)},
            {"k": str(uuid.UUID(int=2))},
            "map<string,string>",
        ),
    ],
    ids=lambda value: None,
)
def test_an_avro_type_has_a_spark_type(
    registry: Registry,
    client: SchemaRegistryClient,
    schema: Any,
    value: Any,
    expected: Any,
    spark_type: str,
) -> None:
    assert decoded_avro(registry, client, schema, value) == (spark_type, expected)


def test_an_avro_schema_may_use_those_of_other_subjects(
    registry: Registry, client: SchemaRegistryClient
) -> None:
    client.register_schema("gate-value", Schema(json.dumps({**NAMED, "name": "air.Gate"}), "AVRO"))
    schema = {"type": "record", "name": "air.At", "fields": [{"name": "gate", "type": "air.Gate"}]}
    reference = SchemaReference("air.Gate", "gate-value", 1)
    client.register_schema("at-value", Schema(json.dumps(schema), "AVRO", [reference]))
    known = SchemaRegistry.at(registry.url)
    read: Any = known.registered("at-value", None)
    assert avro.AvroSchema(known, read.schema).spark_type().simpleString() == "struct<gate:string>"
    raw = b"\0" + read.schema_id.to_bytes(4, "big") + b"\x02"
    assert avro.AvroDecoder(known, read.schema)(raw) == {"gate": "B"}


@pytest.mark.parametrize(
    ("schema", "why"),
    [
        (["int", "string"], "a union of int, string has no Spark type"),
        (
            {"type": "record", "name": "L", "fields": [{"name": "next", "type": ["null", "L"]}]},
            "record L contains itself",
        ),
    ],
)
def test_an_avro_schema_without_a_spark_type_is_refused(
    registry: Registry, client: SchemaRegistryClient, schema: Any, why: str
) -> None:
    client.register_schema("odd-value", Schema(json.dumps(schema), "AVRO"))
    with pytest.raises(UnsupportedSchema, match=f"subject 'odd-value': {why}"):
        decode("value", registry.url, subject="odd-value")


def test_an_avro_value_that_ends_too_soon_is_refused(
    registry: Registry, client: SchemaRegistryClient
) -> None:
    raw = avro_bytes(client, "cut-value", FLIGHT, {"carrier": "UA", "delay": 3})
    known = SchemaRegistry.at(registry.url)
    decoder = avro.AvroDecoder(known, known.registered("cut-value", None).schema)
    with pytest.raises(UndecodableRecord, match=r"schema \d+ does not decode the value"):
        decoder(raw[:7])


# JSON Schema


@pytest.mark.parametrize(
    ("part", "spark_type"),
    [
        ({"type": "integer"}, "bigint"),
        ({"type": ["number", "null"]}, "double"),
        ({"type": ["number", "string"]}, "string"),
        ({"oneOf": [{"type": "null"}, {"type": "boolean"}]}, "boolean"),
        ({"anyOf": [{"type": "string"}, {"type": "boolean"}]}, "string"),
        ({"type": "object", "additionalProperties": {"type": "integer"}}, "map<string,bigint>"),
        ({"type": "object"}, "string"),
        ({"type": "array"}, "string"),
        ({"$ref": "#/definitions/g~1h"}, "struct<n:bigint>"),
        (True, "string"),
    ],
)
def test_a_part_of_a_json_schema_has_a_spark_type(part: Any, spark_type: str) -> None:
    gate = {"type": "object", "properties": {"n": {"type": "integer"}}}
    whole = {"type": "object", "properties": {"a": part}, "definitions": {"g/h": gate}}
    assert json_schema.spark_type(whole).simpleString() == f"struct<a:{spark_type}>"


@pytest.mark.parametrize(
    ("schema", "why"),
    [
        ({"type": "string"}, "describes no object and no array"),
        ({"properties": {"a": {"$ref": "#"}}}, "# contains itself"),
        ({"properties": {"a": {"$ref": "#/definitions/b"}}}, "there is no #/definitions/b"),
        ({"properties": {"a": {"$ref": "other.json"}}}, "other.json is another document"),
    ],
)
def test_a_json_schema_without_a_spark_type_is_refused(schema: Any, why: str) -> None:
    with pytest.raises(UnsupportedSchema, match=why):
        json_schema.spark_type(schema)


# Protobuf


def test_a_protobuf_timestamp_is_a_timestamp() -> None:
    class_type = types.StructType([types.StructField("seconds", types.LongType())])
    assert protobuf.spark_type(timestamp_pb2.Timestamp.DESCRIPTOR).fields[0] == class_type.fields[0]


def test_a_message_that_contains_itself_is_refused() -> None:
    with pytest.raises(UnsupportedSchema, match="contains itself"):
        protobuf.spark_type(struct_pb2.Struct.DESCRIPTOR)


@pytest.mark.parametrize(
    ("payload", "message"),
    [(b"\x00m", b"m"), (b"\x02\x00m", b"m"), (b"\x04\x02\xac\x02m", b"m"), (b"\x00", b"")],
)
def test_message_indexes_stand_before_a_message(payload: bytes, message: bytes) -> None:
    assert without_message_indexes(payload) == message


@pytest.mark.parametrize("payload", [b"", b"\x04\x02", b"\xff" * 9, b"\x01", b"\xfe\x7f"])
def test_message_indexes_that_make_no_sense_are_refused(payload: bytes) -> None:
    with pytest.raises(UndecodableRecord):
        without_message_indexes(payload)


@pytest.mark.parametrize("value", [b"", b"\0\0\0", b"\x01\0\0\0\x01a"])
def test_a_value_without_the_id_of_a_schema_is_refused(value: bytes) -> None:
    with pytest.raises(UndecodableRecord, match="serializer of the schema registry"):
        framed(value)
