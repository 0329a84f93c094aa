"""The columns of a query, as its table has them; those that no table can have are refused."""

from pathlib import Path

import pytest
from deltalake import DeltaTable
from pyspark.sql import SparkSession

from apportion.spark.delta import Writer
from apportion.spark.errors import NotWritable
from tests.spark.delta_tables import commit, field, legacy, metadata
from tests.spark.error_page import assert_on_page
from tests.spark.micro_batches import batch, rows, write


def test_a_new_table_may_be_null_at_every_depth(path: str, spark: SparkSession) -> None:
    for first, later in (
        ("split('a b', ' ')", "from_json('[null]', 'array<string>')"),
        ("named_struct('x', 1)", "from_json('{}', 'x int')"),
        ("map('a', 1)", "map('a', cast(null as int))"),
    ):
        place = f"{path}-{len(first)}"
        write(place, rows(spark, first))
        frame = rows(spark, first, later)
        Writer(place).check(frame)
        write(place, frame, "h")
        assert DeltaTable(place).count() == 3


@pytest.mark.parametrize(
    ("value", "kind"),
    [
        ("null", "void"),
        ("array(named_struct('x', null))", "void"),
        ("parse_json('1')", "variant"),
        ("interval 1 day", "interval day"),
    ],
)
def test_a_type_that_a_table_cannot_hold_is_refused_before_there_is_a_table(
    path: str, spark: SparkSession, value: str, kind: str
) -> None:
    for attempt in (
        lambda: Writer(path).check(rows(spark, value)),
        lambda: write(path, rows(spark, value)),
    ):
        with pytest.raises(NotWritable) as refused:
            attempt()
        assert f"is {kind}, " in str(refused.value)
        assert_on_page("a column of a type that Delta does not have", refused.value)
    assert not Path(path).exists()


@pytest.mark.parametrize(
    "names",
    [
        "1 flightNo, 2 FlightNo",
        "1 flightNo, 2 flightNo",
        "array(named_struct('flightNo', 1, 'FlightNo', 2)) flights",
    ],
)
def test_names_that_differ_in_case_alone_are_refused_before_there_is_a_table(
    path: str, spark: SparkSession, names: str
) -> None:
    frame = spark.sql(f"select 't' topic, 0 partition, 0L offset, {names}")
    for attempt in (lambda: Writer(path).check(frame), lambda: write(path, frame)):
        with pytest.raises(NotWritable) as refused:
            attempt()
        assert_on_page("columns whose names differ in case alone", refused.value)
    assert not Path(path).exists()


def test_a_column_that_the_table_has_in_other_case_is_refused(path: str) -> None:
    commit(path, 0, legacy(2), metadata(field("City", "string")))
    with pytest.raises(NotWritable) as refused:
        batch(Writer(path), (0, 0, 2))
    assert_on_page("a column that the table has in other case", refused.value)


@pytest.mark.parametrize(
    ("kind", "value", "names"),
    [
        ({"type": "struct", "fields": [field("a", "integer")]}, "named_struct('A', 1)", "A"),
        (
            {
                "type": "array",
                "elementType": {"type": "struct", "fields": [field("a", "integer")]},
                "containsNull": True,
            },
            "array(named_struct('A', 1))",
            "A",
        ),
    ],
)
def test_a_field_that_the_table_has_in_other_case_is_refused(
    path: str, spark: SparkSession, kind: object, value: str, names: str
) -> None:
    commit(path, 0, legacy(2), metadata(field("s", kind)))
    frame = rows(spark, value, name="s")
    for attempt in (lambda: Writer(path).check(frame), lambda: write(path, frame)):
        with pytest.raises(NotWritable) as refused:
            attempt()
        assert_on_page("a column that the table has in other case", refused.value)
        assert f"has the column s.a, the query writes s.{names}, and" in str(refused.value)


def test_a_field_of_another_type_is_refused_for_its_type(path: str, spark: SparkSession) -> None:
    kind = {"type": "struct", "fields": [field("a", "integer")]}
    commit(path, 0, legacy(2), metadata(field("s", kind)))
    with pytest.raises(NotWritable) as refused:
        Writer(path).check(rows(spark, "named_struct('A', 1L)", name="s"))
    assert_on_page("a column that has another type in the table", refused.value)


@pytest.mark.parametrize("is_new", [True, False])
@pytest.mark.parametrize(
    ("column", "said"),
    [
        ("1 `a b`", "column a b of this query has ' ' in its name"),
        ("1 `f(x=1)`", "column f(x=1) of this query has '(' and ')' and '=' in its name"),
        ("1 `a,b;c`", "column a,b;c of this query has ',' and ';' in its name"),
        ("1 `a\tb`", "column a\tb of this query has '\\t' in its name"),
        ("named_struct('{x}', 1) s", "column s.{x} of this query has '{' and '}' in its name"),
        ("map('k', array(named_struct('x y', 1))) m", "column m.x y of this query has ' ' in"),
    ],
)
def test_a_new_column_whose_name_delta_forbids_is_refused_before_a_row_is_written(
    path: str, spark: SparkSession, column: str, said: str, is_new: bool
) -> None:
    if not is_new:
        commit(path, 0, legacy(2), metadata())
    before = sorted(Path(path).rglob("*"))
    frame = spark.sql(f"select 't' topic, 0 partition, 0L offset, {column}")
    for attempt in (lambda: Writer(path).check(frame), lambda: write(path, frame)):
        with pytest.raises(NotWritable) as refused:
            attempt()
        assert_on_page("a new column whose name Delta forbids", refused.value)
        assert str(refused.value).startswith(said)
    assert sorted(Path(path).rglob("*")) == before


def test_a_column_that_the_table_has_is_written_whatever_its_name(
    path: str, spark: SparkSession
) -> None:
    commit(path, 0, legacy(2), metadata(field("a b", "integer")))
    write(path, rows(spark, "1", name="`a b`"))
    assert DeltaTable(path).to_pyarrow_table().column("a b").to_pylist() == [1]
