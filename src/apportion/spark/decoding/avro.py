"""Avro: the Spark type of a schema, and values as Spark takes them.

A value is decoded by its writer's schema and resolved to the reader's (fastavro), so that fields
that came or went between the two have their defaults or are left out.
"""

import io
import json
from collections.abc import Callable, Mapping
from datetime import time
from functools import lru_cache
from typing import Any

import fastavro
from confluent_kafka.schema_registry import Schema
from pyspark.sql import types

from apportion.spark.decoding.errors import UndecodableRecord, UnsupportedSchema
from apportion.spark.decoding.framing import framed
from apportion.spark.decoding.registry import SchemaRegistry

ValueConversion = Callable[[Any], Any]
Named = Mapping[str, Any]
"""The schemas of records, enums and fixed, by full name."""

PRIMITIVES: dict[str, types.DataType] = {
    "boolean": types.BooleanType(),
    "int": types.IntegerType(),
    "long": types.LongType(),
    "float": types.FloatType(),
    "double": types.DoubleType(),
    "bytes": types.BinaryType(),
    "fixed": types.BinaryType(),
    "string": types.StringType(),
    "enum": types.StringType(),
}
LOGICAL: dict[str, types.DataType] = {
    "date": types.DateType(),
    "timestamp-millis": types.TimestampType(),
    "timestamp-micros": types.TimestampType(),
    "local-timestamp-millis": types.TimestampNTZType(),
    "local-timestamp-micros": types.TimestampNTZType(),
    "uuid": types.StringType(),
}
WIDER = (({"int", "long"}, "long"), ({"float", "double"}, "double"))
"""Unions of two numbers, and the one that holds both."""


class AvroSchema:
    """An Avro schema with those that it names."""

    def __init__(self, registry: SchemaRegistry, schema: Schema) -> None:
        """Parse the schema, and first those that it refers to. Raises RegistryError."""
        self.named: dict[str, Any] = {}
        self.parsed = self._parse(registry, schema)

    def _parse(self, registry: SchemaRegistry, schema: Schema) -> Any:
        for reference in registry.references(schema):
            self._parse(registry, reference)
        return fastavro.parse_schema(json.loads(schema.schema_str or ""), named_schemas=self.named)

    def spark_type(self) -> types.DataType:
        """Return the type of the decoded column. Raises UnsupportedSchema."""
        return spark_type(self.parsed, self.named)


def spark_type(schema: Any, named: Named, within: tuple[str, ...] = ()) -> types.DataType:
    """Return the Spark type of a part of a schema. Raises UnsupportedSchema.

    within: the names of the records around it.
    """
    if isinstance(schema, list):
        return spark_type(_only_member(schema), named, within)
    if isinstance(schema, str):
        return PRIMITIVES.get(schema) or spark_type(named[schema], named, within)
    kind, logical = schema["type"], schema.get("logicalType")
    if logical == "decimal":
        return types.DecimalType(schema["precision"], schema.get("scale", 0))
    if logical in LOGICAL:
        return LOGICAL[logical]
    match kind:
        case "record" | "error":
            name = schema["name"]
            if name in within:
                raise UnsupportedSchema(f"record {name} contains itself, and no Spark type does")
            return types.StructType(
                [
                    types.StructField(
                        field["name"], spark_type(field["type"], named, (*within, name))
                    )
                    for field in schema["fields"]
                ]
            )
        case "array":
            return types.ArrayType(spark_type(schema["items"], named, within))
        case "map":
            return types.MapType(types.StringType(), spark_type(schema["values"], named, within))
    return PRIMITIVES.get(kind) or spark_type(kind, named, within)


def _only_member(union: list[Any]) -> Any:
    """Return the one type of a union beside null; of two numbers the wider one."""
    members = [member for member in union if member != "null"]
    if len(members) == 1:
        return members[0]
    for numbers, wider in WIDER:
        if all(isinstance(each, str) for each in members) and set(members) == numbers:
            return wider
    shown = ", ".join(each if isinstance(each, str) else each["type"] for each in members)
    raise UnsupportedSchema(f"a union of {shown} has no Spark type: only one of them and null has")


def converter_or_none(schema: Any, named: Named) -> ValueConversion | None:
    """Return the function that makes fastavro's value Spark's; None where it is that already."""
    if isinstance(schema, list):
        return _of_nullable(converter_or_none(_only_member(schema), named))
    if isinstance(schema, str):
        return None if schema in PRIMITIVES else converter_or_none(named[schema], named)
    kind, logical = schema["type"], schema.get("logicalType")
    if logical == "uuid":
        return str
    if logical in ("time-millis", "time-micros"):
        return _millis_of_day if logical == "time-millis" else _micros_of_day
    match kind:
        case "record" | "error":
            return _of_record(
                {
                    field["name"]: convert
                    for field in schema["fields"]
                    if (convert := converter_or_none(field["type"], named)) is not None
                }
            )
        case "array":
            return _of_array(converter_or_none(schema["items"], named))
        case "map":
            return _of_map(converter_or_none(schema["values"], named))
    return None if kind in PRIMITIVES else converter_or_none(kind, named)


def _of_nullable(convert: ValueConversion | None) -> ValueConversion | None:
    return None if convert is None else lambda value: None if value is None else convert(value)


def _of_record(fields: Mapping[str, ValueConversion]) -> ValueConversion | None:
    if not fields:
        return None
    return lambda record: record | {name: convert(record[name]) for name, convert in fields.items()}


def _of_array(convert: ValueConversion | None) -> ValueConversion | None:
    return None if convert is None else lambda values: [convert(value) for value in values]


def _of_map(convert: ValueConversion | None) -> ValueConversion | None:
    if convert is None:
        return None
    return lambda values: {name: convert(value) for name, value in values.items()}


def _micros_of_day(value: time) -> int:
    seconds = (value.hour * 60 + value.minute) * 60 + value.second
    return seconds * 1_000_000 + value.microsecond


def _millis_of_day(value: time) -> int:
    return _micros_of_day(value) // 1_000


class AvroDecoder:
    """The function of a worker that decodes values to one reader's schema."""

    def __init__(self, registry: SchemaRegistry, reader: Schema) -> None:
        """Keep what a worker needs; it parses the schemas itself."""
        self.registry, self.reader = registry, reader

    def __call__(self, value: bytes) -> Any:
        """Return the decoded value. Raises UndecodableRecord."""
        schema_id, payload = framed(value)
        reader, convert = _reader(self.registry, self.reader)
        writer = _writer(self.registry, schema_id)
        try:
            # The named schemas of a parsed one stand inside of it.
            decoded = fastavro.schemaless_reader(io.BytesIO(payload), writer.parsed, reader.parsed)
        except Exception as error:  # fastavro raises whatever its parts do
            raise UndecodableRecord(
                f"schema {schema_id} does not decode the value: {error}"
            ) from None
        return decoded if convert is None else convert(decoded)


@lru_cache(maxsize=64)
def _reader(registry: SchemaRegistry, schema: Schema) -> tuple[AvroSchema, ValueConversion | None]:
    reader = AvroSchema(registry, schema)
    return reader, converter_or_none(reader.parsed, reader.named)


@lru_cache(maxsize=1024)
def _writer(registry: SchemaRegistry, schema_id: int) -> AvroSchema:
    return AvroSchema(registry, registry.by_id(schema_id))
