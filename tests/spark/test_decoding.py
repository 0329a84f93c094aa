"""Values of a schema registry, by the official serializers, become Spark columns."""

import json
import re
from typing import Any

import pytest
from confluent_kafka.schema_registry import Schema, SchemaRegistryClient
from confluent_kafka.schema_registry.json_schema import JSONSerializer
from confluent_kafka.schema_registry.protobuf import ProtobufSerializer
from google.protobuf import any_pb2, type_pb2
from pyspark.errors import PythonException, SparkRuntimeException
from pyspark.sql import Row, SparkSession
from pyspark.sql import functions as F

from apportion.spark.decoding.columns import decode
from apportion.spark.decoding.errors import RegistryError
from apportion.spark.decoding.registry import SchemaRegistry
from tests.spark.schema_registry import Registry, at, avro_bytes

V1 = {
    "type": "record",
    "name": "Flight",
    "namespace": "air",
    "fields": [
        {"name": "carrier", "type": "string"},
        {"name": "delay", "type": ["null", "int"]},
        {"name": "gate", "type": "string"},
    ],
}
V2 = V1 | {
    "fields": [
        {"name": "carrier", "type": "string"},
        {"name": "delay", "type": ["null", "long"]},
        {"name": "seats", "type": "int", "default": 100},
    ]
}
PROTO = 'syntax = "proto3"; message M {}'
JSON_FLIGHT = {
    "title": "Flight",
    "type": "object",
    "properties": {
        "carrier": {"type": "string"},
        "delay": {"type": ["integer", "null"]},
        "crew": {"type": "array", "items": {"type": "string"}},
    },
}


SOURCE = "value binary, topic string, partition int, offset bigint"
"""Columns that the rows of the source have."""


def of_values(spark: SparkSession, values: list[bytes | None]) -> Any:
    """Rows of the source, at the offsets from 40 on."""
    rows = [(value, "flights", 3, 40 + number) for number, value in enumerate(values)]
    return spark.createDataFrame(rows, SOURCE).coalesce(1)


# on Spark


def test_avro_values_of_every_version_have_the_columns_of_one(
    spark: SparkSession, registry: Registry, client: SchemaRegistryClient
) -> None:
    old = avro_bytes(client, "air-value", V1, {"carrier": "UA", "delay": 3, "gate": "B2"})
    new = avro_bytes(client, "air-value", V2, {"carrier": "DL", "delay": None, "seats": 9})
    frame = of_values(spark, [old, new, None])
    latest = frame.select(decode("value", registry.url, subject="air-value").alias("f"))
    assert latest.schema.simpleString() == "struct<f:struct<carrier:string,delay:bigint,seats:int>>"
    assert [row.f for row in latest.collect()] == [
        Row(carrier="UA", delay=3, seats=100),
        Row(carrier="DL", delay=None, seats=9),
        None,
    ]
    first = of_values(spark, [old]).select(
        decode("value", {"url": registry.url}, subject="air-value", version=1).alias("f")
    )
    assert first.collect() == [Row(f=Row(carrier="UA", delay=3, gate="B2"))]


def test_json_values_are_decoded_by_the_subjects_schema(
    spark: SparkSession, registry: Registry, client: SchemaRegistryClient
) -> None:
    write = JSONSerializer(json.dumps(JSON_FLIGHT), client)
    values = [
        write({"carrier": "UA", "delay": 3, "crew": ["a", "b"]}, at("json-value")),
        write({"carrier": "DL", "delay": None}, at("json-value")),
        None,
    ]
    decoded = of_values(spark, values).select(
        decode("value", registry.url, subject="json-value").alias("f")
    )
    assert [row.f for row in decoded.collect()] == [
        Row(carrier="UA", delay=3, crew=["a", "b"]),
        Row(carrier="DL", delay=None, crew=None),
        None,
    ]


