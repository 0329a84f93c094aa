"""The text of a function that is being generated, line by line, and what each line is about.

A generated function has no error messages of its own. When it fails, the number of the failing line says which field it was at:
naming the field costs nothing until something is wrong.
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
NULL_STRUCT, NULL_TAGGED_STRUCT = -1, 0  # the byte before a struct that can be null; 1 where there is one
LENGTH_CODES = {"string": "h", "utf": "H"}
"""The struct codes of lengths before version `flexible`, where they are not an int32; from then on every length is a varint."""


class Malformed(Exception):
    """A generated function met what it must not accept; the field is known from the line."""


class CodecFunctionBuilder:
    """A function in the making: `add` writes lines, `fixed` delays fields of known size until a run of them can go as one."""

    def __init__(self, verb: str, cls: Any, version: int, head: str, names: dict[str, Any]) -> None:
        self.title = f"{verb} {cls.__name__} v{version}"
        self.version = version
        self.flexible = version >= cls.__flexible__
        self.names = dict(names)
        self._lines = [head]
        self._paths = [""]
        self._depth = 1
        self._path: tuple[str, ...] = ()
        self._fresh = 0
        self._run: list[tuple[str, str, str]] = []  # code, expression, path

    def add(self, *lines: str) -> None:
        """Whatever was delayed, and then these lines, stand at the present depth."""
        self.flush()
        self.append_unflushed(*lines)

    def append_unflushed(self, *lines: str) -> None:
        """These lines stand at the present depth, before whatever is delayed."""
        for line in lines:
            self._lines.append("    " * self._depth + line)
            self._paths.append(".".join(self._path))

    def append_fixed(self, code: str, expression: str) -> None:
        """A field of that struct code comes next."""
        self._run.append((code, expression, ".".join(self._path)))

    def flush(self) -> None:
        """Nothing is delayed any more."""
        if self._run:
            run, self._run = self._run, []
            first, last = run[0][2], run[-1][2]
            path, self._path = self._path, (first if first == last else f"{first} to {last.rpartition('.')[2]}",)
            self.emit_fixed("".join(code for code, _, _ in run), [expression for _, expression, _ in run])
            self._path = path

    def emit_fixed(self, codes: str, expressions: list[str]) -> None:
        """Write what moves a run of fixed fields; a reader and a writer differ here."""
        raise NotImplementedError

    @contextmanager
    def block(self, *heads: str) -> Iterator[None]:
        """What is added inside stands one step deeper, below `heads`."""
        self.add(*heads)
        self._depth += 1
        yield
        self.flush()
        self._depth -= 1

    @contextmanager
    def unless_null(self, field: Field) -> Iterator[None]:
        """What is added inside is for a value; it stands below the `if` for null, where there can be one."""
        with self.block("else:") if field.is_nullable(self.version) else nullcontext():
            yield

    @contextmanager
    def inside_field(self, name: str) -> Iterator[None]:
        """What is added inside is about the field of that name."""
        self._path = (*self._path, name)
        yield
        self._path = self._path[:-1]

    def bind(self, value: Any) -> str:
        """A name that means `value` in the generated function."""
        name = self.fresh_name("K")
        self.names[name] = value
        return name

    def struct_of(self, codes: str) -> Struct:
        """The big-endian struct of these codes."""
        return Struct(">" + codes)

    def fresh_name(self, prefix: str) -> str:
        """A name that nothing else has."""
        self._fresh += 1
        return f"{prefix}{self._fresh}"

    def compile(self) -> tuple[Any, tuple[str, ...]]:
        """The function, and for each line the field that it is about."""
        self.flush()
        file = f"<apportion {self.title}>"
        exec(compile("\n".join(self._lines), file, "exec"), self.names)
        found = re.match(r"def (\w+)", self._lines[0])
        assert found is not None
        return self.names[found[1]], tuple(self._paths)


def field_at(traceback: TracebackType | None, function: Any, paths: tuple[str, ...]) -> str:
    """The field that `function` was at when it failed; "" if it was at none."""
    while traceback is not None:
        if traceback.tb_frame.f_code is function.__code__:
            return paths[traceback.tb_lineno - 1]
        traceback = traceback.tb_next
    return ""


def min_struct_bytes(fields: tuple[Field, ...], version: int, flexible: bool) -> int:
    """The fewest bytes that a struct of these fields takes in that version."""
    present = [field for field in fields if field.is_in(version) and field.tag is None]
    return sum(min_field_bytes(field, version, flexible) for field in present) + flexible


def min_field_bytes(field: Field, version: int, flexible: bool) -> int:
    """The fewest bytes that one field takes in that version."""
    if field.kind in STRUCT_CODES:
        return Struct(">" + STRUCT_CODES[field.kind]).size
    if field.kind == "struct":
        return 1 if field.is_nullable(version) else min_struct_bytes(fields_of(field), version, flexible)
    return 1 if flexible else Struct(">" + length_code(field)).size


def length_code(field: Field) -> str:
    """The struct code of the field's length, where that is no varint."""
    return LENGTH_CODES.get(field.kind, "i")


def null_length(field: Field) -> int:
    """The length that says null, where lengths are no varints."""
    return 0 if field.kind == "chars" else -1


def all_null_layout(fields: tuple[Field, ...], version: int) -> tuple[str, tuple[tuple[int, int], ...]]:
    """The struct codes of these fields where every text is null, and (place, length that says null) of each text.

    No codes where a field can be neither null nor of known size. All fields are in that version, which is not flexible.
    """
    if not all(field.kind in STRUCT_CODES or field.is_nullable(version) for field in fields):
        return "", ()
    codes = "".join(STRUCT_CODES.get(field.kind) or length_code(field) for field in fields)
    return codes, tuple((place, null_length(field)) for place, field in enumerate(fields) if field.kind not in STRUCT_CODES)


def fields_of(field: Field) -> tuple[Field, ...]:
    """The fields of the class that a struct, or an array of structs, is made of."""
    fields: tuple[Field, ...] = getattr(field.element, "__fields__", ())
    return fields
