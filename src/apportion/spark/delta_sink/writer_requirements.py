"""The requirements of an existing Delta table: the writer meets each, or refuses the table.

deltalake's own writer checks the rows that it writes. Ours puts files beside it and commits them by
deltalake's transaction, which looks at the protocol alone, and after the rows are written. So what
a table requires is decided here, from Delta's protocol document (PROTOCOL.md):

- **Table features.** `FEATURES` says of each whether the writer meets it, and why. A writer version
  below 7 stands for a list of them (`SINCE_WRITER_VERSION`). One that `FEATURES` lacks is refused,
  as Delta requires. They are checked when the writer is made, by `check(rows)`, and in each attempt
  of a batch, since another program may have added one.
- **Constraints on rows**: NOT NULL at every depth, CHECK constraints, column invariants, generated
  columns, and the length of char and varchar, which Spark keeps. Each is a condition in SQL
  (`row_constraints`). Spark evaluates it, in the job that writes the files: the SQL is of Spark's
  dialect, and deltalake's engine would need the rows in the driver. Each condition adds a column of
  booleans to the frame (`with_constraints`), a task refuses the first row of which one is not true,
  and no file of the batch stays. Whether the query has the columns for a condition is known before
  a row is written. A table without constraints costs nothing.
- **Properties** that belong to a feature. Column mapping alone matters to a writer that only adds
  files: without `delta.columnMapping.mode` the files have the names of the columns.

For example, a table of version 3 with `amount int NOT NULL` and the property
`delta.constraints.positive` = `amount > 0` has the features appendOnly, invariants and
checkConstraints, which are met, and two constraints: `amount` IS NOT NULL, and amount > 0.
"""

import json
import re
from collections.abc import Collection, Iterator, Mapping
from typing import Any, NamedTuple

from deltalake import DeltaTable
from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame

from apportion.spark.errors import NotWritable


class Feature(NamedTuple):
    """A table feature of Delta. reason: how the writer meets it, or why it does not."""

    is_met: bool
    reason: str


NOT_IN_DELTALAKE = "deltalake commits to no such table"
FEATURES = {
    "appendOnly": Feature(True, "it only adds rows"),
    "invariants": Feature(True, "each row is checked; a nested NOT NULL, too"),
    "checkConstraints": Feature(True, "each row is checked"),
    "generatedColumns": Feature(True, "the query writes the column, and each value is checked"),
    "changeDataFeed": Feature(True, "readers take the rows of an added file for inserted ones"),
    "columnMapping": Feature(True, "without a mode; with `name` or `id` the table is refused"),
    "timestampNtz": Feature(True, "such columns are written as they are"),
    "deletionVectors": Feature(True, "an added file has none, and those of other files stay"),
    "v2Checkpoint": Feature(True, "deltalake writes the checkpoints"),
    "variantType": Feature(True, "a query may leave such a column out, and cannot write it"),
    "variantType-preview": Feature(True, "as variantType"),
    "identityColumns": Feature(False, "its numbers would have to be given out by the commit"),
    "allowColumnDefaults": Feature(False, NOT_IN_DELTALAKE),
    "rowTracking": Feature(False, "each file would need ids of its rows, given out by the commit"),
    "clustering": Feature(False, "each file would need statistics of the clustering columns"),
    "domainMetadata": Feature(False, NOT_IN_DELTALAKE),
    "inCommitTimestamp": Feature(False, "deltalake writes no such timestamp"),
    "typeWidening": Feature(False, NOT_IN_DELTALAKE),
    "vacuumProtocolCheck": Feature(False, NOT_IN_DELTALAKE),
    "checkpointProtection": Feature(False, NOT_IN_DELTALAKE),
    "materializePartitionColumns": Feature(False, NOT_IN_DELTALAKE),
    "variantShredding": Feature(False, NOT_IN_DELTALAKE),
    "icebergCompatV1": Feature(False, "it requires column mapping"),
    "icebergCompatV2": Feature(False, "it requires column mapping"),
    "icebergCompatV3": Feature(False, "it requires column mapping"),
    "catalogManaged": Feature(False, "its commits go through a catalog"),
}
UNKNOWN = Feature(False, "this version of apportion does not know it")
SINCE_WRITER_VERSION = {
    2: ("appendOnly", "invariants"),
    3: ("checkConstraints",),
    4: ("changeDataFeed", "generatedColumns"),
    5: ("columnMapping",),
    6: ("identityColumns",),
}
LISTED_FEATURES = 7  # the writer version with a list of features, and the last that there is
MAX_READER_VERSION = 3
VOID_PART = re.compile('"(type|elementType|keyType|valueType)": "void"')
ELSEWHERE = "or write to another table"


