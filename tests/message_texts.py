"""Requests and responses as text: `OffsetFetch groups=[group_id=g topics=null, group_id=h]`.

A part stands in its list without its name, `,` between two of them; what has its default is left
out. An error code is its name, `null` is null, ids of topics are their names, and records are their
offsets and values. Text with a space or a bracket stands in `"`.
"""

from collections.abc import Mapping
from typing import Any

from apportion.errors import Code
from apportion.wire.batch import decode_batch, split_batches
from tests.messages import BY_NAME

ALL_DEFAULTS = "-"
"""A part of which nothing is left to say."""
UNSAID = {("CreatableTopicResult", "configs")}
"""Every setting of a new topic, which tests of settings look at."""
CODES = ("error_code", "topic_error_code")


def request_of(text: str, ids: Mapping[str, bytes] | None = None) -> Any:
    """The request of that text."""
    name, _, fields = text.partition(" ")
    return part(BY_NAME[name].request, fields, ids or {})


def request_and_version(line: str, ids: Mapping[str, bytes]) -> tuple[Any, int]:
    """The request of a line, whose second word may be its version; else that is the newest."""
    name, _, fields = line.partition(" ")
    word, _, rest = fields.partition(" ")
    has_version = word.isdigit()
    version = int(word) if has_version else BY_NAME[name].versions[-1]
    return request_of(f"{name} {rest if has_version else fields}", ids), version


def part(kind: Any, text: str, ids: Mapping[str, bytes]) -> Any:
    """A message, or a part of one, with the fields of that text."""
    fields = {field.name: field for field in kind.__fields__}
    given = dict(each.split("=", 1) for each in split(text, " ") if each != ALL_DEFAULTS)
    return kind(**{name: value(fields[name], each, ids) for name, each in given.items()})


def value(field: Any, text: str, ids: Mapping[str, bytes]) -> Any:
    """The value of a field."""
    if text == "null":
        return None
    if field.kind == "array":
        pieces = split(text.removeprefix("[").removesuffix("]"), ",")
        if hasattr(field.element, "__fields__"):
            return tuple(part(field.element, each, ids) for each in pieces)
        return tuple(value(field.element, each, ids) for each in pieces)
    if field.kind == "struct":
        return part(field.element, text.removeprefix("[").removesuffix("]"), ids)
    if field.kind == "uuid":
        return ids.get(text) or bytes.fromhex(text)
    if field.kind == "bytes":
        return text.encode()
    if field.kind == "bool":
        return text == "yes"
    return text.strip('"') if field.kind in ("string", "text") else int(text)


def split(text: str, mark: str) -> list[str]:
    """The pieces between marks that stand in no bracket and in no quotes."""
    pieces, depth, is_quoted = [""], 0, False
    for sign in text:
        is_quoted ^= sign == '"'
        depth += 0 if is_quoted else (sign == "[") - (sign == "]")
        if sign == mark and not depth and not is_quoted:
            pieces.append("")
        else:
            pieces[-1] += sign
    return [piece.strip() for piece in pieces if piece.strip()]


def words(message: Any, ids: Mapping[str, bytes] | None = None) -> str:
    """What a message says, but for defaults."""
    names = {some_id: name for name, some_id in (ids or {}).items()}
    said = [
        f"{field.name}={text_of(field, given, names)}"
        for field in message.__fields__
        if (given := getattr(message, field.name)) != field.default
        and (type(message).__name__, field.name) not in UNSAID
    ]
    return " ".join(said)


def text_of(field: Any, given: Any, names: Mapping[bytes, str]) -> str:
    """The value of a field as text."""
    if given is None:
        return "null"
    if getattr(field, "name", "") in CODES:
        return Code(given).name
    if hasattr(given, "__fields__"):
        return f"[{words(given, {name: some_id for some_id, name in names.items()})}]"
    if isinstance(given, tuple):
        parts = [text_of(field.element, each, names) for each in given]
        if parts and hasattr(given[0], "__fields__"):
            parts = [each[1:-1] or ALL_DEFAULTS for each in parts]
        return f"[{', '.join(parts)}]"
    if getattr(field, "kind", "") == "records":
        records = [each for batch in split_batches(given) for each in decode_batch(batch)]
        values = [f"{each.offset}:{bytes(each.value or b'').decode()}" for each in records]
        return f"[{', '.join(values)}]"
    if isinstance(given, bytes | memoryview):
        some = bytes(given)
        return names.get(some) or (
            some.decode() if some.isascii() and some.decode().isprintable() else some.hex()
        )
    if isinstance(given, bool):
        return "yes" if given else "no"
    return f'"{given}"' if isinstance(given, str) and set(given) & set(' ,[]"') else str(given)
