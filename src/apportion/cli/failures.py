"""The messages of commands that fail: a sentence on stderr, or a JSON object with `--json`.

stdout has the result alone, so it is empty then; the exit code is the same with and without
`--json`.
"""

import json
import sys

from apportion.errors import Code, Refused
from apportion.readable import readable


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
