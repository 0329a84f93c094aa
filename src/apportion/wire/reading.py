"""Generates the reader of one message class in one version, a Python function without loops.

Each reader is made for the fields of its message, so it needs no loop over them. A reader is called
with (buffer, position, end of buffer) and returns (value, position after it). It never trusts a
length: a length is compared with what is left, and with the most that is allowed, before anything
is allocated. It fails with IndexError, struct.error, UnicodeDecodeError or Malformed, which `codec`
turns into one sentence.
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

MOST_ELEMENTS, MOST_TAGGED_FIELDS = 1_000_000, 10_000
"""The limits of Kafka 4.4, of one array and of the tagged fields of one structure or header."""
MOST_ELEMENTS_IN_ALL = 2_000_000
"""The limit of all arrays of a request together, or of what a member sends to its leader: arrays
within arrays could multiply, and a structure of two bytes takes sixty in memory.
"""
# Most arrays are short. Their structs are made with the reader, not for each message.
ARRAYS_BY_COUNT = 33
TEXT_DECODERS = {
    "string": "str(b[p:e], 'utf-8')",
    "text": "str(b[p:e], 'utf-8')",
    "utf": "from_modified(b[p:e])",
    "chars": "str(b[p:e], 'utf-16-be')",
}
"""How a text is decoded from the bytes p to e, by kind; the other kinds are views of them."""


def rest_of_varint(buffer: Any, position: int, byte: int) -> tuple[int, int]:
    """Return the unsigned varint of a message that began with `byte`, and the position after it.

    Called by generated readers. position: that of the byte after the first one.
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
    # Five bytes have room for 35 bits.
    if value > 0xFFFF_FFFF:
        raise Malformed("a varint has more than 32 bits")
    return value, position


def skip_tags(buffer: Any, position: int, end: int, count: int) -> int:
    """Return the position after `count` unknown tagged fields of a message or header."""
    if count > 0x7F:
        count, position = rest_of_varint(buffer, position, count)
        if count > MOST_TAGGED_FIELDS:
            raise limit_error(count, MOST_TAGGED_FIELDS)
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
    """Return the error for a length that is negative, or larger than what is left."""
    return Malformed(f"it says {size} where {left} bytes are left")


def limit_error(count: int, most: int) -> Malformed:
    """Return the error for more elements or tagged fields of a message than are allowed."""
    return Malformed(f"it says {count} where {most} are allowed")


def count_error(count: int, min_bytes: int, left: int) -> Malformed:
    """Return the error for an array of a message that its bytes cannot hold, or that is too long.

    min_bytes: the fewest that an element takes. left: how many bytes are left.
    """
    if count * min_bytes > left:
        return length_error(count, left)
    return limit_error(count, MOST_ELEMENTS)


def read_all_null_columns(
    packing: Struct, nulls: tuple[tuple[int, int], ...], count: int, view: memoryview
) -> tuple[tuple[Any, ...], ...] | None:
    """Return the columns of a message's array of `count` elements in which all texts are null.

    Called by generated readers. view: begins with the elements. Returns None if a text is not null:
    then they must be read one by one.
    """
    size = count * packing.size
    if size > len(view):
        return None
    columns = list(zip(*packing.iter_unpack(view[:size]), strict=True))
    for index, null in nulls:
        if columns[index].count(null) != count:
            return None
        columns[index] = (None,) * count
    return tuple(columns)


GLOBALS = {
    "more": rest_of_varint,
    "skip_tags": skip_tags,
    "short": length_error,
    "wrong_count": count_error,
    "too_many": limit_error,
    "Malformed": Malformed,
    "unpack_from": unpack_from,
    "from_modified": from_modified,
    "read_all_null_columns": read_all_null_columns,
}


