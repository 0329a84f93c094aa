"""Passwords in files, and what is wrong with a password wherever it was."""

from pathlib import Path

from apportion.cli.properties import text_of
from apportion.security.exchange import is_sendable


def password_of(path: Path) -> str:
    """Return the password that a file has in its one line. Raises ValueError, as `text_of`."""
    # An editor ends the line.
    return text_of(path).removesuffix("\n")


def password_fault_or_none(password: str) -> str | None:
    """Return why nobody could log in so, in words for the place that has it, else None."""
    if not password:
        return "has no password"
    if "\n" in password or "\r" in password:
        return "has more than one line, and a password has one"
    if not is_sendable(password):
        return "has a password with NUL or a lone surrogate in it"
    return None
