"""Text that others chose, such as names of groups and objects, made fit for people to see."""

from collections.abc import Callable, Sequence

MOST_NAMES = 10
"""How many names a sentence lists; fewer where a caller's are long."""
MAX_QUOTED = 80
"""How many characters of a name or a value stand in an error or a log line, unless one of its own
reason has more or fewer.
"""


def readable(text: str) -> str:
    """Return the text with control characters and line ends as escapes.

    For log lines and the command line: a terminal would obey them.
    """
    return text if text.isprintable() else "".join(map(_escaped, text))


def shortened(text: str, max_chars: int) -> str:
    """Return the text as `readable` does, with "..." for its middle if it is longer than that."""
    text = readable(text)
    if len(text) <= max_chars:
        return text
    # The middle: paths of one place differ in their ends.
    kept = (max_chars - len("...")) // 2
    return f"{text[:kept]}...{text[-kept:]}"


def listed(names: Sequence[str], most: int = MOST_NAMES) -> str:
    """Return the names with commas between them; the first of many, and how many more there are."""
    more = len(names) - most
    return ", ".join(names[:most]) + (f" and {more} more" if more > 0 else "")


def foreign_text(value: object, write: Callable[[object], str] = repr) -> str:
    """Return the text of an object of the user's; the name of its type if that raises.

    write: `repr` or `str`.
    """
    try:
        return write(value)
    except KeyboardInterrupt:
        raise
    # Any: it is foreign code, and whoever shows the text has an error to report already.
    except BaseException:
        return type(value).__name__


def _escaped(character: str) -> str:
    return character if character.isprintable() else character.encode("unicode_escape").decode()
