"""The exit codes, and the messages of commands that fail: a sentence, or JSON with `--json`.

A message goes to stderr. stdout has the result alone, so it is empty then; the exit code is the
same with and without `--json`.
"""

import json
import os
import sys

from apportion.errors import Code, Refused
from apportion.readable import readable

FAILED = 1  # exit code: a law broke, an upgrade does not go well, or the cluster refused
UNUSABLE = 2  # exit code where the arguments make no sense


class NoSuchGroup(Refused):
    """There is no group of that name; the text says how to list the groups of that cluster."""

    def __init__(self, group_id: str, bootstrap: str, meaning: str = "") -> None:
        """Create the error for a group that does not exist; it names `apportion groups list`.

        meaning: a sentence on the kind of name that the option takes; it stands before the command.
        """
        super().__init__(
            Code.GROUP_ID_NOT_FOUND,
            f"there is no group {group_id!r}: {meaning}`apportion groups list "
            f"--bootstrap {bootstrap}` shows what there is",
        )

    def __str__(self) -> str:
        return self.why


class NoStreamsGroup(Exception):
    """There is no such group of Kafka Streams; the text says what there is instead."""


def print_failure(command: str, error: Exception, as_json: bool) -> None:
    """Print the error that ended `command`.

    JSON keys: `error`, Kafka's name of the error code where there is one, and `message`.
    """
    # Errors quote names from brokers, which may hold control characters of a terminal.
    message = readable(str(error))
    if as_json:
        code = error.code.name if isinstance(error, Refused) else None
        print(json.dumps({"error": code, "message": message}), file=sys.stderr)
    else:
        print(f"apportion {command}: {message}", file=sys.stderr)


def drop_stdout() -> None:
    """Discard what is still in stdout's buffer, whose reader has gone.

    Else Python would flush it when the process ends, and fail once more.
    """
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
