"""Escapes for text that others chose, such as names of groups, before it is logged or printed."""


def readable(text: str) -> str:
    """Return the text with control characters and line ends as escapes.

    For log lines and the command line: a terminal would obey them.
    """
    return text if text.isprintable() else "".join(map(_escaped, text))


def _escaped(character: str) -> str:
    return character if character.isprintable() else character.encode("unicode_escape").decode()