def refuse_unmet_requirements(path: str, table: DeltaTable) -> None:
    """Raise NotWritable where the table requires of any writer what this one does not do."""
    protocol, metadata = table.protocol(), table.metadata()
    if protocol.min_writer_version > LISTED_FEATURES or (
        protocol.min_reader_version > MAX_READER_VERSION
    ):
        raise NotWritable(
            f"the Delta table {path} has reader version {protocol.min_reader_version} and writer "
            f"version {protocol.min_writer_version}, and this version of apportion knows those up "
            f"to {MAX_READER_VERSION} and {LISTED_FEATURES}: take a newer one, {ELSEWHERE}"
        )
    features = {
        name: FEATURES.get(name, UNKNOWN)
        for name in _features(protocol.min_writer_version, protocol.writer_features or ())
    }
    if unmet := [f"{name} ({each.reason})" for name, each in features.items() if not each.is_met]:
        raise NotWritable(
            f"the Delta table {path} has table features that the Delta writer does not support: "
            f"{', '.join(unmet)}. Drop them from the table, {ELSEWHERE}"
        )
    mode = metadata.configuration.get("delta.columnMapping.mode", "none")
    if mode != "none":
        raise NotWritable(
            f"the Delta table {path} has delta.columnMapping.mode={mode}, so its files name "
            "columns otherwise than the table does, and the Delta writer's files do not: set the "
            f"mode to none where that can be done, {ELSEWHERE}"
        )
    if partitioned := metadata.partition_columns:
        raise NotWritable(
            f"the Delta table {path} is partitioned by "
            f"{', '.join(partitioned)}, but the writer makes a file for each Kafka partition: "
            "write to a table that is not partitioned"
        )
    for field in _fields(table):
        # Such a column has no place in files, and where it is all of a value Delta forbids them.
        if field["type"] != "void" and VOID_PART.search(json.dumps(field["type"])):
            raise NotWritable(
                f"the Delta table {path} has the type void within column {field['name']}, which "
                f"the Delta writer does not support: change the column's type, {ELSEWHERE}"
            )


def _features(writer_version: int, listed: Collection[str]) -> list[str]:
    """Return the names of the table features that a table requires of its writers."""
    if writer_version == LISTED_FEATURES:
        return sorted(listed)
    return [
        name
        for since, names in SINCE_WRITER_VERSION.items()
        if since <= writer_version
        for name in names
    ]


def _fields(table: DeltaTable) -> list[dict[str, Any]]:
    """Return the columns of a Delta table as its log has them."""
    fields: list[dict[str, Any]] = json.loads(table.schema().to_json())["fields"]
    return fields


class Constraint(NamedTuple):
    """A requirement of a Delta table on each of its rows.

    text: as an error names it. condition: in Spark's SQL; the row has it where this is true, and
    neither false nor null.
    """

    text: str
    condition: str


def row_constraints(path: str, table: DeltaTable, columns: Collection[str]) -> list[Constraint]:
    """Return what the table requires of each row of a query with these columns.

    Raises NotWritable where the query leaves out a column without which no row can have it.
    """
    checks = [
        Constraint(f"CHECK {key.removeprefix('delta.constraints.')} ({expression})", expression)
        for key, expression in sorted(table.metadata().configuration.items())
        if key.startswith("delta.constraints.")
    ]
    of_columns = (
        constraint
        for field in _fields(table)
        for constraint in _column_constraints(path, field, is_written=field["name"] in columns)
    )
    return [*checks, *of_columns]


def _column_constraints(
    path: str, field: Mapping[str, Any], *, is_written: bool
) -> Iterator[Constraint]:
    """Yield the constraints of one column of the Delta table."""
    name, kind, metadata = field["name"], field["type"], field["metadata"]
    value = f"`{name.replace('`', '``')}`"
    generated = metadata.get("delta.generationExpression")
    if not is_written:
        if generated is not None:
            raise _left_out(path, f"{name} GENERATED ALWAYS AS ({generated})")
        if not field["nullable"]:
            raise _left_out(path, f"{name} NOT NULL")
    else:
        if not field["nullable"]:
            yield Constraint(f"{name} NOT NULL", f"{value} IS NOT NULL")
        if within := _condition_within(value, kind):
            yield Constraint(f"NOT NULL within {name}", within)
        if generated is not None:
            text = f"{name} GENERATED ALWAYS AS ({generated})"
            yield Constraint(text, f"{value} <=> ({generated}\n)")
        if length := metadata.get("__CHAR_VARCHAR_TYPE_STRING"):
            yield _length_constraint(path, name, value, length)
    if invariant := metadata.get("delta.invariants"):
        yield _invariant(path, name, invariant)


