"""Encode and decode messages by functions that are generated for each class and version.

The functions are generated on first use (decision 7). Malformed bytes raise `DecodeError` alone; a
value that the version cannot express raises `EncodeError`.
"""

import struct
from collections.abc import Callable
from typing import Any, TypeVar

from apportion.errors import DecodeError, EncodeError, UnencodableText, UnfittingValue
from apportion.wire.codec_builder import Malformed, field_at
from apportion.wire.reading import reader_of
from apportion.wire.writing import writer_of

T = TypeVar("T")
Buffer = bytes | bytearray | memoryview
FramePart = bytes | memoryview

JOIN_BELOW_BYTES = 4096
"""Shorter parts are joined, because copying them is cheaper than sending them one by one."""

_READERS: dict[
    tuple[Any, int], tuple[Callable[[Any, int, int], tuple[Any, int]], tuple[str, ...]]
] = {}
_WRITERS: dict[tuple[Any, int], tuple[Callable[[Any, Any], None], tuple[str, ...]]] = {}


def read(cls: type[T], version: int, buffer: Buffer, offset: int = 0) -> tuple[T, int]:
    """Decode the message or struct of class `cls` at `offset`; return it and the offset after it.

    For Kafka's requests, responses and records, by a generated function. Strings are copied; bytes
    and records are views of `buffer`. DecodeError names the message and the field that is wrong.
    """
    reader = _READERS.get((cls, version)) or _generate(
        _READERS, reader_of, cls, version, DecodeError
    )
    try:
        return reader[0](buffer, offset, len(buffer))
    # All that generated code raises for wrong bytes; any other exception is a bug and stays what it
    # is.
    except (IndexError, struct.error, UnicodeDecodeError, Malformed) as error:
        raise DecodeError(_error_text(cls, version, error, reader)) from None


def read_whole(cls: type[T], version: int, buffer: Buffer, offset: int = 0) -> T:
    """Decode the message of class `cls` at `offset`, which must end where the buffer does.

    Errors: DecodeError.
    """
    value, end = read(cls, version, buffer, offset)
    if end != len(buffer):
        raise DecodeError(f"{cls.__name__} v{version}: {len(buffer) - end} bytes follow its end")
    return value


def write(value: Any, version: int) -> bytes:
    """Encode a message or struct of Kafka's protocol in that version."""
    parts: list[FramePart] = []
    write_onto(parts, value, version)
    return b"".join(parts)


def write_onto(parts: list[FramePart], value: Any, version: int) -> None:
    """Append the encoded parts of a message of Kafka's protocol, most of them tiny, to `parts`.

    Errors: EncodeError, which is UnfittingValue for a number that is too large for its field, and
    UnencodableText for a text that is no Unicode.
    """
    cls = value.__class__
    writer = _WRITERS.get((cls, version)) or _generate(
        _WRITERS, writer_of, cls, version, EncodeError
    )
    try:
        writer[0](value, parts.append)
    except UnicodeEncodeError as error:
        raise UnencodableText(error.object) from None
    except struct.error as error:
        raise UnfittingValue(_error_text(cls, version, error, writer)) from error
    # All else that generated code raises for a value that does not fit the declaration of its
    # field.
    except (AttributeError, TypeError, ValueError, Malformed) as error:
        raise EncodeError(_error_text(cls, version, error, writer)) from error


def join_short_parts(parts: list[FramePart]) -> list[FramePart]:
    """Join neighbouring short parts of an encoded message; the bytes stay the same."""
    out: list[FramePart] = []
    short: list[FramePart] = []
    for part in parts:
        if len(part) < JOIN_BELOW_BYTES:
            short.append(part)
            continue
        if short:
            out.append(b"".join(short))
            short = []
        out.append(part)
    if short:
        out.append(b"".join(short))
    return out


def _generate(
    cache: dict[Any, Any], make: Any, cls: Any, version: int, error: type[Exception]
) -> Any:
    """Generate the codec function that reads or writes `cls` in that version, and cache it."""
    if version not in cls.__versions__:
        raise error(f"{cls.__name__} has no version {version}")
    cache[cls, version] = function_and_paths = make(cls, version)
    return function_and_paths


def _error_text(
    cls: Any, version: int, error: Exception, function_and_paths: tuple[Any, tuple[str, ...]]
) -> str:
    """Return the sentence for an error of a message's codec: message, version, field and fault."""
    field = field_at(error.__traceback__, *function_and_paths)
    if isinstance(error, UnicodeDecodeError):
        fault = f"it is not {error.encoding.upper()}"
    elif isinstance(error, IndexError) or (
        isinstance(error, struct.error) and "buffer" in str(error)
    ):
        fault = "the bytes end too soon"
    elif isinstance(error, struct.error):
        fault = "a value does not fit"
    else:
        fault = str(error)
    return f"{cls.__name__} v{version}: {field + ': ' if field else ''}{fault}"
