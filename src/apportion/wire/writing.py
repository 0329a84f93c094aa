"""Generates the writer of one message class in one version, a Python function without loops.

Each writer is made for the fields of its message, so it needs no loop over them. A writer is called
with (value, append) and hands its parts, in order, to `append`. A writer refuses a value that the
version cannot express: null where there is none, or anything but the default in a field that the
version does not have and that may not be ignored.
"""

from itertools import repeat
from struct import Struct, pack
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
    null_length,
)
from apportion.wire.fields import Field
from apportion.wire.modified import to_modified

ARRAYS_BY_COUNT = 33
ONE_BYTE = tuple(bytes((n,)) for n in range(0x80))
"""The varints of one byte, by value."""
TEXT_ENCODERS = {
    "string": "{0}.encode()",
    "text": "{0}.encode()",
    "utf": "to_modified({0})",
    "chars": "{0}.encode('utf-16-be')",
}
"""The bytes of a text, by kind; the other kinds are bytes."""


def varint(value: int) -> bytes:
    """Return `value` as an unsigned varint of Kafka's flexible versions (KIP-482)."""
    if value < 0x80:
        return ONE_BYTE[value]
    if value < 0x4000:  # as nearly all others
        return bytes((value & 0x7F | 0x80, value >> 7))
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def write_all_null_columns(
    packing: Struct, nulls: tuple[tuple[int, int], ...], count: int, columns: list[Any]
) -> bytes | None:
    """Encode `count` array elements of a message, given as columns in which all texts are null.

    Called by generated writers. Returns None if a text is not null: then they must be written one
    by one.
    """
    for index, null in nulls:
        if columns[index].count(None) != count:
            return None
        columns[index] = repeat(null)
    return b"".join(map(packing.pack, *columns))


GLOBALS = {
    "varint": varint,
    "pack": pack,
    "Malformed": Malformed,
    "ONE_BYTE": ONE_BYTE,
    "to_modified": to_modified,
    "write_all_null_columns": write_all_null_columns,
}


