"""JSON Schema: the Spark type of a schema. Spark itself decodes the values by it (`from_json`).

A part of a schema that leaves the type open becomes a string, which holds the JSON text of that
part.
"""

from collections.abc import Mapping
from typing import Any

from pyspark.sql import types

from apportion.spark.decoding.errors import UnsupportedSchema

SCALARS: dict[str, types.DataType] = {
    "boolean": types.BooleanType(),
    "integer": types.LongType(),
    "number": types.DoubleType(),
    "string": types.StringType(),
}
JSON_TEXT = types.StringType()


def spark_type(schema: Any) -> types.DataType:
    """Return the Spark type of a whole schema. Raises UnsupportedSchema."""
    found = _type_of(schema, schema, ())
    if isinstance(found, types.StructType | types.ArrayType | types.MapType):
        return found
    raise UnsupportedSchema("the schema describes no object and no array")


def _type_of(part: Any, whole: Any, within: tuple[str, ...]) -> types.DataType:
    """Return the type of a part of a schema. within: the references that led to it."""
    if not isinstance(part, Mapping):
        return JSON_TEXT  # true: anything
    if (reference := part.get("$ref")) is not None:
        if reference in within:
            raise UnsupportedSchema(f"{reference} contains itself, and no Spark type does")
        return _type_of(_referred(reference, whole), whole, (*within, reference))
    kinds = part.get("type", "object" if "properties" in part else None)
    named = [
        kind for kind in ([kinds] if isinstance(kinds, str) else kinds or ()) if kind != "null"
    ]
    if len(named) != 1:
        return _nullable(part, whole, within)
    match named[0]:
        case "object" if part.get("properties"):
            return types.StructType(
                [
                    types.StructField(name, _type_of(each, whole, within))
                    for name, each in part["properties"].items()
                ]
            )
        case "object" if isinstance(part.get("additionalProperties"), Mapping):
            values = _type_of(part["additionalProperties"], whole, within)
            return types.MapType(types.StringType(), values)
        case "array" if isinstance(part.get("items"), Mapping):
            return types.ArrayType(_type_of(part["items"], whole, within))
    return SCALARS.get(named[0], JSON_TEXT)


def _nullable(part: Mapping[str, Any], whole: Any, within: tuple[str, ...]) -> types.DataType:
    """Return the type of `oneOf` or `anyOf` with null and one other; JSON text for any other."""
    choices = [
        each
        for each in part.get("oneOf", part.get("anyOf", ()))
        if not (isinstance(each, Mapping) and each.get("type") == "null")
    ]
    return _type_of(choices[0], whole, within) if len(choices) == 1 else JSON_TEXT


def _referred(reference: str, whole: Any) -> Any:
    """Return the part of a schema that a reference names. Raises UnsupportedSchema."""
    if not reference.startswith("#"):
        raise UnsupportedSchema(f"{reference} is another document, which is not looked up")
    part = whole
    for name in reference.removeprefix("#").strip("/").split("/") if reference != "#" else ():
        try:
            part = part[name.replace("~1", "/").replace("~0", "~")]
        except (KeyError, TypeError):
            raise UnsupportedSchema(f"there is no {reference} in the schema") from None
    return part
