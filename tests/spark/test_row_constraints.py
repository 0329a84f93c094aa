"""What a Delta table requires of each of its rows holds for those that the writer adds."""

import subprocess
import sys
from typing import Any

import pytest
from deltalake import DeltaTable
from pyspark.sql import DataFrame, SparkSession

from apportion.member.batch.span import sorted_span
from apportion.spark.delta import Writer
from apportion.spark.delta_sink.columns import table_schema
from apportion.spark.delta_sink.files import OffsetWindow, PartFileWriter
from apportion.spark.delta_sink.row_constraints import Constraint
from apportion.spark.delta_sink.table import Fit
from apportion.spark.delta_sink.uncommitted_files import UncommittedFiles
from apportion.spark.errors import NotWritable
from apportion.spark.queries.introspection import SourceReading
from tests.spark.delta_tables import commit, field, legacy, metadata
from tests.spark.error_page import assert_on_page
from tests.spark.micro_batches import P0, orphans, rows, write

AMOUNT = field("amount", "integer")
LINES = {"type": "array", "elementType": "string", "containsNull": False}
POINT = {"type": "struct", "fields": [field("x", "integer", nullable=False)]}
POINTS = {"type": "map", "keyType": "string", "valueType": POINT, "valueContainsNull": False}


def column(path: str, name: str = "amount") -> list[Any]:
    table = DeltaTable(path).to_pyarrow_table()
    return [row[name] for row in table.sort_by("offset").to_pylist()]


def refused_batch(path: str, frame: DataFrame) -> str:
    """Why the batch is refused, of which nothing is left; the check of the query lets it pass."""
    Writer(path).check(frame)
    version = DeltaTable(path).version()
    with pytest.raises(NotWritable) as refused:
        write(path, frame)
    assert (DeltaTable(path).version(), orphans(path)) == (version, [])
    assert_on_page("a row that breaks a constraint of its table", refused.value)
    return str(refused.value)


def refused_query(path: str, frame: DataFrame) -> str:
    """Why the query is refused before it begins, and its batch before a row is written."""
    version = DeltaTable(path).version()
    with pytest.raises(NotWritable) as refused:
        Writer(path).check(frame)
    with pytest.raises(NotWritable) as of_batch:
        write(path, frame)
    assert (str(of_batch.value), DeltaTable(path).version()) == (str(refused.value), version)
    assert orphans(path) == []
    return str(refused.value)


def computed(spark: SparkSession, first: str, second: str) -> DataFrame:
    """Two records whose values are known to the tasks alone, as those of a topic are."""
    amount = f"cast(if(id = 0, {first}, {second}) as int) amount"
    return spark.range(2).selectExpr("'t' topic", "0 partition", "id offset", amount)


def test_a_null_in_a_column_that_is_not_null_is_refused_with_its_record(
    path: str, spark: SparkSession
) -> None:
    commit(path, 0, legacy(2), metadata(field("amount", "integer", nullable=False)))
    said = refused_batch(path, rows(spark, "1", "null", "3"))
    assert said.startswith("t-0, offset 1: the row breaks amount NOT NULL of the Delta table")
    write(path, rows(spark, "1", "2"))
    assert column(path) == [1, 2]


@pytest.mark.parametrize(
    ("kind", "kept", "broken"),
    [
        (LINES, "split('a b', ' ')", "from_json('[null]', 'array<string>')"),
        (LINES, "cast(null as array<string>)", "array('a', null)"),
        (POINT, "named_struct('x', 1)", "named_struct('x', cast(null as int))"),
        (
            POINTS,
            "map('a', named_struct('x', 1))",
            "map('a', named_struct('x', 1), 'b', named_struct('x', cast(null as int)))",
        ),
        (
            {"type": "array", "elementType": POINTS, "containsNull": True},
            "array(null, map('a', named_struct('x', 1)))",
            "array(map('a', named_struct('x', cast(null as int))))",
        ),
    ],
)
def test_a_null_within_a_value_is_refused_where_the_table_has_none(
    path: str, spark: SparkSession, kind: object, kept: str, broken: str
) -> None:
    commit(path, 0, legacy(2), metadata(field("amount", kind)))
    said = refused_batch(path, rows(spark, kept, broken))
    assert "t-0, offset 1: the row breaks NOT NULL within amount of the" in said
    write(path, rows(spark, kept, kept))
    assert len(column(path)) == 2


