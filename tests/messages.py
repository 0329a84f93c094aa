"""Requests and responses from plain values: a dict stands for a struct, a list for an array."""

from typing import Any

from apportion.wire.table import APIS

BY_NAME = {api.name: api for api in APIS.values()}


def request(api: str, **fields: Any) -> Any:
    """Return a request, as in `request("DeleteTopics", topics=[{"name": "t"}])`."""
    return built(BY_NAME[api].request, fields)


def response(api: str, **fields: Any) -> Any:
    """Return a response in the same way."""
    return built(BY_NAME[api].response, fields)


def built(message: Any, fields: dict[str, Any]) -> Any:
    """Return the message of this class with these fields."""
    elements = {field.name: field.element for field in message.__fields__}
    return message(**{name: _value(elements.get(name), each) for name, each in fields.items()})


def _value(element: Any, value: Any) -> Any:
    if isinstance(value, list | tuple):
        return tuple(_value(element, each) for each in value)
    return built(element, value) if isinstance(value, dict) else value
