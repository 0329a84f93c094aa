"""A report of a cluster, or of a change to it, printed as JSON or as text."""

import json
import shlex
from collections.abc import Callable, Sequence
from typing import Generic, NamedTuple, TypeVar

from apportion.cli.arguments import BOOTSTRAP_VARIABLE, COMMAND_CONFIG_VARIABLE
from apportion.cli.asked import Asked
from apportion.cli.command_config import command_security
from apportion.cli.failures import (
    FAILED,
    UNUSABLE,
    Denied,
    Impossible,
    NoStreamsGroup,
    WrongArguments,
    drop_stdout,
    print_failure,
)
from apportion.client.bootstrap import require_known_host
from apportion.client.cluster import Cluster
from apportion.client.connection import Disconnected
from apportion.errors import Refused
from apportion.member.permissions import RESOURCES, grant_on

R = TypeVar("R")


class ReportedChange(NamedTuple, Generic[R]):
    """A change that may have failed in part. report: of the rest; empty if there is none."""

    report: R
    failures: Sequence[Exception]


def print_report(asked: Asked, read: Callable[[Cluster], R], show: Callable[[R], None]) -> int:
    """Print what `read` returns of the cluster by `show`, or as JSON; return the exit code."""

    def whole(cluster: Cluster) -> ReportedChange[R]:
        return ReportedChange(read(cluster), ())

    return print_change(asked, whole, show)


def print_change(
    asked: Asked, change: Callable[[Cluster], ReportedChange[R]], show: Callable[[R], None]
) -> int:
    """Print the report of a change, and every failure after it; return the exit code."""

    def run(cluster: Cluster) -> int:
        reported = change(cluster)
        if reported.report or not reported.failures:
            if asked.as_json:
                print(json.dumps(reported.report, indent=2))
            else:
                show(reported.report)
        for failure in reported.failures:
            print_failure(asked.command, with_next_step(failure, asked), asked.as_json)
        return FAILED if reported.failures else 0

    return on_cluster(asked, run)


def on_cluster(asked: Asked, run: Callable[[Cluster], int]) -> int:
    """Return the exit code of `run`; print the error with which it ended."""
    try:
        security = command_security(asked.command_config)
        require_known_host(asked.bootstrap)
        cluster = Cluster(asked.bootstrap, timeout_ms=asked.timeout_ms, security=security)
    except (ValueError, WrongArguments) as error:
        print_failure(asked.command, error, asked.as_json)
        return UNUSABLE
    except Disconnected as error:
        print_failure(asked.command, error, asked.as_json)
        return FAILED
    try:
        return run(cluster)
    except WrongArguments as error:
        print_failure(asked.command, error, asked.as_json)
        return UNUSABLE
    except (Refused, Disconnected, NoStreamsGroup, Impossible) as error:
        print_failure(asked.command, with_next_step(error, asked), asked.as_json)
        return FAILED
    except BrokenPipeError:  # the reader, such as `head`, has closed the pipe
        drop_stdout()
        return 0
    finally:
        cluster.close()


def with_next_step(error: Exception, asked: Asked) -> Exception:
    """Return the error with what its reader may do, where the error itself cannot know that."""
    step = next_step(error, asked)
    if isinstance(error, Disconnected):
        return Disconnected(f"{error}; {step}")
    if not isinstance(error, Refused) or error.code not in RESOURCES:
        return error
    refused = with_cluster(error, asked)
    return type(error)(error.code, f"{refused.why}; {step}") if step else refused


def with_cluster(error: Refused, asked: Asked) -> Refused:
    """Return the error of a missing permission whose command names the cluster, too."""
    if error.code not in RESOURCES:
        return error
    # The command is for a user who may give the permission, and has another --command-config.
    why = grant_on(error.why, f"--bootstrap {shlex.quote(asked.bootstrap)}")
    return type(error)(error.code, why)


def next_step(error: Exception, asked: Asked) -> str:
    """Return what the reader of an error may do; "" where there is nothing, or the error says it.

    It stands after the error and a semicolon.
    """
    if isinstance(error, Disconnected):
        return (
            "see that a broker runs there, or name another one with --bootstrap-server or in "
            f"{BOOTSTRAP_VARIABLE}"
        )
    if isinstance(error, Denied) and asked.command_config is None:
        return f"or give your own login as --command-config FILE, or in {COMMAND_CONFIG_VARIABLE}"
    return ""
