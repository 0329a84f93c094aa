"""Makes the reader of one message class in one version: a Python function that knows nothing else,
and so loops over nothing.

A reader is called with (buffer, position, end of buffer) and returns (value, position after it). It
never takes a length on trust: a length is compared with what is left before anything is made of it.
It fails with IndexError, struct.error, UnicodeDecodeError or Malformed, which `codec` turns into
one sentence.
"""

from contextlib import nullcontext
from struct import Struct, unpack_from
from typing import Any

from apportion.wire.codec_builder import (
    INTEGERS,
    NULL_STRUCT,
    NULL_TAGGED_STRUCT,
    STRUCT_CODES,
    CodecFunctionBuilder,
    Malformed,
    all_null_layout,
    fields_of,
    length_code,
    min_field_bytes,
    min_struct_bytes,
    null_length,
)
from apportion.wire.fields import Field
from apportion.wire.modified import from_modified

ARRAYS_BY_COUNT = 33
TEXT_DECODERS = {
    "string": "str(b[p:e], 'utf-8')",
    "text": "str(b[p:e], 'utf-8')",
    "utf": "from_modified(b[p:e])",
    "chars": "str(b[p:e], 'utf-16-be')",
}
"""What is made of the bytes from p to e, by kind; of the other kinds a view."""


