"""`apportion.spark.decode`: a column of values that a schema registry's serializer wrote."""

import json
from collections.abc import Callable, Mapping
from typing import Any, Literal

from pyspark.sql import Column, types
from pyspark.sql import functions as F

from apportion.exports import install_command
from apportion.spark.decoding.errors import RegistryError, UndecodableRecord, UnsupportedSchema
from apportion.spark.decoding.framing import MAGIC, PREFIX
from apportion.spark.processes.plain_errors import without_traceback

EXTRA = "registry"
Mode = Literal["FAILFAST", "PERMISSIVE"]
MODES = ("FAILFAST", "PERMISSIVE")
NOT_FRAMED = (
    "a value was not written by a serializer of the schema registry: it does not begin with byte 0 "
    "and the id of a schema"
)


def decode(
    column: str | Column,
    registry: str | Mapping[str, Any],
    *,
    subject: str,
    version: int | None = None,
    message: Any = None,
    mode: Mode = "FAILFAST",
) -> Column:
    """Return the column of the decoded values: a struct, mostly, with the schema's fields.

    column: binary, such as `value`; null stays null. registry: the URL of a schema registry, or the
    settings of confluent-kafka's SchemaRegistryClient. subject: whose schema gives the column its
    type, as of now; `version` pins one. Avro values are resolved to that schema from the one with
    which each was written. message: for Protobuf, the class that protoc has generated, which the
    workers must be able to import. mode: FAILFAST ends the query at a value that cannot be
    decoded, PERMISSIVE makes it null.

    Raises RegistryError, UnsupportedSchema for a schema that has no Spark type, and ValueError for
    arguments that make no sense.
    """
    if mode not in MODES:
        raise ValueError(f"mode {mode!r} is unknown: give FAILFAST or PERMISSIVE")
    try:
        from apportion.spark.decoding.registry import SchemaRegistry
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(
            f"No module named {error.name!r}: {install_command(EXTRA)}", name=error.name
        ) from error
    known = SchemaRegistry.at(registry)
    schema = known.registered(subject, version).schema
    if (message is not None) != (schema.schema_type == "PROTOBUF"):
        raise ValueError(
            f"subject {subject!r} is {schema.schema_type}: "
            + (
                "give the class that protoc has generated, as message=..."
                if message is None
                else "leave message=... out"
            )
        )
    match schema.schema_type:
        case "AVRO":
            from apportion.spark.decoding.avro import AvroDecoder, AvroSchema

            avro_type = _typed(subject, AvroSchema(known, schema).spark_type)
            return _by_python(column, AvroDecoder(known, schema), avro_type, mode)
        case "JSON":
            from apportion.spark.decoding import json_schema

            parsed = json.loads(schema.schema_str or "")
            json_type = _typed(subject, lambda: json_schema.spark_type(parsed))
            return _by_spark(column, json_type, mode)
        case "PROTOBUF":
            from apportion.spark.decoding import protobuf

            protobuf_type = _typed(subject, lambda: protobuf.spark_type(message.DESCRIPTOR))
            return _by_python(column, protobuf.ProtobufDecoder(message), protobuf_type, mode)
    raise ValueError(f"subject {subject!r} is {schema.schema_type}, which is not supported")


def _typed(subject: str, spark_type: Callable[[], types.DataType]) -> types.DataType:
    """Return the type of a subject's column. Raises UnsupportedSchema with the subject's name."""
    try:
        return spark_type()
    except UnsupportedSchema as error:
        raise UnsupportedSchema(f"subject {subject!r}: {error}") from None


def _by_python(
    column: str | Column, decoder: Callable[[bytes], Any], result: types.DataType, mode: Mode
) -> Column:
    """Return the values decoded one by one in Spark's Python workers."""

    def decoded(value: bytes | None) -> Any:
        if value is None:
            return None
        try:
            return decoder(bytes(value))
        except (UndecodableRecord, RegistryError) as error:
            # A registry that does not answer says nothing about the value.
            if mode == "PERMISSIVE" and isinstance(error, UndecodableRecord):
                return None
            with without_traceback():
                raise error from None

    return F.udf(decoded, result, useArrow=True)(column)


def _by_spark(column: str | Column, result: types.DataType, mode: Mode) -> Column:
    """Return the JSON behind the schema's id, decoded by Spark itself."""
    values = F.col(column) if isinstance(column, str) else column
    is_framed = (F.length(values) >= PREFIX.size) & (
        F.substring(values, 1, 1) == F.lit(bytes([MAGIC]))
    )
    text = F.substring(values, PREFIX.size + 1, 2**31 - 1).cast("string")
    decoded = F.from_json(text, result, {"mode": mode})  # type: ignore[arg-type]
    otherwise = F.raise_error(NOT_FRAMED) if mode == "FAILFAST" else F.lit(None)
    return F.when(values.isNull(), F.lit(None)).when(is_framed, decoded).otherwise(otherwise)
