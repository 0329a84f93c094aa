"""ApiVersions of clients that call themselves by every kind of name, and their software's version
likewise.

Each is followed by one that is right, on the same connection: it lives on.
"""

from collections.abc import Iterator

from apportion.wire.messages.api_versions import ApiVersionsRequest
from tests.kafka.differential.wrong import Case

WORDS = (
    "",
    "a",
    "1",
    "a b",
    " a",
    "a ",
    "-x",
    "x-",
    "x.y",
    "x-y",
    "x--y",
    "x_y",
    "_x",
    ".x",
    "x.",
    "ü",
    "aüb",
    "a/b",
    "a+b",
    "a\n",
    "A-Z.9",
)
LONG = "a" * 300


def hellos() -> Iterator[Case]:
    """ApiVersions; up to version 2 it says nothing."""
    for version in (0, 2, 3, 4):
        for word in (*WORDS, LONG, LONG + "-"):
            for name, number in ((word, "1.0"), ("test", word), (word, word)):
                request = ApiVersionsRequest(
                    client_software_name=name, client_software_version=number
                )
                yield Case(
                    f"hello of {name[:9]!r} {number[:9]!r}",
                    version,
                    lambda good, request=request: request,
                )
        right = ApiVersionsRequest(client_software_name="test", client_software_version="1.0")
        yield Case("hello as it should be", version, lambda good, right=right: right)


VERSION_CASES = [*hellos()]
