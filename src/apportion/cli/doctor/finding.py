"""The finding of one check of `apportion doctor`, and its result."""

from enum import StrEnum
from typing import NamedTuple

from apportion.cli.asked import Report


class Result(StrEnum):
    """The result of a check."""

    OK = "ok"
    WARNING = "warning"  # it works, and may surprise
    FAILED = "failed"
    SKIPPED = "skipped"  # not looked at: an option was not given, or an earlier check failed


class Finding(NamedTuple):
    """One check: what was looked at, its result, what there is, and what to do about it."""

    check: str
    result: Result
    found: str
    remedy: str = ""

    def report(self) -> Report:
        """Return the finding as `--json` prints it."""
        return {
            "check": self.check,
            "result": self.result.value,
            "found": self.found,
            "remedy": self.remedy or None,
        }


def ok(check: str, found: str) -> Finding:
    """Return the finding that all is well."""
    return Finding(check, Result.OK, found)


def warning(check: str, found: str, remedy: str) -> Finding:
    """Return the finding that something works and may surprise."""
    return Finding(check, Result.WARNING, found, remedy)


def failed(check: str, found: str, remedy: str) -> Finding:
    """Return the finding that a query would not run, with what to do."""
    return Finding(check, Result.FAILED, found, remedy)


def skipped(check: str, why: str) -> Finding:
    """Return the finding that nothing was looked at."""
    return Finding(check, Result.SKIPPED, why)
