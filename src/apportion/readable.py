"""Foreign text made safe to print: names of groups, clients and members may be any text at all."""


def readable(text: str) -> str:
    """Return the text with escapes for what a terminal or a log would obey, such as line ends and
    control characters.
    """
    return text if text.isprintable() else "".join(map(_escaped, text))


def _escaped(letter: str) -> str:
    return letter if letter.isprintable() else letter.encode("unicode_escape").decode()
