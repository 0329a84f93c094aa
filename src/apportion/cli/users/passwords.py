"""The password of a user: from a file, an environment variable, or a question on the terminal.

Never from the command line itself, which everybody on the machine may read.
"""

import os
import sys
from pathlib import Path
from typing import NamedTuple

import typer

from apportion.cli.failures import WrongArguments
from apportion.cli.properties import text_of
from apportion.security.exchange import is_sendable

NO_TERMINAL = (
    "there is no terminal to ask for the password: give it as --password-file FILE or "
    "--password-env NAME"
)


class PasswordSource(NamedTuple):
    """The options that say where a password is; None for both where it is asked for."""

    file: Path | None
    variable: str | None

    def given_or_none(self) -> str | None:
        """Return the password that a file or a variable has; None if it is to be asked for.

        Raises WrongArguments, without the password.
        """
        if self.file is not None and self.variable is not None:
            raise WrongArguments("give --password-file or --password-env, not both")
        if self.file is not None:
            try:
                # An editor ends the line.
                password = text_of(self.file).removesuffix("\n")
            except ValueError as why:
                raise WrongArguments(
                    f"--password-file {str(self.file)!r} cannot be read: {why}"
                ) from None
            return _checked(password, f"--password-file {str(self.file)!r}")
        if self.variable is not None:
            password = os.environ.get(self.variable, "")
            return _checked(password, f"the environment variable {self.variable!r}")
        if not sys.stdin.isatty():
            raise WrongArguments(NO_TERMINAL)
        return None


def asked_password(user: str) -> str:
    """Ask for a password twice, without showing it; raise WrongArguments for one that cannot be."""
    # Not to stdout, which has the result alone.
    password = typer.prompt(
        f"Password of {user}", hide_input=True, confirmation_prompt=True, err=True
    )
    return _checked(str(password), "what was typed")


def _checked(password: str, where: str) -> str:
    if not password:
        raise WrongArguments(f"{where} has no password")
    if not is_sendable(password):
        raise WrongArguments(f"{where} has a password with NUL or a lone surrogate in it")
    return password
