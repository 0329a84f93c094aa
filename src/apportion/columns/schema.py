"""The columns of Spark's Kafka source as Arrow's."""

import pyarrow as pa

HEADER_TYPE = pa.list_(
    pa.field("element", pa.struct([("key", pa.string()), ("value", pa.binary())]))
)
TIME_TYPE = pa.timestamp("us", "UTC")
SCHEMA = pa.schema(
    [
        ("key", pa.binary()),
        ("value", pa.binary()),
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("timestamp", TIME_TYPE),
        ("timestampType", pa.int32()),
    ]
)
SCHEMA_WITH_HEADERS = SCHEMA.append(pa.field("headers", HEADER_TYPE))
MAX_TIMESTAMP_MS = (1 << 63) // 1000 - 1
"""The last time that fits Arrow's timestamp in microseconds."""
