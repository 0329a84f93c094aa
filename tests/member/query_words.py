"""Messages of Kafka's protocol as words, and words as messages: for the scripts of queries.

A message is `field=value field=value`, a struct in it stands in brackets, and the elements of an
array have commas between them. Fields with their default value are left out.
"""

import dataclasses
from collections.abc import Iterator, Mapping
from enum import Enum
from typing import Any

from apportion.errors import Code, Refused
from apportion.topics import TopicIdPartition, TopicPartition
from tests.member.script_responses import data, read
from tests.member.script_words import api_of, declared, fields, joined, words

OPEN, CLOSE = "(", ")"


def request_words(query: Any) -> str:
    """The request that a query sends."""
    request = query.request()
    version = [] if query.version is None else [f"in version {query.version}"]
    return joined(api_of(request), *fields(request), *version)


def message(kind: Any, text: str) -> Any:
    """The message of this class with the fields in the text."""
    known = {field.name: field for field in kind.__fields__}
    values = {}
    for word in split(text, " "):
        name, _, value = word.partition("=")
        values[name] = content(known[name], value)
    return kind(**values)


def content(field: Any, text: str) -> Any:
    """The value of a field in the text."""
    if text == "null":
        return None
    if field.kind == "array":
        return tuple(element(field.element, each) for each in split(text, ","))
    return element(field, text)


def element(kind: Any, text: str) -> Any:
    """A value of one type: a struct, or a scalar."""
    struct = getattr(kind, "element", kind)
    if hasattr(struct, "__fields__"):
        return message(struct, text.removeprefix(OPEN).removesuffix(CLOSE))
    text = text.strip('"') if text.startswith('"') else text
    match kind.kind:
        case "uuid":
            return text.encode() * 16 if len(text) == 1 else data(text)
        case "bytes" | "records":
            return data(text)
        case "string" | "text":
            return text
    return Code[text] if text in Code.__members__ else read(text)


def split(text: str, by: str) -> list[str]:
    """The parts of a text between the separators that stand in no brackets and in no quotes."""
    parts, depth, is_quoted = [""], 0, False
    for letter in text:
        is_quoted ^= letter == '"'
        if not is_quoted:
            depth += (letter == OPEN) - (letter == CLOSE)
        if letter == by and not depth and not is_quoted:
            parts.append("")
        else:
            parts[-1] += letter
    return [part for part in parts if part]


def result_words(value: Any) -> str:
    """What a query has read in a response, as words."""
    match value:
        case TopicIdPartition(topic, _, number) | TopicPartition(topic, number):
            return f"{topic}-{number}"
        case Refused():
            return f"Refused {value}"
        case Enum():
            return value.name
        case Mapping():
            pairs = (f"{result_words(key)}: {result_words(each)}" for key, each in value.items())
            return f"{{{', '.join(pairs)}}}"
        case tuple() if not hasattr(value, "_fields"):
            return f"[{', '.join(map(result_words, value))}]"
        case None | bool() | int() | str() | bytes() | memoryview():
            return words(value)
    filled_in = (f"{name}={result_words(each)}" for name, each in filled(value))
    return f"{type(value).__name__}({' '.join(filled_in)})"


def filled(value: Any) -> Iterator[tuple[str, Any]]:
    """The fields that have not their default value."""
    if hasattr(value, "_fields"):
        defaults = value._field_defaults
        pairs = [(name, defaults.get(name, dataclasses.MISSING)) for name in value._fields]
    else:
        pairs = list(declared(value))
    for name, default in pairs:
        content = getattr(value, name)
        if content is not default and content != default:
            yield name, content
