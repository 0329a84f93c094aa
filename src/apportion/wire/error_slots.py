"""Error responses, of whole requests and of single elements, from a declaration for each API.

Many responses have no error field of their own: the error stands in an element for each element of
the request, often two arrays deep. It takes the fields that the request's element has, too: they
name what failed. So an API declares only where its response differs from its request, and does so
beside the handlers, not in `wire.messages` (decision 44).
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

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
        return self._with(refusal)._message(self.response, arrived.request, arrived.version, {})

    def element(self, array: str, item: Any, version: int, refusal: Refused) -> Any:
        """Return the element of the response's array that answers `item`, with the error.

        For a response of which only some elements have an error.
        """
        slots = self._with(refusal)
        kind = next(each.element for each in self.response.__fields__ if each.name == array)
        return slots._message(kind, item, version, slots._names(item))

    def _with(self, refusal: Refused) -> "ErrorSlots":
        """Return the slots with this error as the value of each."""
        why = refusal.why if self.is_explained else None
        error = {ERROR_CODE: int(refusal.code), ERROR_MESSAGE: why}
        return replace(self, values={**self.values, **error})

    def _message(self, kind: Any, source: Any, version: int, named: Mapping[str, Any]) -> Any:
        """Return the response, or an element of it, that answers `source`.

        named: the fields by which an element names its source.
        """
        fields = {each.name: each for each in kind.__fields__ if each.is_in(version)}
        values = {name: value for name, value in {**named, **self.values}.items() if name in fields}
        if ERROR_CODE not in fields or self.always_fills_arrays:
            for name, each in fields.items():
                if each.kind == "array":
                    values[name] = tuple(self._elements(each, source, version))
        return kind(**values)

    def _elements(self, array: Field, source: Any, version: int) -> Iterator[Any]:
        """Yield the elements of an array of the response, for those of its arrays in `source`."""
        names = self.sources.get(array.name, array.name)
        for name in (names,) if isinstance(names, str) else names:
            for item in getattr(source, name, None) or ():
                yield self._message(array.element, item, version, self._names(item))

    def _names(self, item: Any) -> dict[str, Any]:
        """Return what names an element of the request, by the fields of a response's element."""
        if not hasattr(item, "__fields__"):
            return {self.item: item}
        own = {each.name: getattr(item, each.name) for each in item.__fields__ if not each.element}
        return own | {name: own[source] for name, source in self.sources.items() if source in own}
