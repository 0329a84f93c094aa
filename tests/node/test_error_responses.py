"""The response of each API to a request in which everything failed, in each version."""

from typing import Any

import pytest

from apportion.errors import Code
from apportion.machine import Arrived, Caller, Ticket
from apportion.node.error_responses import error_response
from apportion.wire.codec import write
from apportion.wire.fields import Field
from apportion.wire.table import SERVED_APIS, Api

NAMES = {
    *("group_id", "key", "name", "topic", "topic_id", "index", "partition", "partition_index"),
    *("resource_name", "resource_type", "user"),
}
"""The fields of a response that say which element of the request has failed."""

CODES = {"error_code"}

MARKS: dict[str, Any] = {
    **dict.fromkeys(("int8", "int16", "int32", "int64"), 77),
    **dict.fromkeys(("bytes", "records"), b"marked"),
    "bool": True,
    "uuid": b"m" * 16,
    "string": "marked",
}


def marked(kind: Any, version: int) -> Any:
    """A message with a mark in every field, and one element in every array."""
    return kind(
        **{each.name: mark(each, version) for each in kind.__fields__ if each.is_in(version)}
    )


def mark(field: Field, version: int) -> Any:
    if field.kind == "columns":
        return field.default
    if field.element is None:
        return MARKS[field.kind]
    element = (
        mark(field.element, version)
        if isinstance(field.element, Field)
        else marked(field.element, version)
    )
    return (element,) if field.kind == "array" else element


def marked_fields(value: Any) -> set[str]:
    """The fields of a message, and of its elements, that have a mark."""
    found: set[str] = set()
    for each in value.__fields__:
        own = getattr(value, each.name)
        if each.kind in MARKS and own == MARKS[each.kind]:
            found.add(each.name)
        for element in own if isinstance(own, tuple) else ():
            found |= marked_fields(element)
    return found


def known_numbers(value: Any) -> set[str]:
    """The fields of a message, and of its elements, whose number does not stand for none."""
    found: set[str] = set()
    for each in value.__fields__:
        own = getattr(value, each.name)
        if type(own) is int and own not in (-1, 0, each.default):
            found.add(each.name)
        for element in own if isinstance(own, tuple) else ():
            found |= known_numbers(element)
    return found


@pytest.mark.parametrize("api", SERVED_APIS.values(), ids=lambda api: api.name)
def test_an_error_response_repeats_of_its_request_only_what_names_an_element(api: Api) -> None:
    for version in api.versions:
        request = marked(api.request, version)
        arrived = Arrived(Ticket(1), request, version, Caller("", ""), bytes(16))
        response = error_response(arrived, Code.UNKNOWN_SERVER_ERROR)
        write(response, version)
        assert marked_fields(response) <= NAMES
        assert known_numbers(response) <= NAMES | CODES
