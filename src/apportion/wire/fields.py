"""Declaration of messages: one class for all versions of a message.

`@message` turns an annotated class into a plain slots class with keyword arguments, equality and a
repr, and keeps the declared fields as `__fields__` for the codec. A field that a version does not
have reads as its default; writing a value other than the default to a version that does not have it
is an error, unless the field is declared `ignorable`. A field that is declared `secret` holds a
password or what stands for one: the repr, which log lines and error texts are made of, hides it.
"""

import builtins
from collections.abc import Sequence
from dataclasses import dataclass
from inspect import get_annotations
from typing import Any, TypeVar, cast, dataclass_transform

FOREVER = 32767
HIDDEN = "[hidden]"
"""Stands for the value of a secret field in a repr, as Kafka writes its passwords."""
ZERO: Any = type("Zero", (), {"__repr__": lambda _self: "ZERO"})()
"""Stands for the default of a struct until its class is known: that class with all its own
defaults.
"""


@dataclass(frozen=True, slots=True)
class Field:
    """One declared field. `since` and `until` are the first and the last version that has it."""

    # bool int8 int16 uint16 int32 uint32 int64 float64 uuid string text utf chars bytes records
    # array columns struct
    kind: str
    default: Any
    since: int = 0
    until: int = FOREVER
    nullable: int = FOREVER + 1  # first version in which null is a value
    tag: int | None = None  # a tagged field of flexible versions
    ignorable: bool = False
    element: "type[Any] | Field | None" = None  # an array's element, or the class of a struct
    name: str = ""
    secret: bool = False

    def is_nullable(self, version: int) -> bool:
        """Return whether the field may be null in that version."""
        return version >= self.nullable

    def is_in(self, version: int) -> bool:
        """Return whether that version has the field at all."""
        return self.since <= version <= self.until


def _scalar(kind: str, zero: Any) -> Any:
    """Return the function that declares a message's field of the scalar type `kind`."""

    def declare(
        *,
        since: int = 0,
        until: int = FOREVER,
        default: Any = zero,
        tag: int | None = None,
        ignorable: bool = False,
        nullable: int = FOREVER + 1,
        secret: bool = False,
    ) -> Any:
        return Field(kind, default, since, until, nullable, tag, ignorable, secret=secret)

    declare.__doc__ = f"A field of Kafka's type {kind}."
    declare.__name__ = kind
    return declare


boolean = _scalar("bool", False)
int8 = _scalar("int8", 0)
int16 = _scalar("int16", 0)
uint16 = _scalar("uint16", 0)
int32 = _scalar("int32", 0)
uint32 = _scalar("uint32", 0)
int64 = _scalar("int64", 0)
float64 = _scalar("float64", 0.0)
uuid = _scalar("uuid", bytes(16))
string = _scalar("string", "")
text = _scalar("text", "")  # a string whose length is an int32
utf = _scalar("utf", "")  # Java's writeUTF: a uint16 length, and modified UTF-8
# Java's writeChars: an int32 count, and UTF-16; where it can be null, no characters mean null
chars = _scalar("chars", "")
octets = _scalar("bytes", b"")
records = _scalar("records", None)


def array(
    element: "type[Any] | Any",
    *,
    since: int = 0,
    until: int = FOREVER,
    default: Any = (),
    nullable: int = FOREVER + 1,
    tag: int | None = None,
    ignorable: bool = False,
) -> Any:
    """Declare an array field of a message: a message class, or a scalar such as `int32()`."""
    return Field("array", default, since, until, nullable, tag, ignorable, element)


def columns(
    element: type[Any], *, since: int = 0, until: int = FOREVER, ignorable: bool = False
) -> Any:
    """Declare an array field of a message as columns: a tuple for each field of `element`.

    For long arrays in versions that are not flexible: where all elements take the same bytes, they
    are read and written at once.
    """
    return Field(
        "columns",
        ((),) * len(element.__fields__),
        since,
        until,
        ignorable=ignorable,
        element=element,
    )


def struct(
    element: type[Any],
    *,
    since: int = 0,
    until: int = FOREVER,
    default: Any = ZERO,
    nullable: int = FOREVER + 1,
    tag: int | None = None,
    ignorable: bool = False,
) -> Any:
    """Declare a field of a message that is a value of another message class.

    The default is a value of that class with all defaults, or None where given.
    """
    return Field("struct", default, since, until, nullable, tag, ignorable, element)