class _Writer(CodecFunctionBuilder):
    """The builder of one writer; see `writer_of`."""

    def __init__(self, cls: Any, version: int) -> None:
        super().__init__("write", cls, version, "def write(o, a):", GLOBALS)
        self.sink = "a"

    def emit_fixed(self, codes: str, expressions: list[str]) -> None:
        """Generate the code that writes a run of adjacent fixed-size fields by one struct.

        codes: their struct codes. expressions: their values. A run of numbers known now is packed
        now, as constant bytes.
        """
        packing = self.struct_of(codes)
        if all(expression.lstrip("-").isdigit() for expression in expressions):
            constant = packing.pack(*(int(expression) for expression in expressions))
            self.append_unflushed(f"{self.sink}({self.bind(constant)})")
        else:
            self.append_unflushed(
                f"{self.sink}({self.bind(packing.pack)}({', '.join(expressions)}))"
            )

    def structure(self, cls: Any, source: str) -> None:
        """Generate the code that writes every field of the message or struct in `source`."""
        for field in cls.__fields__:
            with self.inside_field(field.name):
                if not field.is_in(self.version):
                    self.absent(field, f"{source}.{field.name}")
                elif field.tag is None:
                    self.field(field, f"{source}.{field.name}")
        if self.flexible:
            self.tagged(cls, source)

    def absent(self, field: Field, source: str) -> None:
        """Generate the check of a message field that this version does not have.

        The writer refuses a value other than the default, unless the field is ignorable.
        """
        # As in Kafka: to leave the value out in silence would change what the message means.
        if not field.ignorable:
            self.append_unflushed(
                f"if {self.differs(field, source)}: raise Malformed('this version has no "
                "such field')"
            )

    def must_write_tagged(self, field: Field, source: str) -> str:
        """Return the generated writer's condition under which a tagged field is written.

        Kafka writes a nullable struct even where it is null.
        """
        return (
            "True"
            if field.kind == "struct" and field.is_nullable(self.version)
            else self.differs(field, source)
        )

    def differs(self, field: Field, source: str) -> str:
        """Return the generated writer's condition that a message field is not at its default."""
        if field.default is None:
            return f"{source} is not None"
        if not field.default and not field.is_nullable(self.version):
            return source
        # `is not` first: most fields are at the very object that is their default, and need no
        # comparison.
        default = self.bind(field.default)
        return f"{source} is not {default} and {source} != {default}"

    def field(self, field: Field, source: str) -> None:
        """Generate the code that writes one field of a message."""
        if field.kind in STRUCT_CODES:
            self.append_fixed(STRUCT_CODES[field.kind], source)
            return
        nullable = field.is_nullable(self.version)
        if field.kind == "struct" and not nullable:
            self.structure(field.element, source)
            return
        value = self.fresh_name("v")
        self.add(f"{value} = {source}")
        if nullable:
            with self.block(f"if {value} is None:"):
                self.null(field)
        with self.unless_null(field):
            if field.kind == "struct":
                self.append_fixed("b", "1")
                self.structure(field.element, value)
            elif field.kind == "array":
                self.array(field, value)
            elif field.kind == "columns":
                self.columns(field, value)
            else:
                self.run_of_bytes(field, value)

    def null(self, field: Field) -> None:
        """Generate the code that writes null for a message field."""
        if field.kind == "struct":
            self.append_fixed("b", str(NULL_STRUCT if field.tag is None else NULL_TAGGED_STRUCT))
        elif self.flexible:
            self.append_fixed("B", "0")
        else:
            self.append_fixed(length_code(field), str(null_length(field)))

    def length(self, field: Field, value: str) -> str:
        """Generate the code that writes the length of `value`; return the name of its variable."""
        size = self.fresh_name("n")
        # KIP-482: a length is stored plus one, and 0 is null.
        if self.flexible:
            self.add(
                f"{size} = len({value}) + 1",
                f"{self.sink}(ONE_BYTE[{size}] if {size} < 128 else varint({size}))",
            )
        else:
            self.add(f"{size} = len({value}){' // 2' if field.kind == 'chars' else ''}")
            self.append_fixed(length_code(field), size)
        return size

    def run_of_bytes(self, field: Field, value: str) -> None:
        """Generate the code that writes a string or bytes field of a message."""
        if field.kind in TEXT_ENCODERS:
            self.add(f"{value} = {TEXT_ENCODERS[field.kind].format(value)}")
        if field.kind == "chars" and field.is_nullable(self.version):
            self.add(f"if not {value}: raise Malformed('it is empty, which would be null')")
        self.length(field, value)
        self.add(f"{self.sink}({value})")

    def array(self, field: Field, value: str) -> None:
        """Generate the code that writes an array field of a message from a tuple."""
        element = field.element
        size = self.length(field, value)
        if isinstance(element, Field) and element.kind in INTEGERS:
            code = STRUCT_CODES[element.kind]
            few = self.bind(tuple(Struct(f">{n}{code}").pack for n in range(ARRAYS_BY_COUNT + 1)))
            count = f"{size} - 1" if self.flexible else size
            many = f"pack(f'>{{{count}}}{code}', *{value})"
            self.add(
                f"{self.sink}({few}[{count}](*{value}) if {size} <= {ARRAYS_BY_COUNT} else {many})"
            )
            return
        item = self.fresh_name("o")
        with self.block(f"for {item} in {value}:"):
            if isinstance(element, Field):
                self.field(element, item)
            else:
                self.structure(element, item)

    def columns(self, field: Field, value: str) -> None:
        """Generate the code that writes an array field which is declared as columns.

        All elements are written at once if all texts are null, else one by one.
        """
        assert not self.flexible, f"{field.name} has columns in a flexible version"
        fields, size = fields_of(field), self.fresh_name("n")
        indexes = [index for index, column in enumerate(fields) if column.is_in(self.version)]
        present = tuple(fields[index] for index in indexes)
        self.add(f"{size} = len({value}[0])")
        self.add(
            f"if any(len(each) != {size} for each in {value}): raise Malformed('its "
            "columns differ in length')"
        )
        for index, column in enumerate(fields):
            if index not in indexes:
                with self.inside_field(column.name), self.block(f"for each in {value}[{index}]:"):
                    self.absent(column, "each")
                    self.add("pass")
        self.append_fixed("i", size)
        codes, nulls = all_null_layout(present, self.version)
        row, encoded = self.fresh_name("o"), self.fresh_name("s")
        if codes:
            columns = ", ".join(f"{value}[{index}]" for index in indexes)
            self.add(
                f"{encoded} = write_all_null_columns({self.bind(Struct('>' + codes))}, "
                f"{self.bind(nulls)}, {size}, [{columns}])"
            )
            with self.block(f"if {encoded} is not None:"):
                self.add(f"{self.sink}({encoded})")
        if nulls or not codes:
            with (
                self.block("else:" if codes else "if True:"),
                self.block(f"for {row} in zip(*{value}, strict=True):"),
            ):
                for index, column in zip(indexes, present, strict=True):
                    with self.inside_field(column.name):
                        self.field(column, f"{row}[{index}]")

    def tagged(self, cls: Any, source: str) -> None:
        """Generate the code that writes a struct's tagged fields which are not at their defaults.

        The fields are written in the order of their tags (KIP-482).
        """
        known = [
            field for field in cls.__fields__ if field.tag is not None and field.is_in(self.version)
        ]
        if not known:
            self.append_fixed("B", "0")
            return
        tags, outer = self.fresh_name("t"), self.sink
        self.add(f"{tags} = []")
        # KIP-482: tagged fields are written in the order of their tags.
        for field in sorted(known, key=lambda field: field.tag or 0):
            parts = self.fresh_name("w")
            body = self.fresh_name("s")
            value = f"{source}.{field.name}"
            with (
                self.inside_field(field.name),
                self.block(f"if {self.must_write_tagged(field, value)}:"),
            ):
                # Apart from the rest, because a tagged field begins with its size.
                self.sink = self.fresh_name("a")
                self.add(f"{parts} = []; {self.sink} = {parts}.append")
                self.field(field, value)
                self.add(f"{body} = b''.join({parts})")
                self.sink = outer
                self.add(
                    f"{tags}.append({self.bind(varint(field.tag or 0))} + "
                    f"varint(len({body})) + {body})"
                )
        none = self.bind(varint(0))
        self.add(f"{self.sink}(varint(len({tags})) + b''.join({tags}) if {tags} else {none})")


def writer_of(cls: Any, version: int) -> tuple[Any, tuple[str, ...]]:
    """Generate the function that writes message class `cls` in that version.

    Returns it, and the field that each of its lines writes.
    """
    builder = _Writer(cls, version)
    builder.structure(cls, "o")
    builder.add("return")
    return builder.compile()
