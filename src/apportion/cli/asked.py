"""The options that commands about a cluster share, checked before anything is connected.

Nothing of a client is imported here: the modules of options and help load with every command.
"""

import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from apportion.cli.failures import UNUSABLE, WrongArguments, print_failure

Report = dict[str, Any]
"""A report as `--json` prints it: its keys are documented, and stay."""


class Asked(NamedTuple):
    """The options that all commands about a cluster have.

    command: its name in failures. command_config: a file with the cluster's TLS and SASL.
    """

    command: str
    bootstrap: str
    timeout_ms: int
    as_json: bool
    command_config: Path | None = None

    @property
    def at(self) -> str:
        """The options that name this cluster, for a command that a message suggests."""
        config = self.command_config
        with_config = "" if config is None else f" --command-config {shlex.quote(str(config))}"
        return f"--bootstrap {self.bootstrap}{with_config}"


def checked(asked: Asked, run: Callable[[], int]) -> int:
    """Return the exit code of `run`, which first checks the arguments of a command."""
    try:
        return run()
    except WrongArguments as error:
        print_failure(asked.command, error, asked.as_json)
        return UNUSABLE
