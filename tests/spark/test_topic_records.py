"""The columns of a write, and the records that rows are, from Arrow and from Spark's rows."""

from collections.abc import Mapping
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import Row
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from apportion.spark.topic_sink.records import (
    ColumnPlaces,
    NotWritten,
    record_columns,
    records_of_batch,
    records_of_rows,
)

TEXT, BYTES, INT, LONG = StringType(), BinaryType(), IntegerType(), LongType()
HEADERS = ArrayType(StructType().add("key", TEXT).add("value", BYTES))
TEXT_HEADERS = ArrayType(StructType().add("key", TEXT).add("value", TEXT))
ALL = {"key": TEXT, "value": BYTES, "topic": TEXT, "partition": INT, "headers": HEADERS}
OWN_TOPIC = ColumnPlaces(None, 0, 1, 2, 3, 4)


def columns(types: Mapping[str, DataType], topic: str | None = None) -> ColumnPlaces:
    fields = [StructField(name, kind) for name, kind in types.items()]
    return record_columns(StructType(fields), topic)


def batch(**values: list[Any]) -> pa.RecordBatch:
    types = {
        "key": pa.string(),
        "value": pa.binary(),
        "topic": pa.string(),
        "partition": pa.int32(),
        "headers": pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())])),
    }
    return pa.record_batch(
        [pa.array(column, types[name]) for name, column in values.items()], names=list(values)
    )


def test_the_columns_are_found_wherever_they_stand() -> None:
    assert columns(ALL) == OWN_TOPIC
    assert columns(
        {"offset": LONG, "topic": TEXT, "value": TEXT, "timestamp": TimestampType()}
    ) == (ColumnPlaces(None, None, 2, 1, None, None))


def test_the_option_goes_before_the_column() -> None:
    assert columns({"value": TEXT}, "flights") == ColumnPlaces("flights", None, 0, None, None, None)
    assert columns(ALL, "flights") == OWN_TOPIC._replace(fixed_topic="flights", topic=None)


@pytest.mark.parametrize(
    ("types", "said"),
    [
        (
            {"key": TEXT, "topic": TEXT},
            "there is no column value, which is what a record holds (the columns are key, topic): "
            'make one, as in df.selectExpr("to_json(struct(*)) AS value")',
        ),
        (
            {"value": TEXT},
            "no row says its topic: set the option topic, as in "
            '.option("topic", "flights"), or give the rows a column topic',
        ),
        (
            {"value": INT, "topic": TEXT},
            "column value is int and must be string or binary: cast it, or rename it if it is not "
            "the record's value",
        ),
        (
            {"value": TEXT, "topic": BYTES},
            "column topic is binary and must be string: cast it, or rename it if it is not the "
            "record's topic",
        ),
        (
            {"value": TEXT, "topic": TEXT, "partition": LONG},
            "column partition is bigint and must be int: cast it, or rename it if it is not the "
            "record's partition",
        ),
        (
            {"value": TEXT, "topic": TEXT, "headers": TEXT_HEADERS},
            "column headers is array<struct<key:string,value:string>> and must be "
            "array<struct<key: string, value: binary>>: cast it, or rename it if it is not the "
            "record's headers",
        ),
        (
            {"value": TEXT, "topic": TEXT, "headers": MapType(TEXT, BYTES)},
            "column headers is map<string,binary> and must be "
            "array<struct<key: string, value: binary>>: cast it, or rename it if it is not the "
            "record's headers",
        ),
        (
            {"Key": TEXT, "value": TEXT, "topic": TEXT},
            "column Key must be spelt key: rename it, or drop it",
        ),
    ],
)
def test_wrong_columns_are_refused_with_the_remedy(
    types: Mapping[str, DataType], said: str
) -> None:
    with pytest.raises(NotWritten) as refused:
        columns(types)
    assert str(refused.value) == said


def test_a_column_that_is_there_twice_is_refused() -> None:
    with pytest.raises(NotWritten) as refused:
        record_columns(StructType().add("value", TEXT).add("value", BYTES), "flights")
    assert str(refused.value) == "there are two columns value: drop one"


def test_rows_become_the_same_records_from_arrow_and_from_spark() -> None:
    header = [{"key": "h", "value": b"1"}, {"key": "h", "value": None}]
    arrow = batch(
        key=["k", "", None],
        value=[b"v", None, b""],
        topic=["t", "u", "t"],
        partition=[None, 3, 0],
        headers=[header, None, []],
    )
    rows = [
        ("k", bytearray(b"v"), "t", None, [Row(key="h", value=b"1"), Row(key="h", value=None)]),
        ("", None, "u", 3, None),
        (None, b"", "t", 0, []),
    ]
    expected = [
        ("t", -1, b"k", b"v", [("h", b"1"), ("h", None)]),
        ("u", 3, b"", None, None),
        ("t", 0, None, b"", []),
    ]
    assert list(records_of_batch(arrow, OWN_TOPIC)) == expected
    assert list(records_of_rows(rows, OWN_TOPIC)) == expected


def test_a_fixed_topic_is_that_of_every_row() -> None:
    fixed = columns({"value": BYTES}, "flights")
    arrow = batch(value=[b"a", b"b"])
    expected = [("flights", -1, None, b"a", None), ("flights", -1, None, b"b", None)]
    assert list(records_of_batch(arrow, fixed)) == expected
    assert list(records_of_rows([Row("a"), Row("b")], fixed)) == expected


def test_text_is_written_as_utf_8() -> None:
    arrow = pa.record_batch([pa.array(["é"]), pa.array(["ü"], pa.large_string())], ["key", "value"])
    record = ("t", -1, "é".encode(), "ü".encode(), None)
    fixed = columns({"key": TEXT, "value": TEXT}, "t")
    assert list(records_of_batch(arrow, fixed)) == [record]
    assert list(records_of_rows([Row("é", "ü")], fixed)) == [record]


@pytest.mark.parametrize(
    ("row", "said"),
    [
        (
            {"topic": None},
            "column topic is null in a row: fill it or filter the row out, or set the option topic",
        ),
        (
            {"topic": ""},
            "column topic is empty in a row: fill it or filter the row out, or set the option "
            "topic",
        ),
        (
            {"partition": -1},
            "topic t: column partition is -1 in a row: partitions begin at 0; null leaves the "
            "choice to the partitioner",
        ),
        (
            {"headers": [None]},
            "topic t: column headers has null in a row: a header needs a key; its value may be "
            "null",
        ),
        (
            {"headers": [{"key": None, "value": b"1"}]},
            "topic t: column headers has a null key in a row: a header needs a key; its value may "
            "be null",
        ),
    ],
)
def test_a_row_that_is_no_record_is_refused(row: dict[str, Any], said: str) -> None:
    whole = {"key": "k", "value": b"v", "topic": "t", "partition": 0, "headers": [], **row}
    for records in (
        records_of_batch(batch(**{name: [value] for name, value in whole.items()}), OWN_TOPIC),
        records_of_rows([tuple(whole.values())], OWN_TOPIC),
    ):
        with pytest.raises(NotWritten) as refused:
            list(records)
        assert str(refused.value) == said
