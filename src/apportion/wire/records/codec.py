"""Encode and decode records of `__consumer_offsets`: a type or version, then the fields.

A key begins with its type, a value with its version. A key of an unknown type is skipped, as Kafka
does: a newer coordinator may have written it.
"""

from struct import Struct
from typing import Any

from apportion.errors import DecodeError
from apportion.wire.codec import Buffer, read_whole, write
from apportion.wire.records import groups

_NUMBER = Struct(">h")

_MESSAGES = [
    kind
    for name, kind in sorted(vars(groups).items())
    if hasattr(kind, "__key__") and name[0].isupper()
]
_KEYS: dict[int, Any] = {kind.__key__: kind for kind in _MESSAGES if kind.__type__ == "key"}
_VALUES: dict[int, Any] = {kind.__key__: kind for kind in _MESSAGES if kind.__type__ == "value"}
_KEYS[0] = groups.OffsetCommitKey  # the type that very old brokers wrote
_VALUE_OF: dict[Any, Any] = {key: _VALUES[key.__key__] for key in _KEYS.values()}

PLAIN_VERSIONS = {groups.OffsetCommitValue: 3, groups.GroupMetadataValue: 3}
"""The last version without tagged fields of the values that began without them; every broker since
Kafka 2.3 reads it.
"""


def encode_key(key: Any) -> bytes:
    """Return the key as it is stored in the log."""
    return _NUMBER.pack(key.__key__) + write(key, 0)


def encode_value(value: Any, version: int | None = None) -> bytes:
    """Return the value of a coordinator record as `__consumer_offsets` stores it.

    version: None for the oldest usual one that can express all of it.
    """
    chosen = _usual_version(value) if version is None else version
    return _NUMBER.pack(chosen) + write(value, chosen)


def decode_key(data: Buffer) -> Any | None:
    """Return the coordinator record key in `data`; None if its type is unknown.

    data: the key of a record of `__consumer_offsets`.
    """
    kind = _KEYS.get(_number(data, "key"))
    return None if kind is None else read_whole(kind, 0, data, 2)


def decode_value(key: Any, data: Buffer) -> Any:
    """Return the value in `data` that belongs to `key`."""
    return read_whole(_VALUE_OF[key.__class__], _number(data, "value"), data, 2)


def _usual_version(value: Any) -> int:
    """Return the version in which to write a coordinator record's value to `__consumer_offsets`.

    Older brokers can read that version: PLAIN_VERSIONS, the last version without tagged fields,
    unless a field that is set needs another one.
    """
    newest: int = value.__versions__[-1]
    plain = PLAIN_VERSIONS.get(value.__class__)
    if plain is None:
        return newest
    used = [field for field in value.__fields__ if getattr(value, field.name) != field.default]
    # only version 1 has the expiry of a committed offset
    removed_after: list[int] = [field.until for field in used if field.until < plain]
    if removed_after:
        return min(removed_after)
    return newest if any(field.tag is not None for field in used) else plain


def _number(data: Buffer, what: str) -> int:
    """Return the int16 that a coordinator record's key or value begins with: type or version."""
    if len(data) < 2:
        raise DecodeError(f"a record's {what} has {len(data)} bytes")
    number: int = _NUMBER.unpack_from(data)[0]
    return number
