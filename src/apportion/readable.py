"""What others wrote, made fit for people to read: names of groups, clients and members may be any text at all."""


def readable(text: str) -> str:
    """The text with escapes in place of what a terminal or a log would obey, such as line ends and control characters."""
    return text if text.isprintable() else "".join(map(_escaped, text))


def _escaped(letter: str) -> str:
    return letter if letter.isprintable() else letter.encode("unicode_escape").decode()
