"""The columns of a write to a topic: which there are, and the records that rows are.

The names and types are those of Spark's own Kafka sink. Other columns are not written, as there.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

import pyarrow as pa
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    IntegerType,
    StringType,
    StructType,
)

from apportion.spark.errors import PlainError

BY_KEY = -1
"""The partition of a record that the partitioner places."""
NO_TOPIC = (
    'no row says its topic: set the option topic, as in .option("topic", "flights"), or give '
    "the rows a column topic"
)

RecordHeaders = list[tuple[str, bytes | None]]
OutgoingRecord = tuple[str, int, bytes | None, bytes | None, RecordHeaders | None]
"""Topic, partition, key, value and headers; a plain tuple, as there are very many."""


class NotWritten(PlainError, RuntimeError):
    """Records cannot be written to their topic; the text says why, and what to do."""


def _is_text_or_bytes(kind: DataType) -> bool:
    return isinstance(kind, StringType | BinaryType)


def _is_headers(kind: DataType) -> bool:
    if not isinstance(kind, ArrayType) or not isinstance(kind.elementType, StructType):
        return False
    fields = {field.name: field.dataType for field in kind.elementType}
    return (
        len(kind.elementType) == len(fields) == 2
        and isinstance(fields.get("key"), StringType)
        and isinstance(fields.get("value"), BinaryType)
    )


class ColumnType(NamedTuple):
    """The types that a column of a write may have.

    words: for people.
    """

    fits: Callable[[DataType], bool]
    words: str


COLUMN_TYPES = {
    "key": ColumnType(_is_text_or_bytes, "string or binary"),
    "value": ColumnType(_is_text_or_bytes, "string or binary"),
    "topic": ColumnType(lambda kind: isinstance(kind, StringType), "string"),
    "partition": ColumnType(lambda kind: isinstance(kind, IntegerType), "int"),
    "headers": ColumnType(_is_headers, "array<struct<key: string, value: binary>>"),
}


class ColumnPlaces(NamedTuple):
    """The places of a write's columns among those of its rows; None for those that it lacks.

    fixed_topic: of every record, by the option; None where each row names its own.
    """

    fixed_topic: str | None
    key: int | None
    value: int
    topic: int | None
    partition: int | None
    headers: int | None


def record_columns(schema: StructType, fixed_topic: str | None) -> ColumnPlaces:
    """Return the columns of a write. Raises NotWritten for missing, doubled and wrong ones."""
    places: dict[str, int] = {}
    for place, field in enumerate(schema.fields):
        if field.name not in COLUMN_TYPES:
            _refuse_other_case(field.name)
            continue
        wanted = COLUMN_TYPES[field.name]
        if field.name in places:
            raise NotWritten(f"there are two columns {field.name}: drop one")
        if not wanted.fits(field.dataType):
            raise NotWritten(
                f"column {field.name} is {field.dataType.simpleString()} and must be "
                f"{wanted.words}: cast it, or rename it if it is not the record's {field.name}"
            )
        places[field.name] = place
    if "value" not in places:
        names = ", ".join(schema.fieldNames()) or "none"
        raise NotWritten(
            f"there is no column value, which is what a record holds (the columns are {names}): "
            'make one, as in df.selectExpr("to_json(struct(*)) AS value")'
        )
    if fixed_topic is None and "topic" not in places:
        raise NotWritten(NO_TOPIC)
    return ColumnPlaces(
        fixed_topic,
        places.get("key"),
        places["value"],
        None if fixed_topic is not None else places["topic"],
        places.get("partition"),
        places.get("headers"),
    )


def _refuse_other_case(name: str) -> None:
    """Raise NotWritten for a name that differs from a record's column in case alone.

    To Spark, such names are mostly the same: their column would be missing without a word.
    """
    if name.lower() in COLUMN_TYPES:
        raise NotWritten(f"column {name} must be spelt {name.lower()}: rename it, or drop it")


def records_of_batch(batch: pa.RecordBatch, columns: ColumnPlaces) -> Iterator[OutgoingRecord]:
    """Return the records of an Arrow batch of rows. Raises NotWritten for a row that is none."""

    def values(place: int | None, kind: pa.DataType) -> list[Any]:
        if place is None:
            return [None] * batch.num_rows
        return batch.column(place).cast(kind).to_pylist()  # type: ignore[no-any-return]

    headers = [None] * batch.num_rows
    if columns.headers is not None:
        headers = batch.column(columns.headers).to_pylist()
    return _records(
        zip(
            values(columns.topic, pa.string()),
            values(columns.partition, pa.int32()),
            values(columns.key, pa.binary()),
            values(columns.value, pa.binary()),
            headers,
            strict=True,
        ),
        columns.fixed_topic,
    )


def records_of_rows(rows: Iterable[Any], columns: ColumnPlaces) -> Iterator[OutgoingRecord]:
    """Yield the records of Spark's rows, for a Spark that writes no stream from Arrow."""

    def value(row: Any, place: int | None) -> Any:
        return None if place is None else row[place]

    def as_bytes(found: Any) -> bytes | None:
        if found is None:
            return None
        return found.encode() if isinstance(found, str) else bytes(found)

    return _records(
        (
            (
                value(row, columns.topic),
                value(row, columns.partition),
                as_bytes(value(row, columns.key)),
                as_bytes(value(row, columns.value)),
                value(row, columns.headers),
            )
            for row in rows
        ),
        columns.fixed_topic,
    )


def _records(rows: Iterable[tuple[Any, ...]], fixed_topic: str | None) -> Iterator[OutgoingRecord]:
    """Yield the record of each row, which has topic, partition, key, value and headers."""
    for row_topic, partition, key, value, headers in rows:
        topic = row_topic if fixed_topic is None else fixed_topic
        if not topic:
            kind = "null" if topic is None else "empty"
            raise NotWritten(
                f"column topic is {kind} in a row: fill it or filter the row out, or set the "
                "option topic"
            )
        if partition is not None and partition < 0:
            raise NotWritten(
                f"topic {topic}: column partition is {partition} in a row: partitions begin at 0; "
                "null leaves the choice to the partitioner"
            )
        place = BY_KEY if partition is None else partition
        yield topic, place, key, value, None if headers is None else _headers(topic, headers)


def _headers(topic: str, headers: Iterable[Any]) -> RecordHeaders:
    """Return a record's headers. Raises NotWritten for one without a key."""
    found: RecordHeaders = []
    for header in headers:
        if header is None or header["key"] is None:
            raise NotWritten(
                f"topic {topic}: column headers has {'null' if header is None else 'a null key'} "
                "in a row: a header needs a key; its value may be null"
            )
        value = header["value"]
        found.append((header["key"], None if value is None else bytes(value)))
    return found
