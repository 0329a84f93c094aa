"""Files of Java's properties, as Kafka's tools and brokers take them.

NAME=VALUE in a line, which goes on after a backslash at its end.
"""

import re
from collections.abc import Iterator
from pathlib import Path

PAIR = re.compile(r"((?:\\.|[^\s=:\\])+)\s*[=:\s]?\s*(.*)", re.DOTALL)
ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "f": "\f"}
LINE_END = re.compile(r"\r\n|\r|\n")
BLANKS = " \t\f"


def read_properties(path: Path) -> dict[str, str]:
    """Return the names and values of a file, which is UTF-8 on every machine.

    Raises ValueError, in words that follow "cannot be read", without what the file has.
    """
    return parse_properties(text_of(path))


def text_of(path: Path) -> str:
    """Return the text of a file, which is UTF-8 on every machine. Raises ValueError likewise."""
    try:
        return path.read_text(encoding="utf-8")
    except OSError as error:
        raise ValueError(error.strerror) from None
    except UnicodeDecodeError:
        raise ValueError("it is no text in UTF-8") from None


def parse_properties(text: str) -> dict[str, str]:
    """Return the names and values of a text of Java's properties."""
    found = {}
    for line in _lines(text):
        matched = PAIR.fullmatch(line.strip())
        if matched is not None:
            found[_unescaped(matched[1])] = _unescaped(matched[2])
    return found


def _lines(text: str) -> Iterator[str]:
    """Yield the lines without comments, each with those in which it goes on."""
    begun: list[str] = []
    for natural in LINE_END.split(text):
        line = natural.lstrip(BLANKS)
        # A comment goes on in no other line, whatever its last character is.
        if not begun and line.startswith(("#", "!")):
            continue
        goes_on = (len(line) - len(line.rstrip("\\"))) % 2 == 1
        begun.append(line.removesuffix("\\") if goes_on else line)
        if not goes_on:
            yield "".join(begun)
            begun = []
    yield "".join(begun)


def _unescaped(text: str) -> str:
    def character(escape: re.Match[str]) -> str:
        if escape[1] is not None:
            return chr(int(escape[1], 16))
        return ESCAPES.get(escape[2], escape[2])

    return re.sub(r"\\(?:u([0-9a-fA-F]{4})|(.))", character, text)
