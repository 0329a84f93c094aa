"""The columns of a query, as a Delta table has them."""

from collections.abc import Iterable

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    DataType,
    DateType,
    DecimalType,
    FractionalType,
    IntegralType,
    MapType,
    StringType,
    StructType,
    TimestampNTZType,
    TimestampType,
    UserDefinedType,
)

from apportion.spark.errors import NotWritable
from apportion.spark.reading.source_columns import without_load
from apportion.spark.versions import to_utc_arrow_schema

SOURCE_COLUMNS = pa.schema(
    [("topic", pa.string()), ("partition", pa.int32()), ("offset", pa.int64())]
)
"""The columns that say which record a row came from. A pipeline must carry them through
unchanged.
"""
STORED_TYPES = (
    IntegralType,
    FractionalType,
    DecimalType,
    BooleanType,
    StringType,
    BinaryType,
    DateType,
    TimestampType,
    TimestampNTZType,
)
"""The types without parts that Delta has and Arrow brings as they are.

Not void: Delta never stores its values, and no string could follow it. Not VARIANT: Arrow has it as
a struct of two binaries, and a table would have that.
"""

FORBIDDEN_IN_NAMES = " ,;{}()\n\t="
"""What Parquet's schemas use between names. Programs of Delta refuse a new column with one of these
in its name, unless the table maps columns to other names in its files; deltalake does not.
"""


def refuse_missing_columns(frame: DataFrame) -> None:
    """Raise NotWritable where a column of SOURCE_COLUMNS is missing."""
    missing = [name for name in SOURCE_COLUMNS.names if name not in frame.columns]
    if missing:
        raise NotWritable(
            "the Delta writer needs the source's columns topic, partition and offset to "
            f"write each record once; this query dropped {', '.join(missing)}: keep them, as in "
            '.select("topic", "partition", "offset", ...)'
        )


def table_schema(frame: DataFrame) -> pa.Schema:
    """Return the columns of `frame` as a new table has them: nullable throughout, times in UTC.

    The id that the source gives its column offset (`reading/source_columns.py`) is no part of a
    table.

    Raises NotWritable where a column of SOURCE_COLUMNS is missing or has another type, and where no
    table can have such columns.
    """
    refuse_missing_columns(frame)
    _refuse_equal_names("", frame.columns)
    for field in frame.schema.fields:
        _refuse_foreign_types(field.name, field.dataType)
    # Nullable at every depth, as Spark's own tables are: a column that is added later is missing in
    # older files, and where one expression is never null the next version's may be.
    schema = to_utc_arrow_schema(without_load(frame.schema).toNullable())
    for column in SOURCE_COLUMNS:
        if schema.field(column.name).type != column.type:
            raise NotWritable(
                f"the Delta writer needs the source's column {column.name} as "
                f"{column.type}; this query made it "
                f"{schema.field(column.name).type}: keep it unchanged and give the other a "
                "name of its own"
            )
    return schema


def refuse_forbidden_names(columns: pa.Schema) -> None:
    """Raise NotWritable where a Delta table without column mapping can have no such column.

    columns: those that the table does not have yet.
    """
    for column in columns:
        _refuse_forbidden_name(column.name, column)


def _refuse_forbidden_name(path: str, column: pa.Field) -> None:
    """Raise NotWritable where the name of this column or of a field in it is forbidden."""
    if found := [each for each in FORBIDDEN_IN_NAMES if each in column.name]:
        raise NotWritable(
            f"column {path} of this query has {' and '.join(map(repr, found))} in its name, which "
            "a Delta table without column mapping cannot have: rename it in the query"
        )
    kind = column.type
    if pa.types.is_struct(kind):
        for part in kind.fields:
            _refuse_forbidden_name(f"{path}.{part.name}", part)
    elif pa.types.is_map(kind):  # its parts, and those of a list, have names of Arrow's own
        _refuse_forbidden_name(path, kind.key_field)
        _refuse_forbidden_name(path, kind.item_field)
    elif pa.types.is_list(kind):
        _refuse_forbidden_name(path, kind.value_field)


def _refuse_foreign_types(column: str, kind: DataType) -> None:
    """Raise NotWritable where a column has a part that a Delta table cannot hold."""
    match kind:
        case StructType():
            _refuse_equal_names(f"{column}.", kind.names)
            for field in kind.fields:
                _refuse_foreign_types(f"{column}.{field.name}", field.dataType)
        case ArrayType():
            _refuse_foreign_types(column, kind.elementType)
        case MapType():
            _refuse_foreign_types(column, kind.keyType)
            _refuse_foreign_types(column, kind.valueType)
        case UserDefinedType():
            _refuse_foreign_types(column, kind.sqlType())
        case _ if not isinstance(kind, STORED_TYPES):
            raise NotWritable(
                f"column {column} of this query is {kind.simpleString()}, which the Delta writer "
                "cannot store: cast it to another type in the query, such as string, or drop it"
            )


def _refuse_equal_names(parent: str, names: Iterable[str]) -> None:
    """Raise NotWritable for two names that Delta takes for one. parent: what stands before them."""
    by_lower_case: dict[str, str] = {}
    for name in names:
        if name.lower() in by_lower_case:
            raise NotWritable(
                f"this query has the columns {parent}{by_lower_case[name.lower()]} and "
                f"{parent}{name}, and a Delta table does not tell upper from lower case: rename "
                "one of them, or drop it"
            )
        by_lower_case[name.lower()] = name