def test_protobuf_values_are_decoded_by_their_class(
    spark: SparkSession, registry: Registry, client: SchemaRegistryClient
) -> None:
    write = ProtobufSerializer(type_pb2.Field, client, {"use.deprecated.format": False})
    field = type_pb2.Field(name="carrier", number=7, kind=type_pb2.Field.TYPE_STRING)
    field.options.add(name="deprecated", value=any_pb2.Any(type_url="t", value=b"\x01"))
    value = write(field, at("proto-value"))
    (row,) = (
        of_values(spark, [value])
        .select(
            decode("value", registry.url, subject="proto-value", message=type_pb2.Field).alias("f")
        )
        .select("f.name", "f.number", "f.kind", "f.packed", "f.options")
        .collect()
    )
    option = Row(name="deprecated", value=Row(type_url="t", value=bytearray(b"\x01")))
    assert row == Row(name="carrier", number=7, kind="TYPE_STRING", packed=False, options=[option])


NOT_FRAMED = "was it written by a serializer of the schema registry?"


@pytest.mark.parametrize(
    ("kind", "bad", "why"),
    [
        ("AVRO", b"no schema", f"the value begins with byte 110, not with 0: {NOT_FRAMED}"),
        ("AVRO", b"\0", f"the value has 1 bytes, and the id of its schema takes 5: {NOT_FRAMED}"),
        ("AVRO", b"\0\0\0\0\x4d", "no schema of id 77"),
        ("PROTOBUF", b"no schema", f"the value begins with byte 110, not with 0: {NOT_FRAMED}"),
        ("PROTOBUF", b"\0\0\0\0\1", "the value ends within its message indexes"),
        ("JSON", b"no schema", "the value was not written by a serializer of the schema registry"),
        ("JSON", b"\0\0\0\0\1{", "the value is no JSON of the column's type: {"),
        ("JSON", b'\0\0\0\0\1{"delay": "x"}', 'no JSON of the column\'s type: {"delay": "x"}'),
    ],
)
def test_an_error_about_a_value_names_its_record(
    spark: SparkSession,
    registry: Registry,
    client: SchemaRegistryClient,
    kind: str,
    bad: bytes,
    why: str,
) -> None:
    schemas = {"AVRO": json.dumps(V1), "JSON": json.dumps(JSON_FLIGHT), "PROTOBUF": PROTO}
    client.register_schema("bad-value", Schema(schemas[kind], kind))
    message = type_pb2.Field if kind == "PROTOBUF" else None
    frame = of_values(spark, [None, bad])
    decoded = decode("value", registry.url, subject="bad-value", message=message)
    with pytest.raises((PythonException, SparkRuntimeException)) as ended:
        frame.select(decoded).collect()
    assert re.search(f"flights-3 at offset 41: .*{re.escape(why)}", str(ended.value))


def test_a_value_that_cannot_be_decoded_is_null_where_that_is_wanted(
    spark: SparkSession, registry: Registry, client: SchemaRegistryClient
) -> None:
    client.register_schema("bad-value", Schema(json.dumps(V1), "AVRO"))
    client.register_schema("worse-value", Schema(json.dumps(JSON_FLIGHT), "JSON"))
    frame = of_values(spark, [b"no schema"])
    for subject in ("bad-value", "worse-value"):
        lenient = decode("value", registry.url, subject=subject, mode="PERMISSIVE").alias("f")
        assert frame.select(lenient).collect() == [Row(f=None)]


def test_json_of_an_array_is_decoded_or_names_its_record(
    spark: SparkSession, registry: Registry, client: SchemaRegistryClient
) -> None:
    client.register_schema(
        "list-value", Schema('{"type":"array","items":{"type":"integer"}}', "JSON")
    )
    decoded = decode("value", registry.url, subject="list-value").alias("f")
    good = of_values(spark, [b"\0\0\0\0\1[1, 2]", b"\0\0\0\0\1 null"])
    assert good.select(decoded).collect() == [Row(f=[1, 2]), Row(f=None)]
    with pytest.raises(SparkRuntimeException, match="flights-3 at offset 40: the value is no JSON"):
        of_values(spark, [b"\0\0\0\0\1[1, "]).select(decoded).collect()


