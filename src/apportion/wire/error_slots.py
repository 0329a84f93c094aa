"""Error responses, of whole requests and of single elements, from a declaration for each API.

Many responses have no error field of their own: the error stands in an element for each element of
the request, often two arrays deep. It takes the fields that the request's element has, too: they
name what failed. So an API declares only where its response differs from its request, and does so
beside the handlers, not in `wire.messages` (decision 44).
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any, NamedTuple, Protocol

from apportion.errors import Refused
from apportion.machine import Arrived
from apportion.wire.fields import Field

ErrorResponse = Callable[[Arrived, Refused], Any]
"""Returns the response of an API to a request that was refused as a whole."""

ERROR_CODE, ERROR_MESSAGE = "error_code", "error_message"


@dataclass(frozen=True, slots=True)
class ErrorSlots:
    """The error response of one API, as an `ErrorResponse`.

    An array of the response gets an element for each element of the request's array, in the
    versions in which what holds the array has no error field.
    sources: the request's array or field, by that of the response, where their names differ; one
    array of the response may have several. item: the field that takes an element that is no
    message. values: what stands in other fields, whatever the request has there. is_explained: the
    error message says why. always_fills_arrays: the arrays are filled in all versions.
    """

    response: type[Any]
    sources: Mapping[str, str | tuple[str, ...]] = field(default_factory=dict)
    item: str = ""
    values: Mapping[str, Any] = field(default_factory=dict)
    is_explained: bool = False
    always_fills_arrays: bool = False

    def __call__(self, arrived: Arrived, refusal: Refused) -> Any:
        """Return the response to the request, with the error in each of its slots."""
        error = _Error(arrived.version, self._values(refusal))
        return self._message(self.response, arrived.request, {}, error)

    def elements(self, array: str, version: int) -> "ElementErrors":
        """Return the refusals of elements of a request, as elements of the response's array.

        For a response of which only some elements have an error.
        """
        kind = next(each.element for each in self.response.__fields__ if each.name == array)

        def element(item: Any, refusal: Refused) -> Any:
            error = _Error(version, self._values(refusal))
            return self._message(kind, item, self._names(item), error)

        return element

    def _values(self, refusal: Refused) -> dict[str, Any]:
        """Return the values of all fields that do not name an element."""
        why = refusal.why if self.is_explained else None
        return {**self.values, ERROR_CODE: int(refusal.code), ERROR_MESSAGE: why}

    def _message(self, kind: Any, source: Any, named: Mapping[str, Any], error: "_Error") -> Any:
        """Return the response, or an element of it, that answers `source`.

        named: the fields by which an element names its source.
        """
        fields = _fields(kind, error.version)
        values = {
            name: value for name, value in {**named, **error.values}.items() if name in fields.names
        }
        if fields.arrays and (self.always_fills_arrays or ERROR_CODE not in fields.names):
            for each in fields.arrays:
                values[each.name] = tuple(self._elements(each, source, error))
        return kind(**values)

    def _elements(self, array: Field, source: Any, error: "_Error") -> Iterator[Any]:
        """Yield the elements of an array of the response, for those of its arrays in `source`."""
        names = self.sources.get(array.name, array.name)
        for name in (names,) if isinstance(names, str) else names:
            for item in getattr(source, name, None) or ():
                yield self._message(array.element, item, self._names(item), error)

    def _names(self, item: Any) -> dict[str, Any]:
        """Return what names an element of the request, by the fields of a response's element."""
        kind: Any = type(item)
        names = _plain_fields(kind)
        if names is None:
            return {self.item: item}
        own = {name: getattr(item, name) for name in names}
        return own | {name: own[source] for name, source in self.sources.items() if source in own}


class ElementErrors(Protocol):
    """The refusals of the elements of one array of a request."""

    def __call__(self, item: Any, refusal: Refused, /) -> Any:
        """Return the element of the response that refuses this one of the request."""
        ...


class _Error(NamedTuple):
    """An error in one version of an API, with the values of the fields that say it."""

    version: int
    values: Mapping[str, Any]


class _Fields(NamedTuple):
    """The fields of a message in one version, and those of them that are arrays."""

    names: frozenset[str]
    arrays: tuple[Field, ...]


# Cached, because a request may have a hundred thousand elements.
@cache
def _fields(kind: Any, version: int) -> _Fields:
    """Return the fields of a message that are there in a version."""
    there = [each for each in kind.__fields__ if each.is_in(version)]
    arrays = tuple(each for each in there if each.kind == "array")
    return _Fields(frozenset(each.name for each in there), arrays)


@cache
def _plain_fields(kind: Any) -> tuple[str, ...] | None:
    """Return the fields of a request's element that have no elements; None for a plain value."""
    fields: tuple[Field, ...] | None = getattr(kind, "__fields__", None)
    if fields is None:
        return None
    return tuple(each.name for each in fields if not each.element)
