"""Requests that name something twice: in every API, the first element of every list, once more
behind the others.

The requests stand in `twice_requests.py`. A case is one list of one of them with an element that
comes again, as it was or (where there is something to say about it) with other words. What must be
there before, and what is seen after, are cases themselves.
"""

from collections.abc import Iterator
from typing import Any

from tests.kafka.differential.twice_requests import OTHERWISE, REQUESTS, TWICE, Whole
from tests.kafka.differential.wrong import Case

Path = tuple[str, ...]


def doubled(value: Any, path: Path = ()) -> Iterator[tuple[Path, str, Any]]:
    """The value with one element twice, for each list in it: where, how the second one differs, and
    the value.
    """
    for name in (field.name for field in value.__fields__):
        part = getattr(value, name)
        if not isinstance(part, tuple) or not part:
            continue
        here = (*path, name)
        for how, again in (("", part[0]), *otherwise(part[0])):
            yield here, how, changed(value, name, (*part, again))
        if hasattr(part[0], "__fields__"):
            for where, how, first in doubled(part[0], here):
                yield where, how, changed(value, name, (first, *part[1:]))


def otherwise(element: Any) -> Iterator[tuple[str, Any]]:
    """The element with other words about the same thing."""
    for name, words in OTHERWISE.get(type(element).__name__, {}).items():
        yield f", other {name}", changed(element, name, words)


def changed(value: Any, name: str, part: Any) -> Any:
    """The message with another value in that field."""
    return type(value)(
        **{field.name: getattr(value, field.name) for field in value.__fields__} | {name: part}
    )


def cases_of(whole: Whole, version: int) -> Iterator[tuple[Path, Case]]:
    """The cases of one request in one version, each with a group of its own, and with the path of
    the list that it is about.
    """
    for path, how, _ in doubled(whole.request(bytes(16), "")):
        name = f"{whole.name} {version}, twice in {'.'.join(path)}{how}"

        def request(twice: bytes, name: str = name, wanted: tuple[Path, str] = (path, how)) -> Any:
            return next(
                each
                for *which, each in doubled(whole.request(twice, name))
                if tuple(which) == wanted
            )

        for number, (other, make) in enumerate(whole.before, 1):
            yield (
                path,
                Case(
                    f"{name}: before {number}",
                    other,
                    lambda twice, make=make, name=name: make(twice, name),
                    TWICE,
                ),
            )
        yield path, Case(name, version, request, TWICE)
        for number, (other, make) in enumerate(whole.after, 1):
            yield (
                path,
                Case(
                    f"{name}: after {number}",
                    other,
                    lambda twice, make=make, name=name: make(twice, name),
                    TWICE,
                ),
            )


TWICE_CASES = [
    case for whole in REQUESTS for version in whole.versions for _, case in cases_of(whole, version)
]
