"""A report of a cluster, printed as JSON or as text."""

import json
from collections.abc import Callable
from typing import TypeVar

from apportion.cli.failures import FAILED, UNUSABLE, NoStreamsGroup, print_failure
from apportion.client.bootstrap import require_known_host
from apportion.client.cluster import Cluster
from apportion.client.connection import Disconnected
from apportion.errors import Refused

R = TypeVar("R")


def print_report(
    command: str,
    bootstrap: str,
    timeout_ms: int,
    read: Callable[[Cluster], R],
    show: Callable[[R], None] | None,
) -> int:
    """Print what `read` returns of the cluster by `show`, or as JSON; return the exit code."""
    try:
        cluster = Cluster(bootstrap, timeout_ms=timeout_ms)
    except ValueError as error:
        print_failure(command, error, as_json=show is None)
        return UNUSABLE
    try:
        require_known_host(bootstrap)
        report = read(cluster)
    except (Refused, Disconnected, NoStreamsGroup) as error:
        print_failure(command, error, as_json=show is None)
        return FAILED
    finally:
        cluster.close()
    if show is None:
        print(json.dumps(report, indent=2))
    else:
        show(report)
    return 0
