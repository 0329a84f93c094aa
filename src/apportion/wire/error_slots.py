"""Error responses of requests in which everything failed, from a declaration for each API.

Many responses have no error field of their own: the error stands in an element for each element of
the request, often two arrays deep. `ErrorShape` declares for one API where the errors stand, and
which fields of the request name what has failed. The declarations stand with the broker's other
answers and not in `wire.messages`: that a field of the request names what failed is no part of the
message, and clients, which share the messages, have no use for it.
"""

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from apportion.wire.fields import Field

ERROR_CODE, ERROR_MESSAGE = "error_code", "error_message"


class Slots(NamedTuple):
    """An array of a response: it has an element for each element of an array of the request.

    source: the request's array. copied: the fields that an element takes from the request's
    element, as (response's, request's). item: the field that takes an element that is no message.
    values: what stands in other fields. inner: the arrays within an element, by field.
    """

    source: str
    copied: tuple[tuple[str, str], ...] = ()
    item: str | None = None
    values: Mapping[str, Any] = {}
    inner: Mapping[str, "Slots"] = {}


class ErrorShape(NamedTuple):
    """The error response of one API.

    arrays: the slots of each array, filled in the versions in which the response has no error field
    of its own. values: what stands in its other fields. always_fills_arrays: the arrays are
    filled in all versions.
    """

    response: type[Any]
    arrays: Mapping[str, tuple[Slots, ...]] = {}
    values: Mapping[str, Any] = {}
    always_fills_arrays: bool = False


def slots(
    source: str,
    *copied: str | tuple[str, str],
    item: str | None = None,
    values: Mapping[str, Any] | None = None,
    **inner: Slots,
) -> Slots:
    """Declare slots; a field that is copied under its own name is given by that alone."""
    pairs = tuple((each, each) if isinstance(each, str) else each for each in copied)
    return Slots(source, pairs, item, values or {}, inner)


def error_shape(
    response: type[Any],
    *,
    values: Mapping[str, Any] | None = None,
    always_fills_arrays: bool = False,
    **arrays: Slots | tuple[Slots, ...],
) -> ErrorShape:
    """Declare the error response of an API; several slots of one array follow each other."""
    sources = {name: (each,) if isinstance(each, Slots) else each for name, each in arrays.items()}
    return ErrorShape(response, sources, values or {}, always_fills_arrays)


def fill(shape: ErrorShape, request: Any, version: int, code: int, why: str | None = None) -> Any:
    """Return the response of that shape to `request`, with the error in each of its slots.

    why: the error message, where the response has one.
    """
    fields = _fields(shape.response, version)
    values = {name: value for name, value in shape.values.items() if name in fields}
    values |= _error(fields, code, why)
    if ERROR_CODE not in fields or shape.always_fills_arrays:
        for name, sources in shape.arrays.items():
            if name in fields:
                values[name] = tuple(
                    element
                    for each in sources
                    for element in _elements(each, fields[name], request, version, code, why)
                )
    return shape.response(**values)


def _elements(
    declared: Slots, array: Field, parent: Any, version: int, code: int, why: str | None
) -> Iterable[Any]:
    """Yield the response's elements for the elements of `declared.source` in `parent`."""
    message: Any = array.element
    fields = _fields(message, version)
    same = dict(declared.values) | _error(fields, code, why)
    for item in getattr(parent, declared.source) or ():
        named = {name: getattr(item, source) for name, source in declared.copied}
        if declared.item is not None:
            named[declared.item] = item
        inner = {
            name: tuple(_elements(each, fields[name], item, version, code, why))
            for name, each in declared.inner.items()
        }
        yield message(**same, **named, **inner)


def _error(fields: Mapping[str, Field], code: int, why: str | None) -> dict[str, Any]:
    """Return the values of the error fields among `fields`."""
    error: dict[str, Any] = {ERROR_CODE: code, ERROR_MESSAGE: why}
    return {name: value for name, value in error.items() if name in fields}


def _fields(message: type[Any], version: int) -> dict[str, Field]:
    """Return the fields that the message has in this version, by name."""
    return {field.name: field for field in message.__fields__ if field.is_in(version)}
