"""The columns of the source, and the id of a `load()` that one of them carries.

The id is metadata of the column `offset`. Spark keeps it through projections, so the schema of a
batch says from which source its rows came. `queries/planned_batches.py` says what that is for.
"""

import re
from uuid import uuid4

from pyspark.sql.types import ArrayType, StructField, StructType

LOAD_KEY = "apportion.load"


def source_columns(*, include_headers: bool) -> StructType:
    """Return the columns of one `load()`: those of Spark's own Kafka source."""
    columns = (
        StructType()
        .add("key", "binary")
        .add("value", "binary")
        .add("topic", "string")
        .add("partition", "integer")
        .add("offset", "long", metadata={LOAD_KEY: uuid4().hex})
        .add("timestamp", "timestamp")
        .add("timestampType", "integer")
    )
    if include_headers:
        header = StructType().add("key", "string").add("value", "binary")
        columns = columns.add("headers", ArrayType(header))
    return columns


def load_id(schema: StructType) -> str:
    """Return the id of the `load()` from which the column `offset` came; "" if it has none."""
    for field in schema.fields:
        found = field.metadata.get(LOAD_KEY) if field.name == "offset" else None
        # It becomes part of a path, and a program may write any metadata.
        if isinstance(found, str) and re.fullmatch("[0-9a-f]{32}", found):
            return found
    return ""


def without_load(schema: StructType) -> StructType:
    """Return the columns without the id, as a table is to have them."""
    return StructType(
        [
            StructField(
                field.name,
                field.dataType,
                field.nullable,
                {name: value for name, value in field.metadata.items() if name != LOAD_KEY},
            )
            for field in schema.fields
        ]
    )
