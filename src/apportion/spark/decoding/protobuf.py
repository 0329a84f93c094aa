"""Protobuf: the Spark type of a message class, and messages as Spark takes them."""

from collections.abc import Callable
from datetime import UTC
from decimal import Decimal
from functools import lru_cache
from typing import Any

from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.message import DecodeError, Message
from pyspark.sql import types

from apportion.spark.decoding.errors import UndecodableRecord, UnsupportedSchema
from apportion.spark.decoding.framing import framed, without_message_indexes

FieldConversion = Callable[[Any], Any]
TIMESTAMP = "google.protobuf.Timestamp"
UINT64 = types.DecimalType(20, 0)
SCALARS: dict[int, types.DataType] = {
    FieldDescriptor.CPPTYPE_BOOL: types.BooleanType(),
    FieldDescriptor.CPPTYPE_INT32: types.IntegerType(),
    FieldDescriptor.CPPTYPE_INT64: types.LongType(),
    FieldDescriptor.CPPTYPE_UINT32: types.LongType(),
    FieldDescriptor.CPPTYPE_UINT64: UINT64,
    FieldDescriptor.CPPTYPE_FLOAT: types.FloatType(),
    FieldDescriptor.CPPTYPE_DOUBLE: types.DoubleType(),
    FieldDescriptor.CPPTYPE_ENUM: types.StringType(),
}


def spark_type(message: Descriptor, within: tuple[str, ...] = ()) -> types.StructType:
    """Return the Spark type of a message. Raises UnsupportedSchema. within: those around it."""
    if message.full_name in within:
        raise UnsupportedSchema(f"{message.full_name} contains itself, and no Spark type does")
    inside = (*within, message.full_name)
    return types.StructType(
        [types.StructField(field.name, _field_type(field, inside)) for field in message.fields]
    )


def _field_type(field: FieldDescriptor, within: tuple[str, ...]) -> types.DataType:
    if _is_map(field):
        key, value = (_message_of(field).fields_by_name[name] for name in ("key", "value"))
        return types.MapType(_one_type(key, within), _one_type(value, within))
    one = _one_type(field, within)
    return types.ArrayType(one) if field.is_repeated else one


def _one_type(field: FieldDescriptor, within: tuple[str, ...]) -> types.DataType:
    """Return the type of one value of a field."""
    if field.type == FieldDescriptor.TYPE_BYTES:
        return types.BinaryType()
    if field.cpp_type == FieldDescriptor.CPPTYPE_STRING:
        return types.StringType()
    if field.cpp_type != FieldDescriptor.CPPTYPE_MESSAGE:
        return SCALARS[field.cpp_type]
    message = _message_of(field)
    return types.TimestampType() if message.full_name == TIMESTAMP else spark_type(message, within)


def _message_of(field: FieldDescriptor) -> Descriptor:
    """Return the message that a field holds."""
    assert field.message_type is not None
    return field.message_type


def _is_map(field: FieldDescriptor) -> bool:
    return field.message_type is not None and field.message_type.GetOptions().map_entry


@lru_cache(maxsize=256)
def _fields(message: Descriptor) -> tuple[tuple[str, bool, FieldConversion], ...]:
    """Return of each field the name, whether it can be absent, and how its value is converted."""
    return tuple((each.name, each.has_presence, _field_converter(each)) for each in message.fields)


def _field_converter(field: FieldDescriptor) -> FieldConversion:
    if _is_map(field):
        of_value = _one_converter(_message_of(field).fields_by_name["value"])
        return lambda entries: {key: of_value(entries[key]) for key in entries}
    convert = _one_converter(field)
    return (lambda values: [convert(each) for each in values]) if field.is_repeated else convert


def _one_converter(field: FieldDescriptor) -> FieldConversion:
    if field.cpp_type == FieldDescriptor.CPPTYPE_MESSAGE:
        is_time = _message_of(field).full_name == TIMESTAMP
        return (lambda value: value.ToDatetime(UTC)) if is_time else as_dict
    if field.cpp_type == FieldDescriptor.CPPTYPE_ENUM:
        # A number that this version of the message does not know is shown as it is.
        kind: Any = field.enum_type
        names = {value.number: value.name for value in kind.values}
        return lambda number: names.get(number, str(number))
    return Decimal if field.cpp_type == FieldDescriptor.CPPTYPE_UINT64 else lambda value: value


def as_dict(message: Message) -> dict[str, Any]:
    """Return a message as Spark takes it; an absent field is None."""
    return {
        name: convert(getattr(message, name))
        if not can_be_absent or message.HasField(name)
        else None
        for name, can_be_absent, convert in _fields(message.DESCRIPTOR)
    }


class ProtobufDecoder:
    """The function of a worker that decodes values to messages of one generated class."""

    def __init__(self, message: type[Message]) -> None:
        """Keep the class; the workers must be able to import it."""
        self.message = message

    def __call__(self, value: bytes) -> dict[str, Any]:
        """Return the decoded value. Raises UndecodableRecord."""
        schema_id, payload = framed(value)
        try:
            return as_dict(self.message.FromString(without_message_indexes(payload)))
        except DecodeError as error:
            raise UndecodableRecord(
                f"{self.message.__name__} does not decode the value of schema {schema_id}: {error}"
            ) from None
