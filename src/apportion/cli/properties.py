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
    """Return the names and values of a file, as `parse_properties`.

    Raises ValueError, in words that follow "cannot be read", without what the file has.
    """
    return parse_properties(text_of(path))


def text_of(path: Path) -> str:
    """Return the text of a file, which is UTF-8 on every machine. Raises ValueError likewise.

    Editors and spreadsheets of Windows put a byte-order mark before it, which is no part of it.
    """
    try:
        return path.read_text(encoding="utf-8-sig")
    except OSError as error:
        raise ValueError(error.strerror) from None
    except UnicodeDecodeError:
        raise ValueError("it is no text in UTF-8") from None


def parse_properties(text: str) -> dict[str, str]:
    """Return the names and values of a text of Java's properties.

    Raises ValueError for a name that is there twice: in Java the last value wins, in silence.
    """
    found: dict[str, str] = {}
    first_lines: dict[str, int] = {}
    for number, line in _lines(text):
        matched = PAIR.fullmatch(line.strip())
        if matched is None:
            continue
        name = _unescaped(matched[1])
        refuse_twice(name, first_lines, number)
        found[name] = _unescaped(matched[2])
    return found


def refuse_twice(what: str, first_lines: dict[str, int], number: int) -> None:
    """Record the line of a file that has `what`; raise ValueError if another line has it, too."""
    first = first_lines.setdefault(what, number)
    if first != number:
        raise ValueError(f"lines {first} and {number} both have {what}: leave one of them")


def _lines(text: str) -> Iterator[tuple[int, str]]:
    """Yield the lines without comments, each with those in which it goes on, and its number."""
    begun: list[str] = []
    first = 1
    for number, natural in enumerate(LINE_END.split(text), 1):
        line = natural.lstrip(BLANKS)
        # A comment goes on in no other line, whatever its last character is.
        if not begun and line.startswith(("#", "!")):
            continue
        first = first if begun else number
        goes_on = (len(line) - len(line.rstrip("\\"))) % 2 == 1
        begun.append(line.removesuffix("\\") if goes_on else line)
        if not goes_on:
            yield first, "".join(begun)
            begun = []
    yield first, "".join(begun)


def _unescaped(text: str) -> str:
    def character(escape: re.Match[str]) -> str:
        if escape[1] is not None:
            return chr(int(escape[1], 16))
        return ESCAPES.get(escape[2], escape[2])

    return re.sub(r"\\(?:u([0-9a-fA-F]{4})|(.))", character, text)
