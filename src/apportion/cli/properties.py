"""Files of Java's properties, as Kafka's tools and brokers take them.

NAME=VALUE in a line, which goes on after a backslash at its end.
"""

import re

PAIR = re.compile(r"((?:\\.|[^\s=:\\])+)\s*[=:\s]?\s*(.*)", re.DOTALL)
ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "f": "\f"}


def parse_properties(text: str) -> dict[str, str]:
    """Return the names and values of a file of Java's properties."""
    found = {}
    joined = re.sub(r"(?<!\\)((?:\\\\)*)\\\r?\n[ \t]*", r"\1", text)
    for line in joined.splitlines():
        matched = PAIR.fullmatch(line.strip())
        if matched is not None and not line.lstrip().startswith(("#", "!")):
            found[_unescaped(matched[1])] = _unescaped(matched[2])
    return found


def _unescaped(text: str) -> str:
    def character(escape: re.Match[str]) -> str:
        if escape[1] is not None:
            return chr(int(escape[1], 16))
        return ESCAPES.get(escape[2], escape[2])

    return re.sub(r"\\(?:u([0-9a-fA-F]{4})|(.))", character, text)
