"""How a command says why it failed: one sentence on stderr, or one JSON object there where `--json`
was given.

stdout has the result alone, so it is empty then; the exit code is the same with and without
`--json`.
"""

import json
import sys

from apportion.errors import Code, Refused
from apportion.readable import readable


class NoSuchGroup(Refused):
    """There is no group of that name; the text says where to look."""

    def __init__(
        self, group_id: str, where_to_look: str = "`apportion groups list` shows what there is"
    ) -> None:
        super().__init__(
            Code.GROUP_ID_NOT_FOUND, f"there is no group {group_id!r}: {where_to_look}"
        )

    def __str__(self) -> str:
        return self.why


def print_failure(command: str, error: Exception, as_json: bool) -> None:
    """Print why `command` failed. JSON keys: `error`, Kafka's name of the code where there is one,
    and `message`.
    """
    message = readable(str(error))
    if as_json:
        code = error.code.name if isinstance(error, Refused) else None
        print(json.dumps({"error": code, "message": message}), file=sys.stderr)
    else:
        print(f"apportion {command}: {message}", file=sys.stderr)
