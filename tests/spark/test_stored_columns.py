"""A file has the columns of its table with the table's nullability, and all readers take it."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable
from pyspark.sql import SparkSession

from apportion.spark.delta_sink.stored_columns import stored_schema
from tests.spark.delta_tables import commit, field, legacy, metadata
from tests.spark.micro_batches import rows, write

POINT = {"type": "struct", "fields": [field("a", "long", nullable=False), field("b", "integer")]}
POINTS = {"type": "array", "elementType": POINT, "containsNull": False}
NAMED = {"type": "map", "keyType": "string", "valueType": POINT, "valueContainsNull": False}
DEEP = {"type": "struct", "fields": [field("p", POINT, nullable=False), field("q", POINTS)]}
ONE = "named_struct('a', 1L, 'b', cast(null as int))"
POINT_OF_ARROW = pa.struct([pa.field("a", pa.int64(), nullable=False), pa.field("b", pa.int32())])


@pytest.mark.parametrize(
    ("kind", "sql", "value", "stored"),
    [
        (POINT, ONE, {"a": 1, "b": None}, POINT_OF_ARROW),
        (
            POINTS,
            f"array({ONE})",
            [{"a": 1, "b": None}],
            pa.list_(pa.field("element", POINT_OF_ARROW, nullable=False)),
        ),
        (
            NAMED,
            f"map('k', {ONE})",
            [("k", {"a": 1, "b": None})],
            pa.map_(pa.string(), pa.field("value", POINT_OF_ARROW, nullable=False)),
        ),
        (
            DEEP,
            f"named_struct('p', {ONE}, 'q', array({ONE}))",
            {"p": {"a": 1, "b": None}, "q": [{"a": 1, "b": None}]},
            pa.struct(
                [
                    pa.field("p", POINT_OF_ARROW, nullable=False),
                    pa.field("q", pa.list_(pa.field("element", POINT_OF_ARROW, nullable=False))),
                ]
            ),
        ),
    ],
    ids=["struct", "array", "map", "deep"],
)
def test_a_null_around_a_field_that_is_not_null_is_read_back_by_all(
    path: str, spark: SparkSession, kind: object, sql: str, value: object, stored: pa.DataType
) -> None:
    commit(path, 0, legacy(2), metadata(field("amount", kind)))
    nothing = f"if(true, null, {sql})"
    write(path, rows(spark, sql, nothing, sql))
    opened = DeltaTable(path)
    table = opened.to_pyarrow_table().sort_by("offset")
    assert table.column("amount").to_pylist() == [value, None, value]
    for file in Path(path).glob("*.parquet"):
        assert pq.read_schema(file).field("amount").type == stored
    read = spark.read.parquet(*opened.file_uris()).orderBy("offset").selectExpr("to_json(amount) j")
    texts: list[Any] = [row.j for row in read.collect()]
    assert (texts[1], texts[0] is None, texts[0]) == (None, False, texts[2])


def test_a_column_that_is_not_null_is_required_in_the_file(path: str, spark: SparkSession) -> None:
    commit(path, 0, legacy(2), metadata(field("amount", "integer", nullable=False)))
    write(path, rows(spark, "1"))
    (file,) = Path(path).glob("*.parquet")
    names = pq.read_schema(file)
    assert [each.name for each in names if not each.nullable] == ["amount"]


def test_a_column_that_the_table_lacks_may_be_null(path: str) -> None:
    columns = pa.schema([("id", pa.int64()), ("new", pa.int64())])
    assert stored_schema(columns, [field("id", "long", nullable=False)]) == pa.schema(
        [pa.field("id", pa.int64(), nullable=False), pa.field("new", pa.int64())]
    )