def test_rows_without_the_columns_of_a_record_are_decoded_without_naming_any(
    spark: SparkSession, registry: Registry, client: SchemaRegistryClient
) -> None:
    value = avro_bytes(client, "plain-value", V1, {"carrier": "UA", "delay": 3, "gate": "B2"})
    frame = of_values(spark, [value, b"no schema"]).select(F.col("value").alias("v"), "offset")
    decoded = decode("v", registry.url, subject="plain-value", record=None).alias("f")
    assert frame.select(decoded).first() == Row(f=Row(carrier="UA", delay=3, gate="B2"))
    with pytest.raises(PythonException, match="UndecodableRecord: the value begins with byte 110"):
        frame.select(decoded).collect()
    named = decode(
        "v",
        registry.url,
        subject="plain-value",
        record=(F.lit("renamed"), F.lit(1), "offset"),
    )
    with pytest.raises(PythonException, match="UndecodableRecord: renamed-1 at offset 41: the v"):
        frame.select(named).collect()


# arguments


def test_a_subject_that_is_not_there_is_named(registry: Registry) -> None:
    with pytest.raises(RegistryError) as refused:
        decode("value", registry.url, subject="nowhere")
    assert str(refused.value) == (
        f"the schema registry {registry.url} says 40401: not found: no schema of subject "
        "'nowhere', version latest; see that the name of the subject is right (for the values of a "
        "topic it is mostly the topic's with -value) and that the version is registered there"
    )


def test_an_id_that_is_not_there_is_of_another_registry(registry: Registry) -> None:
    with pytest.raises(RegistryError) as refused:
        SchemaRegistry.at(registry.url).by_id(77)
    assert str(refused.value) == (
        f"the schema registry {registry.url} says 40403: not found: no schema of id 77; give "
        "decode the registry with which the records were written"
    )


@pytest.mark.parametrize(
    ("status", "remedy"),
    [
        (401, "give decode the login of somebody who may read there, as basic.auth.user.info"),
        (403, "give decode the login of somebody who may read there, as basic.auth.user.info"),
        (422, "see the log of the registry"),
    ],
)
def test_a_registry_that_refuses_is_told_with_a_remedy(
    registry: Registry, monkeypatch: pytest.MonkeyPatch, status: int, remedy: str
) -> None:
    monkeypatch.setattr(registry, "refuses_with", status)
    with pytest.raises(RegistryError) as refused:
        decode("value", registry.url, subject="flights-value")
    assert str(refused.value) == (
        f"the schema registry {registry.url} says {status}: refused: no schema of subject "
        f"'flights-value', version latest; {remedy}"
    )


def test_a_registry_that_does_not_answer_is_named() -> None:
    settings = {"url": "http://127.0.0.1:1", "max.retries": 0}
    with pytest.raises(RegistryError) as refused:
        decode("value", settings, subject="flights-value")
    said = str(refused.value)
    assert said.startswith("the schema registry http://127.0.0.1:1 cannot be asked (")
    assert said.endswith(
        "): no schema of subject 'flights-value', version latest; see that it runs and can be "
        "reached from this host, or give another url"
    )


def test_settings_that_make_no_sense_are_refused() -> None:
    with pytest.raises(RegistryError, match=r"settings are wrong: .+; give its URL, or"):
        decode("value", {"url": "http://127.0.0.1:1", "no.such": "1"}, subject="s")


def test_a_message_class_is_given_for_protobuf_alone(
    registry: Registry, client: SchemaRegistryClient
) -> None:
    client.register_schema("a-value", Schema(json.dumps(V1), "AVRO"))
    client.register_schema("p-value", Schema(PROTO, "PROTOBUF"))
    with pytest.raises(ValueError, match=r"'a-value' is AVRO: leave message=\.\.\. out"):
        decode("value", registry.url, subject="a-value", message=type_pb2.Field)
    with pytest.raises(ValueError, match="'p-value' is PROTOBUF: give the class"):
        decode("value", registry.url, subject="p-value")
    with pytest.raises(ValueError, match="record has 2 columns: give those of topic, partition"):
        decode("value", registry.url, subject="a-value", record=("topic", "offset"))
    with pytest.raises(ValueError, match="mode 'lax' is unknown"):
        decode("value", registry.url, subject="a-value", mode="lax")  # type: ignore[arg-type]


def test_a_registrys_secrets_are_in_no_repr() -> None:
    known = SchemaRegistry.at({"url": "http://r", "basic.auth.user.info": "etl:secret"})
    assert repr(known) == "SchemaRegistry('http://r')"