def test_a_query_without_a_column_that_is_not_null_is_refused(
    path: str, spark: SparkSession
) -> None:
    commit(path, 0, legacy(2), metadata(field("amount", "integer", nullable=False)))
    said = refused_query(path, rows(spark, "1", name="n"))
    assert_on_page("a column that is NOT NULL and left out", said)


@pytest.mark.parametrize("broken", ["-5", "cast(null as int)"])
def test_a_row_that_a_check_constraint_is_not_true_of_is_refused(
    path: str, spark: SparkSession, broken: str
) -> None:
    commit(path, 0, legacy(3), metadata(AMOUNT, constraints__positive="amount > 0"))
    said = refused_batch(path, rows(spark, "1", broken))
    assert "t-0, offset 1: the row breaks CHECK positive (amount > 0) of" in said
    write(path, rows(spark, "1"))
    assert column(path) == [1]


@pytest.mark.parametrize(
    ("condition", "broken"),
    [
        ("10 / amount <> 3", "0"),
        ("amount * 2 > 0", "2000000000"),
        ("cast(concat('1', amount) as tinyint) > 0 -- a comment", "999"),
        ("forall(array(5, 7), item -> item / amount > 0)", "0"),
    ],
)
def test_a_row_of_which_a_condition_cannot_be_evaluated_breaks_it(
    path: str, spark: SparkSession, condition: str, broken: str
) -> None:
    # Two, since Spark evaluates what conditions have in common before any of them.
    also = f"{condition.partition(' --')[0]} or amount < -5"
    commit(path, 0, legacy(3), metadata(AMOUNT, constraints__a=condition, constraints__b=also))
    said = refused_batch(path, computed(spark, "1", broken))
    assert f"t-0, offset 1: the row breaks CHECK a ({condition}) of" in said
    write(path, rows(spark, "1"))
    assert column(path) == [1]


def test_a_row_of_which_a_generated_column_cannot_be_computed_is_refused(
    path: str, spark: SparkSession
) -> None:
    twice = field("twice", "integer", delta__generationExpression="amount * 2")
    commit(path, 0, legacy(4), metadata(AMOUNT, twice))
    frame = computed(spark, "4", "2000000000").selectExpr("*", "if(amount = 4, 8, null) as twice")
    said = refused_batch(path, frame)
    assert "offset 1: the row breaks twice GENERATED ALWAYS AS (amount * 2) of" in said


def test_a_row_that_a_column_invariant_is_not_true_of_is_refused(
    path: str, spark: SparkSession
) -> None:
    invariant = '{"expression": {"expression": "amount > 3"}}'
    commit(path, 0, legacy(2), metadata(field("amount", "integer", delta__invariants=invariant)))
    said = refused_batch(path, rows(spark, "4", "3"))
    assert "t-0, offset 1: the row breaks the invariant (amount > 3) of column amount of" in said
    write(path, rows(spark, "4"))
    assert column(path) == [4]


def test_an_invariant_that_cannot_be_read_is_refused(path: str, spark: SparkSession) -> None:
    commit(path, 0, legacy(2), metadata(field("amount", "integer", delta__invariants="{}")))
    assert_on_page("an invariant that cannot be read", refused_query(path, rows(spark, "1")))


def test_a_generated_column_must_be_written_with_what_its_expression_gives(
    path: str, spark: SparkSession
) -> None:
    twice = field("twice", "integer", delta__generationExpression="amount * 2")
    commit(path, 0, legacy(4), metadata(AMOUNT, twice))
    assert_on_page("a generated column that is left out", refused_query(path, rows(spark, "1")))
    wrong = rows(spark, "1", "2").selectExpr("*", "if(offset = 0, 2, 99) as twice")
    said = refused_batch(path, wrong)
    assert "offset 1: the row breaks twice GENERATED ALWAYS AS (amount * 2) of" in said
    write(path, rows(spark, "4", "cast(null as int)").selectExpr("*", "amount * 2 as twice"))
    assert column(path, "twice") == [8, None]


def test_a_text_that_is_too_long_for_its_column_is_refused(path: str, spark: SparkSession) -> None:
    short = {"__CHAR_VARCHAR_TYPE_STRING": "varchar(2)"}
    commit(path, 0, legacy(2), metadata(field("amount", "string") | {"metadata": short}))
    said = refused_batch(path, rows(spark, "'ab'", "'abc'"))
    assert "t-0, offset 1: the row breaks varchar(2) of column amount of" in said
    write(path, rows(spark, "'ab'", "null"))
    assert column(path) == ["ab", None]


