"""The columns of the source, and the id of a load() that one of them carries."""

from typing import Any

import pytest
from pyspark.sql.types import LongType, StructField, StructType

from apportion.spark.reading.source_columns import LOAD_KEY, load_id, source_columns, without_load

NAMES = ["key", "value", "topic", "partition", "offset", "timestamp", "timestampType"]


@pytest.mark.parametrize("include_headers", [False, True])
def test_the_columns_are_those_of_sparks_own_kafka_source(include_headers: bool) -> None:
    columns = source_columns(include_headers=include_headers)
    kafka = {
        "key": "binary",
        "value": "binary",
        "topic": "string",
        "partition": "int",
        "offset": "bigint",
        "timestamp": "timestamp",
        "timestampType": "int",
        **({"headers": "array<struct<key:string,value:binary>>"} if include_headers else {}),
    }
    assert {field.name: field.dataType.simpleString() for field in columns} == kafka


def test_each_load_has_an_id_of_its_own_that_the_column_offset_carries() -> None:
    first, second = (source_columns(include_headers=False) for _ in range(2))
    assert load_id(first) != load_id(second)
    assert {field.name: field.metadata for field in first} == {
        **{name: {} for name in NAMES},
        "offset": {LOAD_KEY: load_id(first)},
    }
    through_json = StructType.fromJson(first.jsonValue())
    assert load_id(through_json) == load_id(first)


@pytest.mark.parametrize(
    "metadata", [{}, {LOAD_KEY: 7}, {LOAD_KEY: "../*"}, {LOAD_KEY: "A" * 32}, {"other": "a" * 32}]
)
def test_metadata_that_is_no_id_of_a_load_counts_as_none(metadata: dict[str, Any]) -> None:
    assert load_id(StructType([StructField("offset", LongType(), True, metadata)])) == ""


def test_a_table_has_the_metadata_that_a_program_gives_and_not_the_id() -> None:
    metadata = {"comment": "of Kafka"}
    carried = StructType([StructField("offset", LongType(), False, {**metadata, LOAD_KEY: "a"})])
    assert without_load(carried) == StructType([StructField("offset", LongType(), False, metadata)])
