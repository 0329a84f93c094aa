"""Errors of a query whose text is all that a person needs: they leave without a traceback.

Spark writes the error that ends a query's Python process, with its traceback, into the text of the
StreamingQueryException. Tracebacks of the source and of Spark would stand before a sentence such as
that a permission is missing. Any other error keeps its own: it is a defect.
"""

import os
import re

from apportion.spark.workers_python import OF_WORKERS

HIDE = "SPARK_HIDE_TRACEBACK"
"""What Spark's process reads of its environment when it writes an error."""
PLAN = "=== Streaming Query ==="
"""What Spark writes after the text of an error that ended a query."""
STATE = " SQLSTATE: "
FRAME = re.compile(r'  File "')
SOURCE_INDENT = "    "
COLOUR = re.compile(r"\x1b\[[0-9;]*m")
BACKTRACE = re.compile(r"\n +0: .*", re.DOTALL)
CAUSE = re.compile(r"\s*↳\s*")
OWN_ERROR = re.compile(r"^.*?\bapportion(?:\.\w+)+: ")
"""The name of an error of this package, and what Spark writes before it."""


class WithoutTraceback:
    """The context manager that `without_traceback` returns."""

    def __enter__(self) -> None:
        """Do nothing yet."""

    def __exit__(self, _kind: object, error: BaseException | None, _traceback: object) -> None:
        """Raise the error anew if its text is all that a person needs."""
        # Their modules are imported where there is an error, which is not in most processes.
        if not isinstance(error, Exception) or not isinstance(error, _sentences()):
            return
        if any(name.startswith(OF_WORKERS) for name in os.environ):
            os.environ[HIDE] = "1"
        # Not in a generator: contextlib would give the error its traceback back.
        raise error.with_traceback(None) from None


def _sentences() -> tuple[type[Exception], ...]:
    """Return the errors whose text is all that a person needs."""
    from apportion.member.batch.bounded_read import ReadRefused
    from apportion.member.batch.data_loss import DataLoss
    from apportion.member.batch.fences import LostOffsets
    from apportion.member.batch.membership import MembershipFailed
    from apportion.member.batch.offset_times import NoRecordAtTime
    from apportion.member.batch.span import SpanError
    from apportion.member.group_claims import AnotherSink
    from apportion.spark.errors import PlainError
    from apportion.spark.versions import UnsupportedTrigger

    return (
        PlainError,
        MembershipFailed,
        AnotherSink,
        DataLoss,
        SpanError,
        ReadRefused,
        NoRecordAtTime,
        LostOffsets,
        UnsupportedTrigger,
    )


def without_traceback() -> WithoutTraceback:
    """Let such an error leave this process of Spark without a traceback; it ends the process."""
    return WithoutTraceback()


def reason_of(text: str) -> str:
    """Return what a person needs of the text of a StreamingQueryException: the error's own words.

    Spark keeps an error of Python as text alone, between its own words, tracebacks and plans.
    """
    words = text.partition(PLAN)[0].splitlines()
    lines = [line for line in words if line.strip() and not line.startswith(STATE)]
    frames = [number for number, line in enumerate(lines) if FRAME.match(line)]
    if frames:
        # Behind the last frame stand its source, in lines of deeper indent, and then the error.
        # That may have lines of its own with any indent.
        last = frames[-1] + 1
        begins = (at for at in range(last, len(lines)) if not lines[at].startswith(SOURCE_INDENT))
        lines = lines[next(begins, last) :]
    return OWN_ERROR.sub("", in_one_line("\n".join(lines)), count=1)


def in_one_line(text: str) -> str:
    """Return an error's text, which a library may have broken into lines, as one sentence.

    delta-rs puts each cause in a line of its own, behind an arrow in red, or the frames of its own
    code below.
    """
    line, *causes = CAUSE.split(COLOUR.sub("", BACKTRACE.sub("", text)))
    said = " ".join(line.split())
    for cause in causes:
        said = f"{said.rstrip('.:')}: {' '.join(cause.split())}"
    return said
