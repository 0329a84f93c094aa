"""The requirements of a Delta table on its rows, as conditions in Spark's SQL.

They are NOT NULL at every depth, CHECK constraints, column invariants, generated columns, and the
length of char and varchar, which Spark keeps. Spark evaluates them in the job that writes the
files (`uncommitted_files.py`): the SQL is of Spark's dialect, and deltalake's engine would need the
rows in the driver. A task refuses the first row of which one is not true, and no file of the batch
stays. Whether the query has the columns for a condition is known before a row is written. A table
without constraints costs nothing.

For example, a table with `amount int NOT NULL` and the property `delta.constraints.positive` =
`amount > 0` has two constraints: `amount` IS NOT NULL, and amount > 0.
"""

import json
import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from apportion.spark.errors import ELSEWHERE, NotWritable


class Constraint(NamedTuple):
    """A requirement of a Delta table on each of its rows.

    text: as an error names it. condition: in Spark's SQL; the row has it where this is true, and
    neither false nor null.
    """

    text: str
    condition: str


def row_constraints(
    path: str,
    fields: Iterable[Mapping[str, Any]],
    properties: Mapping[str, str],
    columns: Collection[str],
) -> list[Constraint]:
    """Return what the table requires of each row of a query with these columns.

    fields: the table's columns, as the JSON of its log has them. properties: the table's.
    Raises NotWritable where the query leaves out a column without which no row can have it.
    """
    checks = [
        Constraint(f"CHECK {key.removeprefix('delta.constraints.')} ({expression})", expression)
        for key, expression in sorted(properties.items())
        if key.startswith("delta.constraints.")
    ]
    of_columns = (
        constraint
        for field in fields
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