class _Reader(CodecFunctionBuilder):
    """The builder of one reader; see `reader_of`."""

    def __init__(self, cls: Any, version: int) -> None:
        super().__init__("read", cls, version, "def read(b, p, end):", GLOBALS)
        self.add("new = object.__new__")
        # Responses and records come from a broker: of what it sends only each array is limited.
        self.counts_elements = cls.__type__ in ("request", "struct")
        if self.counts_elements:
            self.add("w = 0")

    def emit_fixed(self, codes: str, expressions: list[str]) -> None:
        """Generate the code that reads a run of adjacent fixed-size fields with one struct.

        codes: their struct codes. expressions: the targets of the assignment. A single unsigned
        byte is read by its index, which is faster.
        """
        if codes == "B":
            self.append_unflushed(f"{expressions[0]} = b[p]; p += 1")
        else:
            packing = self.struct_of(codes)
            targets = ", ".join(expressions)
            self.append_unflushed(
                f"{targets}, = {self.bind(packing.unpack_from)}(b, p); p += {packing.size}"
            )

    def structure(self, cls: Any, target: str) -> None:
        """Generate the code that reads a new value of the message class `cls` into `target`."""
        # Without `__init__`, because every field is assigned below.
        self.append_unflushed(f"{target} = new({self.bind(cls)})")
        # First, so that a tagged field that is not sent keeps its default.
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
        """Generate the code that reads one field of a message into `target`."""
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
        """Generate the code that reads a nested struct, or null, into `target`.

        A nullable struct begins with a byte: 1 before a value; null is another one for a tagged
        field.
        """
        inner = self.fresh_name("o")
        if not field.is_nullable(self.version):
            self.structure(field.element, inner)
            self.append_unflushed(f"{target} = {inner}")
            return
        presence = self.fresh_name("n")
        null = NULL_STRUCT if field.tag is None else NULL_TAGGED_STRUCT
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
        """Generate the code that reads a field's length, and return the length as an expression.

        Null is dealt with: lines that are added next run only where there is a value.
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
        # KIP-482: a length is stored plus one, and 0 is null.
        return f"{size} - 1" if self.flexible else size

    def run_of_bytes(self, field: Field, target: str) -> None:
        """Generate the code that reads a string or a view of bytes, or null, into `target`."""
        size = self.length(field, target)
        with self.unless_null(field):
            self.add(
                f"e = p + {f'2 * ({size})' if field.kind == 'chars' else size}",
                f"if e > end: raise short({size}, end - p)",
            )
            self.add(f"{target} = {TEXT_DECODERS.get(field.kind, 'memoryview(b)[p:e]')}; p = e")

    def array(self, field: Field, target: str) -> None:
        """Generate the code that reads an array field, as a tuple or null, into `target`."""
        size, count = self.length(field, target), self.fresh_name("c")
        element = field.element
        with self.unless_null(field):
            self.add(f"{count} = {size}")
            if isinstance(element, Field):
                min_bytes = min_field_bytes(element, self.version, self.flexible)
            else:
                min_bytes = min_struct_bytes(fields_of(field), self.version, self.flexible)
            # Without it, a small request could have a reader allocate any number of elements.
            assert min_bytes > 0, f"an element of {field.name} takes no bytes"
            self.check_count(count, min_bytes)
            if isinstance(element, Field) and element.kind in INTEGERS:
                self.numbers(STRUCT_CODES[element.kind], min_bytes, count, target)
            else:
                self.elements(element, count, target)

    def check_count(self, count: str, min_bytes: int) -> None:
        """Generate the code that refuses an array with too many elements, before it is read."""
        self.add(
            f"if {count} * {min_bytes} > end - p or {count} > {MOST_ELEMENTS}: "
            f"raise wrong_count({count}, {min_bytes}, end - p)"
        )
        if self.counts_elements:
            self.add(
                f"w += {count}",
                f"if w > {MOST_ELEMENTS_IN_ALL}: raise too_many(w, {MOST_ELEMENTS_IN_ALL})",
            )

    def numbers(self, code: str, size: int, count: str, target: str) -> None:
        """Generate the code that reads an array of integers into `target`, all at once."""
        few = self.bind(tuple(Struct(f">{n}{code}").unpack_from for n in range(ARRAYS_BY_COUNT)))
        many = f"unpack_from(f'>{{{count}}}{code}', b, p)"
        self.add(
            f"{target} = {few}[{count}](b, p) if {count} < {ARRAYS_BY_COUNT} else {many}",
            f"p += {count} * {size}",
        )

    def elements(self, element: Any, count: str, target: str) -> None:
        """Generate the code that reads an array into `target`, element by element."""
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
        """Generate the code that reads the columns of an array into `target`.

        All elements are read at once if their texts are null, else one by one.
        """
        assert not self.flexible, f"{field.name} has columns in a flexible version"
        count, values = self.length(field, target), self.fresh_name("v")
        fields = fields_of(field)
        present = tuple(column for column in fields if column.is_in(self.version))
        min_bytes = min_struct_bytes(present, self.version, False)
        codes, nulls = all_null_layout(present, self.version)
        self.check_count(count, min_bytes)
        if codes:
            packing = Struct(">" + codes)
            all_null = (
                f"read_all_null_columns({self.bind(packing)}, {self.bind(nulls)}, {count}, "
                "memoryview(b)[p:end])"
            )
            self.add(f"{values} = {all_null} if {count} else ((),) * {len(present)}")
            with self.block(f"if {values} is not None:"):
                self.add(f"p += {count} * {packing.size}")
        if nulls or not codes:
            with self.block("else:") if codes else nullcontext():
                self.rows(present, count, values)
        expressions = {column.name: f"{values}[{index}]" for index, column in enumerate(present)}
        columns = [
            expressions.get(column.name) or f"({self.bind(column.default)},) * {count}"
            for column in fields
        ]
        self.add(f"{target} = ({', '.join(columns)},)")

    def rows(self, fields: tuple[Field, ...], count: str, target: str) -> None:
        """Generate the code that reads an array's columns into `target`, element by element."""
        lists = [self.fresh_name("l") for _ in fields]
        items = [self.fresh_name("o") for _ in fields]
        self.add("; ".join(f"{column} = []" for column in lists))
        with self.block(f"for _ in range({count}):"):
            for field, item in zip(fields, items, strict=True):
                with self.inside_field(field.name):
                    self.field(field, item)
            appends = zip(lists, items, strict=True)
            self.add("; ".join(f"{column}.append({item})" for column, item in appends))
        self.add(f"{target} = {', '.join(f'tuple({column})' for column in lists)},")

    def tagged(self, cls: Any, target: str) -> None:
        """Generate the code that reads a struct's tagged fields, and skips unknown ones."""
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
            with self.block(f"if {count} > 127:"):
                self.add(
                    f"{count}, p = more(b, p, {count})",
                    f"if {count} > {MOST_TAGGED_FIELDS}: "
                    f"raise too_many({count}, {MOST_TAGGED_FIELDS})",
                )
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
    """Generate the function that reads message class `cls` in that version.

    Returns it, and the field that each of its lines reads.
    """
    builder = _Reader(cls, version)
    builder.structure(cls, "o")
    builder.add("return o, p")
    return builder.compile()