def _left_out(path: str, text: str) -> NotWritable:
    """Return the error for a query without a column that each row of the Delta table must have."""
    return NotWritable(
        f"the Delta table {path} requires {text}, and this query leaves the column out: add it to "
        f"the query, {ELSEWHERE}"
    )


def _condition_within(value: str, kind: Any, depth: int = 0) -> str:
    """Return the SQL that is true where nothing within a value is null against its Delta type.

    Empty where everything may be null. depth: of the lambdas around it.
    """
    if isinstance(kind, str):
        return ""
    if kind["type"] == "struct":
        parts = []
        for field in kind["fields"]:
            part = f"{value}.`{field['name'].replace('`', '``')}`"
            if not field["nullable"]:
                parts.append(f"{part} IS NOT NULL")
            parts.append(_condition_within(part, field["type"], depth))
        inner = " AND ".join(filter(None, parts))
    elif kind["type"] == "array":
        item = f"item{depth}"
        is_there = "" if kind["containsNull"] else f"{item} IS NOT NULL"
        deeper = _condition_within(item, kind["elementType"], depth + 1)
        each = " AND ".join(filter(None, (is_there, deeper)))
        inner = each and f"forall({value}, {item} -> {each})"
    else:
        keys = {"type": "array", "elementType": kind["keyType"], "containsNull": True}
        values = {
            "type": "array",
            "elementType": kind["valueType"],
            "containsNull": kind["valueContainsNull"],
        }
        parts = [
            _condition_within(f"map_keys({value})", keys, depth),
            _condition_within(f"map_values({value})", values, depth),
        ]
        inner = " AND ".join(filter(None, parts))
    return inner and f"({value} IS NULL OR ({inner}))"


def _invariant(path: str, name: str, text: str) -> Constraint:
    """Return the constraint of a column's `delta.invariants`, which is JSON."""
    try:
        expression = json.loads(text)["expression"]["expression"]
    except (ValueError, KeyError, TypeError):
        raise NotWritable(
            f"the Delta table {path} has an invariant of column {name} that cannot be read "
            f"({text}): remove it from the table, {ELSEWHERE}"
        ) from None
    return Constraint(f"the invariant ({expression}) of column {name}", expression)


def _length_constraint(path: str, name: str, value: str, text: str) -> Constraint:
    """Return the constraint of a column that Spark made as char(n) or varchar(n)."""
    parsed = re.fullmatch(r"(var)?char\((\d+)\)", text)
    if parsed is None:
        raise NotWritable(
            f"the Delta table {path} has column {name} as {text}, and the Delta writer checks no "
            f"lengths within a column: leave it out of the query, {ELSEWHERE}"
        )
    compared = "<=" if parsed[1] else "="  # a char is padded to its length
    condition = f"{value} IS NULL OR char_length({value}) {compared} {parsed[2]}"
    return Constraint(f"{text} of column {name}", condition)


def with_constraints(path: str, frame: DataFrame, constraints: list[Constraint]) -> DataFrame:
    """Return the frame with one more column for each constraint, at its end: whether it is true.

    Raises NotWritable where Spark cannot evaluate it on the frame's columns.
    """
    columns = [
        # On a line of its own, since the expression may end in a comment.
        f"coalesce(({constraint.condition}\n), false) AS apportion_constraint_{number}"
        for number, constraint in enumerate(constraints)
    ]
    try:
        return _analysed(frame.selectExpr("*", *columns))
    except AnalysisException:
        for constraint, column in zip(constraints, columns, strict=True):
            _refuse_unevaluable(path, frame, constraint, column)
        raise


def _refuse_unevaluable(path: str, frame: DataFrame, constraint: Constraint, column: str) -> None:
    """Raise NotWritable where Spark cannot evaluate this constraint on the frame's columns."""
    try:
        _analysed(frame.selectExpr(column))
    except AnalysisException as error:
        raise NotWritable(
            f"the Delta table {path} requires {constraint.text}, which Spark cannot evaluate "
            f"on the columns of this query ({str(error).splitlines()[0]}): add to the query "
            f"the columns that it names, {ELSEWHERE}"
        ) from None


def _analysed(frame: DataFrame) -> DataFrame:
    """Return the frame; Spark Connect analyses it when its schema is asked for."""
    frame.schema  # noqa: B018
    return frame
