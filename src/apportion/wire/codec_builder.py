"""A builder of generated codec functions: source text line by line, with the field of each line.

`reading.py` and `writing.py` generate one function for each message class and version (decision 7).
Fields of fixed size are not written at once: `append_fixed` collects them until a run can be packed
or unpacked by one struct, and `flush` writes the run. A generated function has no error texts; when
it fails, the number of the failing line says which field it was at, so naming fields costs nothing.
"""

import re
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from struct import Struct
from types import TracebackType
from typing import Any

from apportion.wire.fields import Field

STRUCT_CODES = {
    "bool": "?",
    "int8": "b",
    "int16": "h",
    "uint16": "H",
    "int32": "i",
    "uint32": "I",
    "int64": "q",
    "float64": "d",
    "uuid": "16s",
}
"""The kinds whose size is known beforehand, and their struct codes."""

INTEGERS = ("int8", "int16", "int32", "int64")
"""The kinds of which an array is read and written at once."""
# the byte before a struct that can be null; 1 where there is one
NULL_STRUCT, NULL_TAGGED_STRUCT = -1, 0
LENGTH_CODES = {"string": "h", "utf": "H"}
"""The struct codes of lengths before version `flexible`, where they are not an int32; from then on
every length is a varint.
"""


class Malformed(Exception):
    """An error in a generated function, whose line tells the field."""


class CodecFunctionBuilder:
    """The source of one codec function while it grows."""

    def __init__(self, verb: str, cls: Any, version: int, head: str, names: dict[str, Any]) -> None:
        """Begin the source of one codec function.

        verb: read or write. head: the `def` line. names: the globals that the source uses.
        """
        self.title = f"{verb} {cls.__name__} v{version}"
        self.version = version
        self.flexible = version >= cls.__flexible__
        self.names = dict(names)
        self._lines = [head]
        self._paths = [""]
        self._depth = 1
        self._path: tuple[str, ...] = ()
        self._fresh = 0
        # adjacent fields of fixed size, which one struct will read or write: code, expression, path
        self._run: list[tuple[str, str, str]] = []

    def add(self, *lines: str) -> None:
        """Append source lines to the generated codec function at the current indentation.

        Before them goes its pending run.
        """
        self.flush()
        self.append_unflushed(*lines)

    def append_unflushed(self, *lines: str) -> None:
        """Append source lines to the generated codec function, before its pending run."""
        for line in lines:
            self._lines.append("    " * self._depth + line)
            self._paths.append(".".join(self._path))

    def append_fixed(self, code: str, expression: str) -> None:
        """Add a field of this struct code to the pending run."""
        self._run.append((code, expression, ".".join(self._path)))

    def flush(self) -> None:
        """Generate the code for the pending run of a codec function."""
        if self._run:
            run, self._run = self._run, []
            first, last = run[0][2], run[-1][2]
            path = self._path
            self._path = (first if first == last else f"{first} to {last.rpartition('.')[2]}",)
            self.emit_fixed(
                "".join(code for code, _, _ in run), [expression for _, expression, _ in run]
            )
            self._path = path

    def emit_fixed(self, codes: str, expressions: list[str]) -> None:
        """Write the code that packs or unpacks a run of fixed fields."""
        raise NotImplementedError

    @contextmanager
    def block(self, *heads: str) -> Iterator[None]:
        """Append `heads` to the generated codec function, and indent what is added inside."""
        self.add(*heads)
        self._depth += 1
        yield
        self.flush()
        self._depth -= 1

    @contextmanager
    def unless_null(self, field: Field) -> Iterator[None]:
        """Indent generated code below the `else` of the null check of a nullable message field."""
        with self.block("else:") if field.is_nullable(self.version) else nullcontext():
            yield

    @contextmanager
    def inside_field(self, name: str) -> Iterator[None]:
        """Attribute the lines that are generated inside to this message field, for error texts."""
        self._path = (*self._path, name)
        yield
        self._path = self._path[:-1]

    def bind(self, value: Any) -> str:
        """Return a name by which the generated codec function refers to `value`."""
        name = self.fresh_name("K")
        self.names[name] = value
        return name

    def struct_of(self, codes: str) -> Struct:
        """Return the big-endian struct of these codes."""
        return Struct(">" + codes)

    def fresh_name(self, prefix: str) -> str:
        """Return an unused local name for the generated codec function."""
        self._fresh += 1
        return f"{prefix}{self._fresh}"

    def compile(self) -> tuple[Any, tuple[str, ...]]:
        """Compile the generated codec function; return it and the field of each of its lines."""
        self.flush()
        file = f"<apportion {self.title}>"
        # The source comes from our own declarations: nothing that a peer sends is in it.
        exec(compile("\n".join(self._lines), file, "exec"), self.names)
        definition = re.match(r"def (\w+)", self._lines[0])
        assert definition is not None
        return self.names[definition[1]], tuple(self._paths)


def field_at(traceback: TracebackType | None, function: Any, paths: tuple[str, ...]) -> str:
    """Return the message field at which a generated codec function failed; "" for none."""
    while traceback is not None:
        if traceback.tb_frame.f_code is function.__code__:
            return paths[traceback.tb_lineno - 1]
        traceback = traceback.tb_next
    return ""


def min_struct_bytes(fields: tuple[Field, ...], version: int, flexible: bool) -> int:
    """Return the fewest bytes that a struct of these message fields takes in that version.

    For the generated reader of an array, which refuses a count that the buffer cannot hold.
    """
    present = [field for field in fields if field.is_in(version) and field.tag is None]
    # A flexible struct ends with the number of its tagged fields, one byte at the least (KIP-482).
    return sum(min_field_bytes(field, version, flexible) for field in present) + flexible


def min_field_bytes(field: Field, version: int, flexible: bool) -> int:
    """Return the fewest bytes that a message field takes in that version.

    For the generated reader of an array, which refuses a count that the buffer cannot hold.
    """
    if field.kind in STRUCT_CODES:
        return Struct(">" + STRUCT_CODES[field.kind]).size
    if field.kind == "struct":
        return (
            1
            if field.is_nullable(version)
            else min_struct_bytes(fields_of(field), version, flexible)
        )
    return 1 if flexible else Struct(">" + length_code(field)).size


def length_code(field: Field) -> str:
    """Return the struct code of the field's length, for versions that are not flexible."""
    return LENGTH_CODES.get(field.kind, "i")


def null_length(field: Field) -> int:
    """Return the length that stands for null, in versions that are not flexible."""
    return 0 if field.kind == "chars" else -1


def all_null_layout(
    fields: tuple[Field, ...], version: int
) -> tuple[str, tuple[tuple[int, int], ...]]:
    """Return the struct layout of an array element of a message in which every text is null.

    The layout is the element's struct codes, and (index, length that stands for null) of each text.
    The codes are empty if a field can be neither null nor of known size. All fields are in that
    version, which is not flexible. For arrays that are declared as columns.
    """
    if not all(field.kind in STRUCT_CODES or field.is_nullable(version) for field in fields):
        return "", ()
    codes = "".join(STRUCT_CODES.get(field.kind) or length_code(field) for field in fields)
    return codes, tuple(
        (index, null_length(field))
        for index, field in enumerate(fields)
        if field.kind not in STRUCT_CODES
    )


def fields_of(field: Field) -> tuple[Field, ...]:
    """Return the declared fields of a struct, or of an array's structs, in a message."""
    fields: tuple[Field, ...] = getattr(field.element, "__fields__", ())
    return fields
