"""The columns of a Delta table's files: nullable as the table has them, at every depth.

Spark's rows may be null anywhere. That they are not where the table has NOT NULL is checked before
(`row_constraints.py`). What remains are nulls that are none: a field of a struct that is null. A
file must not have them where the field is required, and deltalake's readers take no other file.
"""

from collections.abc import Iterable, Mapping
from typing import Any

import pyarrow as pa


def stored_schema(schema: pa.Schema, fields: Iterable[Mapping[str, Any]]) -> pa.Schema:
    """Return these columns as files of a Delta table have them: what is NOT NULL is required.

    fields: the table's columns, as the JSON of its log has them; others may be null.
    """
    types = {field["name"]: field for field in fields}
    return pa.schema(
        column
        if (field := types.get(column.name)) is None
        else column.with_type(_stored_type(column.type, field["type"])).with_nullable(
            field["nullable"]
        )
        for column in schema
    )


def _stored_type(kind: pa.DataType, delta: Any) -> pa.DataType:
    """Return the Arrow type with the nullability that its Delta type, as JSON, has within it."""
    if isinstance(delta, str):
        return kind
    if delta["type"] == "struct":
        return pa.struct(
            part.with_type(_stored_type(part.type, field["type"])).with_nullable(field["nullable"])
            for part, field in zip(kind.fields, delta["fields"], strict=True)
        )
    if delta["type"] == "array":
        element = _stored_type(kind.value_type, delta["elementType"])
        return pa.list_(kind.value_field.with_type(element).with_nullable(delta["containsNull"]))
    value = _stored_type(kind.item_type, delta["valueType"])
    return pa.map_(
        _stored_type(kind.key_type, delta["keyType"]),
        kind.item_field.with_type(value).with_nullable(delta["valueContainsNull"]),
    )


def with_required_parts(table: pa.Table, schema: pa.Schema) -> pa.Table:
    """Return the table with a schema that differs in nullability alone.

    What becomes required is null only where what it is a part of is null.
    """
    if table.schema.equals(schema):
        return table
    batches = []
    for batch in table.to_batches():
        # A batch that was read from a message has arrays without offsets.
        plain = pa.ipc.read_record_batch(batch.serialize(), batch.schema)
        columns = [
            _as_required(column, field) for column, field in zip(plain.columns, schema, strict=True)
        ]
        batches.append(pa.RecordBatch.from_arrays(columns, schema=schema))
    return pa.Table.from_batches(batches, schema)


def _as_required(array: pa.Array, field: pa.Field) -> pa.Array:
    """Return the array with the type of the field, and without nulls if it is required."""
    kind = field.type
    if array.type == kind and field.nullable:
        return array
    children: list[pa.Array] | None = None
    if pa.types.is_struct(kind):
        children = [
            _as_required(array.field(number), part) for number, part in enumerate(kind.fields)
        ]
    elif pa.types.is_map(kind):
        pairs = [
            _as_required(array.keys, kind.key_field),
            _as_required(array.items, kind.item_field),
        ]
        children = [pa.StructArray.from_arrays(pairs, fields=[kind.key_field, kind.item_field])]
    elif pa.types.is_list(kind):
        children = [_as_required(array.values, kind.value_field)]
    buffers = array.buffers()[: kind.num_buffers]  # those of its parts follow
    if not field.nullable:
        buffers[0] = None  # the bits that say what is null
    return pa.Array.from_buffers(kind, len(array), buffers, children=children)