def test_a_constraint_that_the_query_has_no_columns_for_is_refused(
    path: str, spark: SparkSession
) -> None:
    commit(path, 0, legacy(3), metadata(AMOUNT, constraints__positive="amount > 0"))
    frame = rows(spark, "1", name="n")
    assert_on_page("a constraint that the query has no columns for", refused_query(path, frame))


@pytest.mark.parametrize(
    ("condition", "reason"),
    [
        ("amount >>> )", "[PARSE_SYNTAX_ERROR] Syntax error at or near ')'"),
        ("no_such_function(amount) > 0", "[UNRESOLVED_ROUTINE] Cannot resolve routine"),
        ("amount", "it is int and no condition"),
        ("amount > date'2026-01-01'", "[DATATYPE_MISMATCH.BINARY_OP_DIFF_TYPES] Cannot resolve"),
        ("sum(amount) > 0", "["),
    ],
)
def test_a_constraint_that_spark_cannot_evaluate_is_refused_with_the_reason(
    path: str, spark: SparkSession, condition: str, reason: str
) -> None:
    commit(path, 0, legacy(3), metadata(AMOUNT, constraints__positive=condition))
    said = refused_query(path, rows(spark, "1"))
    assert_on_page("a constraint that Spark cannot evaluate", said)
    assert f"requires CHECK positive ({condition}), which Spark cannot evaluate of" in said
    assert f"row ({reason}" in said
    assert "SQLSTATE" not in said


def test_a_generated_column_of_an_unknown_function_is_refused_with_the_reason(
    path: str, spark: SparkSession
) -> None:
    twice = field("twice", "integer", delta__generationExpression="no_such_function(amount)")
    commit(path, 0, legacy(4), metadata(AMOUNT, twice))
    said = refused_query(path, rows(spark, "1").selectExpr("*", "2 as twice"))
    assert_on_page("a constraint that Spark cannot evaluate", said)


def test_a_constraint_that_cannot_be_evaluated_is_refused_without_java(path: str) -> None:
    commit(path, 0, legacy(3), metadata(AMOUNT, constraints__positive="nothing > 0"))
    program = (
        "import sys\n"
        "from pyspark.sql import SparkSession\n"
        "from apportion.spark.delta import Writer\n"
        "spark = SparkSession.builder.master('local[1]').getOrCreate()\n"
        "rows = spark.sql(\"select 't' topic, 0 partition, 0L offset, 1 amount\")\n"
        "try: Writer(sys.argv[1]).check(rows)\n"
        "except ValueError as error: print(error)\n"
        "try: spark.sql('select no_such_column')\n"
        "except Exception: print('others', file=sys.stderr)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, path], capture_output=True, text=True, timeout=120
    )
    assert_on_page("a constraint that the query has no columns for", done.stdout)
    assert "nothing" not in done.stderr
    assert "no_such_column" in done.stderr  # what others do wrong is logged as before


def test_rows_that_were_written_before_a_constraint_came_are_checked_against_it(
    path: str, spark: SparkSession
) -> None:
    commit(path, 0, legacy(3), metadata(AMOUNT))
    frame = rows(spark, "1", "-5")
    schema = table_schema(frame)
    files = UncommittedFiles(frame, PartFileWriter(path, None, schema, {}))
    windows = {P0.topic_partition: OffsetWindow(0, 0, 2)}
    files.adapt_to(Fit([], [], schema))
    assert [file.rows for file in files.fit_to_fences(windows)] == [1, 1]
    files.adapt_to(Fit([], [Constraint("CHECK positive (amount > 0)", "amount > 0")], schema))
    with pytest.raises(NotWritable, match="t-0, offset 1: the row breaks CHECK positive"):
        files.fit_to_fences(windows)
    assert orphans(path) == []


def test_rows_that_the_table_has_are_not_checked_again(path: str, spark: SparkSession) -> None:
    commit(path, 0, legacy(3), metadata(AMOUNT))
    write(path, rows(spark, "-1"))
    commit(path, 2, metadata(AMOUNT, constraints__positive="amount > 0"))
    frame = rows(spark, "-1", "2")
    Writer(path).write(frame, [SourceReading("g", sorted_span("a", {P0: (0, 11)}))])
    assert column(path) == [-1]
