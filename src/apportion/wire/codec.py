"""Values to bytes and back, by functions that are made the first time a class is read or written in a version.

Nothing but `DecodeError` comes out of wrong bytes, and nothing but `EncodeError` out of a value that the version cannot say.
"""

import struct
from collections.abc import Callable
from typing import Any, TypeVar

from apportion.errors import DecodeError, EncodeError
from apportion.wire.codec_builder import Malformed, field_at
from apportion.wire.reading import reader_of
from apportion.wire.writing import writer_of

T = TypeVar("T")
Buffer = bytes | bytearray | memoryview
Part = bytes | memoryview

JOIN_BELOW_BYTES = 4096
"""Parts at least as long are handed on as they are; shorter ones are cheaper to copy than to send one by one."""

_READERS: dict[tuple[Any, int], tuple[Callable[[Any, int, int], tuple[Any, int]], tuple[str, ...]]] = {}
_WRITERS: dict[tuple[Any, int], tuple[Callable[[Any, Any], None], tuple[str, ...]]] = {}


def read(cls: type[T], version: int, buffer: Buffer, offset: int = 0) -> tuple[T, int]:
    """The value that begins at `offset`, and the offset after it.

    Strings are copied; bytes and records are views of `buffer`. DecodeError names the message and the field that is wrong.
    """
    made = _READERS.get((cls, version)) or _generate(_READERS, reader_of, cls, version, DecodeError)
    try:
        return made[0](buffer, offset, len(buffer))
    except (IndexError, struct.error, UnicodeDecodeError, Malformed) as error:
        raise DecodeError(_error_text(cls, version, error, made)) from None


def read_whole(cls: type[T], version: int, buffer: Buffer, offset: int = 0) -> T:
    """The value that begins at `offset` and ends where the buffer does; DecodeError if anything follows it."""
    value, end = read(cls, version, buffer, offset)
    if end != len(buffer):
        raise DecodeError(f"{cls.__name__} v{version}: {len(buffer) - end} bytes follow its end")
    return value


def write(value: Any, version: int) -> bytes:
    """`value` as that version says it; EncodeError if it cannot."""
    parts: list[Part] = []
    write_onto(parts, value, version)
    return b"".join(parts)


def write_parts(value: Any, version: int) -> list[Part]:
    """The same bytes in pieces, with long ones such as records as they are, uncopied."""
    parts: list[Part] = []
    write_onto(parts, value, version)
    return join_short_parts(parts)


def write_onto(parts: list[Part], value: Any, version: int) -> None:
    """The pieces of `value`, most of them tiny, are at the end of `parts`."""
    cls = value.__class__
    made = _WRITERS.get((cls, version)) or _generate(_WRITERS, writer_of, cls, version, EncodeError)
    try:
        made[0](value, parts.append)
    except (AttributeError, TypeError, ValueError, struct.error, Malformed) as error:
        raise EncodeError(_error_text(cls, version, error, made)) from error


def join_short_parts(parts: list[Part]) -> list[Part]:
    """The same bytes with neighbouring short parts made one."""
    out: list[Part] = []
    short: list[Part] = []
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


def _generate(cache: dict[Any, Any], make: Any, cls: Any, version: int, error: type[Exception]) -> Any:
    """The generated function for `cls` in that version, kept from now on."""
    if version not in cls.__versions__:
        raise error(f"{cls.__name__} has no version {version}")
    cache[cls, version] = made = make(cls, version)
    return made


def _error_text(cls: Any, version: int, error: Exception, made: tuple[Any, tuple[str, ...]]) -> str:
    field = field_at(error.__traceback__, *made)
    if isinstance(error, UnicodeDecodeError):
        what = f"it is not {error.encoding.upper()}"
    elif isinstance(error, IndexError) or (isinstance(error, struct.error) and "buffer" in str(error)):
        what = "the bytes end too soon"
    elif isinstance(error, struct.error):
        what = "a value does not fit"
    else:
        what = str(error)
    return f"{cls.__name__} v{version}: {field + ': ' if field else ''}{what}"