C = TypeVar("C", bound=type)
M = TypeVar("M")


@dataclass_transform(kw_only_default=True, frozen_default=True)
def message(
    *,
    key: int | None = None,
    versions: Sequence[int] = range(1),
    flexible: int = FOREVER + 1,
    type: str = "struct",
) -> Any:
    """Declare a message of Kafka's protocol; a class decorator.

    key: the API key of a request or response, the record type of a coordinator record; None for a
    part of another message.
    versions: all versions that can be read and written. flexible: the first one with compact
    lengths and tags. A part of another message takes the version of its whole, and its `versions`
    say nothing.
    type: "request", "response", "key", "value" or "struct".
    """

    def declare(cls: Any) -> Any:
        """Return the message class made from the annotated one."""
        fields = tuple(
            _with_name_and_default(name, getattr(cls, name)) for name in get_annotations(cls)
        )
        # A class of its own, because `__slots__` cannot be given to one that exists.
        body = {
            "__slots__": tuple(field.name for field in fields),
            "__doc__": cls.__doc__,
            "__module__": cls.__module__,
            "__qualname__": cls.__qualname__,
            "__init__": _generated_on_first_use(fields),
            "__eq__": _equal,
            "__hash__": None,
            "__repr__": _repr,
            "__reduce__": _reduce,
            "__fields__": fields,
            "__key__": key,
            "__versions__": versions,
            "__flexible__": flexible,
            "__type__": type,
        }
        return builtins.type(cls.__name__, (), body)

    return declare


def _with_name_and_default(name: str, field: Field) -> Field:
    """Return a message's declared field with its name and its default, which all values share."""
    return Field(
        field.kind,
        cast("Any", field.element)() if field.default is ZERO else field.default,
        field.since,
        field.until,
        field.nullable,
        field.tag,
        field.ignorable,
        field.element,
        name,
        field.secret,
    )


def replaced(value: M, **changes: Any) -> M:
    """Return a copy of a message with some of its fields changed."""
    kind: Any = type(value)
    copy: M = kind(**{name: getattr(value, name) for name in kind.__slots__} | changes)
    return copy


def _generated_on_first_use(fields: tuple[Field, ...]) -> Any:
    """Return a message class's `__init__` that puts the generated one in its place, and calls it.

    Most of the messages that are declared are never made: a start need not wait for their code.
    """

    def __init__(self: Any, **values: Any) -> None:
        self.__class__.__init__ = _initialiser(fields)
        self.__init__(**values)

    return __init__


def _initialiser(fields: tuple[Field, ...]) -> Any:
    """Return a message class's `__init__` that takes every field by keyword, without a loop."""
    names = {f"default_{field.name}": field.default for field in fields}
    arguments = ", ".join(f"{field.name}=default_{field.name}" for field in fields)
    # As source text, since a loop over the fields would take longer than the rest of a small
    # message.
    lines = [f"    self.{field.name} = {field.name}" for field in fields] or ["    pass"]
    exec(f"def __init__(self, {'*, ' if fields else ''}{arguments}):\n" + "\n".join(lines), names)
    return names["__init__"]


def _equal(self: Any, other: Any) -> Any:
    """Return whether two messages have the same class and equal fields."""
    if self.__class__ is not other.__class__:
        return NotImplemented
    return all(getattr(self, name) == getattr(other, name) for name in self.__slots__)


def _repr(self: Any) -> str:
    """Return a message's text, with the fields that are not at their defaults, secrets hidden."""
    changed = (
        f"{field.name}={HIDDEN if field.secret else repr(value)}"
        for field in self.__fields__
        if (value := getattr(self, field.name)) != field.default
    )
    return f"{self.__class__.__name__}({', '.join(changed)})"


def _reduce(self: Any) -> Any:
    return _from_values, (self.__class__, tuple(getattr(self, name) for name in self.__slots__))


def _from_values(cls: Any, values: tuple[Any, ...]) -> Any:
    return cls(**dict(zip(cls.__slots__, values, strict=True)))
