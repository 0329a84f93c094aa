"""Where two brokers answer a try differently, and which of these differences are meant to be."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from tests.kafka.acl_matrix.play import Try
from tests.kafka.acl_matrix.side import Plain


class Seen(NamedTuple):
    """One place of one answer; lists in it are numbered."""

    tried: Try
    path: tuple[str, ...]
    ours: Plain
    theirs: Plain

    def line(self) -> str:
        """For a reader."""
        where = ".".join(self.path) or "answer"
        return f"{self.tried.line()}: {where}: apportion {self.ours!r}, Kafka {self.theirs!r}"


@dataclass(slots=True)
class Meant:
    """A row of docs/differences.md, and where it was seen."""

    name: str
    matches: Callable[[Seen], bool]
    seen: int = field(default=0)


def meant() -> list[Meant]:
    """The rows that the matrix meets."""
    return [
        Meant(
            "an error message in the response to a refused request",
            lambda seen: at(seen, "error_message", True, False),
        ),
        Meant(
            "a topic that a Metadata request creates",
            lambda seen: (
                seen.tried.case.name.startswith("Metadata that creates")
                and seen.path[-1] in ("error_code", "topic_id", "partitions")
                and seen.theirs in (3, "-", [])
            ),
        ),
        Meant(
            "the topic id in the response to CreateTopics with `validate_only`",
            lambda seen: at(seen, "topic_id", "-", "some id"),
        ),
        Meant(
            "DescribeUserScramCredentials for a user, refused",
            lambda seen: (
                seen.tried.case.name == "DescribeUserScramCredentials"
                and (seen.path, seen.ours) == (("results",), [])
            ),
        ),
        Meant(
            "the loggers of a broker",
            lambda seen: seen.tried.case.name == "ListConfigResources",
        ),
    ]


def at(seen: Seen, name: str, ours: Plain, theirs: Plain) -> bool:
    """Whether the brokers say just this of a field."""
    return (seen.path[-1:], seen.ours, seen.theirs) == ((name,), ours, theirs)


def differences(tried: Try, ours: Plain, theirs: Plain) -> list[Seen]:
    """All places where they differ."""
    return [
        Seen(tried, path, our, their)
        for path, our, their in _differences(without_texts(ours), without_texts(theirs), ())
    ]


def without_texts(value: Plain, name: str = "") -> Plain:
    """The same with each message as whether there is one."""
    if isinstance(value, dict):
        return {key: without_texts(each, key) for key, each in value.items()}
    if isinstance(value, list):
        return sorted((without_texts(each, name) for each in value), key=repr)
    return value not in (None, "", "NONE") if name.endswith("error_message") else value


def _differences(
    ours: Plain, theirs: Plain, path: tuple[str, ...]
) -> Iterator[tuple[tuple[str, ...], Any, Any]]:
    if isinstance(ours, dict) and isinstance(theirs, dict) and ours.keys() == theirs.keys():
        for key in ours:
            yield from _differences(ours[key], theirs[key], (*path, key))
    elif isinstance(ours, list) and isinstance(theirs, list) and len(ours) == len(theirs):
        for number, (our, their) in enumerate(zip(ours, theirs, strict=True)):
            yield from _differences(our, their, (*path, str(number)))
    elif ours != theirs:
        yield path, ours, theirs
