"""The columns of a query, as a Delta table has them."""

import pyarrow as pa
from pyspark.sql import DataFrame

from apportion.spark.errors import NotWritable
from apportion.spark.reading.source_columns import without_load
from apportion.spark.versions import to_utc_arrow_schema

SOURCE_COLUMNS = pa.schema(
    [("topic", pa.string()), ("partition", pa.int32()), ("offset", pa.int64())]
)
"""The columns that say which record a row came from. A pipeline must carry them through
unchanged.
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
    """Return the columns of `frame` as the table has them: nullable, timestamps in UTC.

    The id that the source gives its column offset (`reading/source_columns.py`) is no part of a
    table.

    Raises NotWritable where a column of SOURCE_COLUMNS is missing or has another type.
    """
    refuse_missing_columns(frame)
    schema = to_utc_arrow_schema(without_load(frame.schema))
    for column in SOURCE_COLUMNS:
        if schema.field(column.name).type != column.type:
            raise NotWritable(
                f"the Delta writer needs the source's column {column.name} as "
                f"{column.type}; this query made it "
                f"{schema.field(column.name).type}: keep it unchanged and give the other a "
                "name of its own"
            )
    # Nullable throughout, so that a column added later can be missing in older files.
    return pa.schema([field.with_nullable(True) for field in schema])
