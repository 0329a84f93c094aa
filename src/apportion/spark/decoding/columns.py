"""`apportion.spark.decode`: a column of values that a schema registry's serializer wrote."""

import json
from collections.abc import Callable, Mapping, Sequence
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
RECORD = ("topic", "partition", "offset")
"""The columns of the source that say which record a row is."""
NOT_FRAMED = (
    "the value was not written by a serializer of the schema registry: it does not begin with byte "
    "0 and the id of a schema"
)
NO_JSON = "the value is no JSON of the column's type: "
MAX_SHOWN = 100
"""The most characters of a JSON text that an error about it shows."""
MALFORMED = "_malformed"
"""The field in which `from_json` puts a text that does not fit its type."""


def decode(
    column: str | Column,
    registry: str | Mapping[str, Any],
    *,
    subject: str,
    version: int | None = None,
    message: Any = None,
    mode: Mode = "FAILFAST",
    record: Sequence[str | Column] | None = RECORD,
) -> Column:
    """Return the column of the decoded values: a struct, mostly, with the schema's fields.

    column: binary, such as `value`; null stays null. registry: the URL of a schema registry, or the
    settings of confluent-kafka's SchemaRegistryClient. subject: whose schema gives the column its
    type, as of now; `version` pins one. Avro values are resolved to that schema from the one with
    which each was written. message: for Protobuf, the class that protoc has generated, which the
    workers must be able to import. mode: FAILFAST ends the query at a value that cannot be
    decoded, PERMISSIVE makes it null. record: the columns of topic, partition and offset, which
    name the record in an error; None for rows that have none.

    Raises RegistryError, UnsupportedSchema for a schema that has no Spark type, and ValueError for
    arguments that make no sense.
    """
    if mode not in MODES:
        raise ValueError(f"mode {mode!r} is unknown: give FAILFAST or PERMISSIVE")
    named = tuple(record or ())
    if len(named) not in (0, len(RECORD)):
        raise ValueError(
            f"record has {len(named)} columns: give those of topic, partition and offset, or None"
        )
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
            return _by_python(column, AvroDecoder(known, schema), avro_type, mode, named)
        case "JSON":
            from apportion.spark.decoding import json_schema

            parsed = json.loads(schema.schema_str or "")
            json_type = _typed(subject, lambda: json_schema.spark_type(parsed))
            return _by_spark(column, json_type, mode, named)
        case "PROTOBUF":
            from apportion.spark.decoding import protobuf

            protobuf_type = _typed(subject, lambda: protobuf.spark_type(message.DESCRIPTOR))
            decoder = protobuf.ProtobufDecoder(message)
            return _by_python(column, decoder, protobuf_type, mode, named)
    raise ValueError(f"subject {subject!r} is {schema.schema_type}, which is not supported")


def _typed(subject: str, spark_type: Callable[[], types.DataType]) -> types.DataType:
    """Return the type of a subject's column. Raises UnsupportedSchema with the subject's name."""
    try:
        return spark_type()
    except UnsupportedSchema as error:
        raise UnsupportedSchema(f"subject {subject!r}: {error}") from None


def _by_python(
    column: str | Column,
    decoder: Callable[[bytes], Any],
    result: types.DataType,
    mode: Mode,
    record: Sequence[str | Column],
) -> Column:
    """Return the values decoded one by one in Spark's Python workers."""

    def decoded(value: bytes | None, *place: Any) -> Any:
        if value is None:
            return None
        try:
            return decoder(bytes(value))
        except (UndecodableRecord, RegistryError) as error:
            # A registry that does not answer says nothing about the value.
            if mode == "PERMISSIVE" and isinstance(error, UndecodableRecord):
                return None
            with without_traceback():
                raise type(error)(_named(place, str(error))) from None

    return F.udf(decoded, result, useArrow=True)(column, *record)


def _named(place: Sequence[Any], why: str) -> str:
    """Return the text of an error about one record. place: its topic, partition and offset."""
    if not place:
        return why
    topic, partition, offset = place
    return f"{topic}-{partition} at offset {offset}: {why}"


def _by_spark(
    column: str | Column, result: types.DataType, mode: Mode, record: Sequence[str | Column]
) -> Column:
    """Return the JSON behind the schema's id, decoded by Spark itself."""
    values = F.col(column) if isinstance(column, str) else column
    is_framed = (F.length(values) >= PREFIX.size) & (
        F.substring(values, 1, 1) == F.lit(bytes([MAGIC]))
    )
    text = F.substring(values, PREFIX.size + 1, 2**31 - 1).cast("string")
    if mode == "PERMISSIVE":
        decoded = F.from_json(text, result, {"mode": mode})  # type: ignore[arg-type]
        otherwise = F.lit(None)
    else:
        place = [F.col(each) if isinstance(each, str) else each for each in record]
        decoded = _json_or_error(text, result, place)
        otherwise = _error(place, F.lit(NOT_FRAMED))
    return F.when(values.isNull(), F.lit(None)).when(is_framed, decoded).otherwise(otherwise)


def _json_or_error(text: Column, result: types.DataType, record: Sequence[Column]) -> Column:
    """Return a JSON text decoded by Spark, or end the query with an error that names the record.

    Spark's own FAILFAST cannot name it. So every text is decoded in PERMISSIVE mode: of a struct
    it keeps what does not fit in a field of that name, and any other type is null then.
    """
    is_struct = isinstance(result, types.StructType)
    asked = (
        types.StructType([*result.fields, types.StructField(MALFORMED, types.StringType())])
        if isinstance(result, types.StructType)
        else result
    )
    options = {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": MALFORMED}
    parsed = F.from_json(text, asked, options)  # type: ignore[arg-type]

    def checked(value: Column) -> Column:
        is_malformed = (
            value[MALFORMED].isNotNull()
            if is_struct
            else value.isNull() & (F.trim(text) != F.lit("null"))
        )
        error = _error(record, F.concat(F.lit(NO_JSON), F.substring(text, 1, MAX_SHOWN)))
        return F.when(is_malformed, error).otherwise(
            value.dropFields(MALFORMED) if is_struct else value
        )

    # An array of one, because Spark would parse the text once for each mention of the value.
    return F.transform(F.array(parsed), checked)[0]


def _error(record: Sequence[Column], why: Column) -> Column:
    """Return an expression that ends the query with an error about one record."""
    if not record:
        return F.raise_error(why)
    topic, partition, offset = record
    place = (topic, F.lit("-"), partition, F.lit(" at offset "), offset, F.lit(": "))
    return F.raise_error(F.concat_ws("", *(each.cast("string") for each in place), why))