def rest_of_varint(buffer: Any, position: int, byte: int) -> tuple[int, int]:
    """The unsigned varint that began with `byte`, the last one before `position`, and the position
    after it.
    """
    value, shift = byte & 0x7F, 7
    while True:
        byte = buffer[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            break
        shift += 7
        if shift > 28:
            raise Malformed("a varint has more than five bytes")
    if value > 0xFFFF_FFFF:
        raise Malformed("a varint has more than 32 bits")
    return value, position


def skip_tags(buffer: Any, position: int, end: int, count: int) -> int:
    """The position after `count` tagged fields that nobody here knows."""
    if count > 0x7F:
        count, position = rest_of_varint(buffer, position, count)
    for _ in range(count):
        tag = buffer[position]
        position += 1
        if tag > 0x7F:
            tag, position = rest_of_varint(buffer, position, tag)
        size = buffer[position]
        position += 1
        if size > 0x7F:
            size, position = rest_of_varint(buffer, position, size)
        position += size
        if position > end:
            raise Malformed(f"tagged field {tag} ends too soon")
    return position


def length_error(size: int, left: int) -> Malformed:
    """Somebody says a length that cannot be."""
    return Malformed(f"it says {size} where {left} bytes are left")


def read_all_null_columns(
    packing: Struct, nulls: tuple[tuple[int, int], ...], count: int, view: memoryview
) -> tuple[tuple[Any, ...], ...] | None:
    """The columns of the `count` records that `view` begins with, all texts null; None where one of
    these is not.
    """
    size = count * packing.size
    if size > len(view):
        return None
    columns = list(zip(*packing.iter_unpack(view[:size]), strict=True))
    for place, null in nulls:
        if columns[place].count(null) != count:
            return None
        columns[place] = (None,) * count
    return tuple(columns)


GLOBALS = {
    "more": rest_of_varint,
    "skip_tags": skip_tags,
    "short": length_error,
    "Malformed": Malformed,
    "unpack_from": unpack_from,
    "from_modified": from_modified,
    "blank_columns": read_all_null_columns,
}


class _Reader(CodecFunctionBuilder):
    """A reader in the making; see `reader_of`."""

    def __init__(self, cls: Any, version: int) -> None:
        super().__init__("read", cls, version, "def read(b, p, end):", GLOBALS)
        self.add("new = object.__new__")

    def emit_fixed(self, codes: str, expressions: list[str]) -> None:
        """Read the run with one struct, or one byte by its index."""
        if codes == "B":
            self.append_unflushed(f"{expressions[0]} = b[p]; p += 1")
        else:
            packing = self.struct_of(codes)
            targets = ", ".join(expressions)
            self.append_unflushed(
                f"{targets}, = {self.bind(packing.unpack_from)}(b, p); p += {packing.size}"
            )

    def structure(self, cls: Any, target: str) -> None:
        """`target` becomes a new value of `cls`."""
        self.append_unflushed(f"{target} = new({self.bind(cls)})")
        for field in cls.__fields__:
            if field.tag is not None or not field.is_in(self.version):
                self.append_unflushed(f"{target}.{field.name} = {self.bind(field.default)}")
        for field in cls.__fields__:
            if field.tag is None and field.is_in(self.version):
                with self.inside_field(field.name):
                    self.field(field, f"{target}.{field.name}")
        if self.flexible:
            with self.inside_field("tags"):
                self.tagged(cls, target)

    def field(self, field: Field, target: str) -> None:
        """`target` becomes the value of one field."""
        if field.kind in STRUCT_CODES:
            self.append_fixed(STRUCT_CODES[field.kind], target)
        elif field.kind == "struct":
            self.nested(field, target)
        elif field.kind == "array":
            self.array(field, target)
        elif field.kind == "columns":
            self.columns(field, target)
        else:
            self.run_of_bytes(field, target)

    def nested(self, field: Field, target: str) -> None:
        """`target` becomes another message, or null."""
        inner = self.fresh_name("o")
        if not field.is_nullable(self.version):
            self.structure(field.element, inner)
            self.append_unflushed(f"{target} = {inner}")
            return
        presence, null = (
            self.fresh_name("n"),
            NULL_STRUCT if field.tag is None else NULL_TAGGED_STRUCT,
        )
        self.append_fixed("b", presence)
        with self.block(f"if {presence} == 1:"):
            self.structure(field.element, inner)
            self.add(f"{target} = {inner}")
        with self.block(f"elif {presence} == {null}:"):
            self.add(f"{target} = None")
        with self.block("else:"):
            self.add(
                f"raise Malformed(f'it says {{{presence}}} where 1 is a value and {null} is null')"
            )

    def length(self, field: Field, target: str) -> str:
        """The length that comes next, as an expression; null is dealt with and what is added now
        stands where there is a value.
        """
        size = self.fresh_name("n")
        if self.flexible:
            self.append_fixed("B", size)
            self.add(f"if {size} > 127: {size}, p = more(b, p, {size})")
        else:
            self.append_fixed(length_code(field), size)
        null = null_length(field) if field.is_nullable(self.version) else -1
        with self.block(f"if not {size}:" if self.flexible else f"if {size} <= {null}:"):
            if not field.is_nullable(self.version):
                self.add("raise Malformed('it is null')")
            else:
                if not self.flexible:
                    self.add(f"if {size} != {null}: raise short({size}, end - p)")
                self.add(f"{target} = None")
        return f"{size} - 1" if self.flexible else size

    def run_of_bytes(self, field: Field, target: str) -> None:
        """`target` becomes a string, or a view of bytes, or null."""
        size = self.length(field, target)
        with self.unless_null(field):
            self.add(
                f"e = p + {f'2 * ({size})' if field.kind == 'chars' else size}",
                f"if e > end: raise short({size}, end - p)",
            )
            self.add(f"{target} = {TEXT_DECODERS.get(field.kind, 'memoryview(b)[p:e]')}; p = e")

    def array(self, field: Field, target: str) -> None:
        """`target` becomes a tuple, or null."""
        size, count = self.length(field, target), self.fresh_name("c")
        element = field.element
        with self.unless_null(field):
            self.add(f"{count} = {size}")
            if isinstance(element, Field):
                least = min_field_bytes(element, self.version, self.flexible)
            else:
                least = min_struct_bytes(fields_of(field), self.version, self.flexible)
            assert least > 0, f"an element of {field.name} takes no bytes"
            self.add(f"if {count} * {least} > end - p: raise short({count}, end - p)")
            if isinstance(element, Field) and element.kind in INTEGERS:
                self.numbers(STRUCT_CODES[element.kind], least, count, target)
            else:
                self.elements(element, count, target)

    def numbers(self, code: str, size: int, count: str, target: str) -> None:
        """`target` becomes a tuple of integers, all read at once."""
        few = self.bind(tuple(Struct(f">{n}{code}").unpack_from for n in range(ARRAYS_BY_COUNT)))
        many = f"unpack_from(f'>{{{count}}}{code}', b, p)"
        self.add(
            f"{target} = {few}[{count}](b, p) if {count} < {ARRAYS_BY_COUNT} else {many}",
            f"p += {count} * {size}",
        )

    def elements(self, element: Any, count: str, target: str) -> None:
        """`target` becomes a tuple of what is read one by one."""
        items, item = self.fresh_name("l"), self.fresh_name("o")
        self.add(f"{items} = []")
        with self.block(f"for _ in range({count}):"):
            if isinstance(element, Field):
                self.field(element, item)
            else:
                self.structure(element, item)
            self.add(f"{items}.append({item})")
        self.add(f"{target} = tuple({items})")

    def columns(self, field: Field, target: str) -> None:
        """`target` becomes the columns of an array: all at once if no element has a text, else one
        by one.
        """
        assert not self.flexible, f"{field.name} has columns in a flexible version"
        count, found = self.length(field, target), self.fresh_name("v")
        fields = fields_of(field)
        present = tuple(each for each in fields if each.is_in(self.version))
        least, (codes, nulls) = (
            min_struct_bytes(present, self.version, False),
            all_null_layout(present, self.version),
        )
        self.add(f"if {count} * {least} > end - p: raise short({count}, end - p)")
        if codes:
            packing = Struct(">" + codes)
            blank = (
                f"blank_columns({self.bind(packing)}, {self.bind(nulls)}, {count}, "
                "memoryview(b)[p:end])"
            )
            self.add(f"{found} = {blank} if {count} else ((),) * {len(present)}")
            with self.block(f"if {found} is not None:"):
                self.add(f"p += {count} * {packing.size}")
        if nulls or not codes:
            with self.block("else:") if codes else nullcontext():
                self.rows(present, count, found)
        places = {each.name: f"{found}[{place}]" for place, each in enumerate(present)}
        said = [
            places.get(each.name) or f"({self.bind(each.default)},) * {count}" for each in fields
        ]
        self.add(f"{target} = ({', '.join(said)},)")

    def rows(self, fields: tuple[Field, ...], count: str, found: str) -> None:
        """`found` becomes the columns of these fields, read element by element."""
        lists, items = (
            [self.fresh_name("l") for _ in fields],
            [self.fresh_name("o") for _ in fields],
        )
        self.add("; ".join(f"{each} = []" for each in lists))
        with self.block(f"for _ in range({count}):"):
            for field, item in zip(fields, items, strict=True):
                with self.inside_field(field.name):
                    self.field(field, item)
            self.add(
                "; ".join(f"{each}.append({item})" for each, item in zip(lists, items, strict=True))
            )
        self.add(f"{found} = {', '.join(f'tuple({each})' for each in lists)},")

    def tagged(self, cls: Any, target: str) -> None:
        """The tagged fields of a struct are read; those that nobody knows are passed over."""
        known = [
            field for field in cls.__fields__ if field.tag is not None and field.is_in(self.version)
        ]
        count = self.fresh_name("t")
        self.append_fixed("B", count)
        with self.block(f"if {count}:"):
            if not known:
                self.add(f"p = skip_tags(b, p, end, {count})")
                return
            tag, size, stop = self.fresh_name("k"), self.fresh_name("s"), self.fresh_name("q")
            self.add(f"if {count} > 127: {count}, p = more(b, p, {count})")
            with self.block(f"for _ in range({count}):"):
                self.add(f"{tag} = b[p]; p += 1", f"if {tag} > 127: {tag}, p = more(b, p, {tag})")
                self.add(
                    f"{size} = b[p]; p += 1", f"if {size} > 127: {size}, p = more(b, p, {size})"
                )
                self.add(f"{stop} = p + {size}", f"if {stop} > end: raise short({size}, end - p)")
                word = "if"
                for field in known:
                    with self.block(f"{word} {tag} == {field.tag}:"), self.inside_field(field.name):
                        self.field(field, f"{target}.{field.name}")
                        self.add(
                            f"if p != {stop}: raise Malformed(f'it says {{{size}}} bytes, "
                            "which is not what it takes')"
                        )
                    word = "elif"
                with self.block("else:"):
                    self.add(f"p = {stop}")


def reader_of(cls: Any, version: int) -> tuple[Any, tuple[str, ...]]:
    """The reader of `cls` in that version, and the field that each of its lines is about."""
    making = _Reader(cls, version)
    making.structure(cls, "o")
    making.add("return o, p")
    return making.compile()
