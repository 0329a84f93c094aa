"""The cluster that a command line names, for Tab's completions."""

from pathlib import Path
from typing import NamedTuple


class TypedCluster(NamedTuple):
    """The address of a cluster, and the file with its TLS and SASL."""

    bootstrap: str
    command_config: Path | None = None
