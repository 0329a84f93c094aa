"""The driver's request to a query's source to stop, and the source's answer: files of this host.

Spark ends the source's process by a signal and asks it nothing. So `queries/stopping.py` leaves a
request, named by the checkpoint's id, and the source (`membership/batch_member.py`) looks for it
when it is asked for the next batch, and once more when its process is ended. While a request lies
there, the source plans no batch and stays out of the group. A request that is taken back has no
effect any more, nor has one that the driver has not touched for MAX_AGE_S: it was killed.

A query that starts removes what a lost process may have left, and the driver writes its request
again as long as it waits, so neither needs to know when the other began.
"""

import json
import logging
import os
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from time import time
from typing import Any, NamedTuple

from apportion.member.batch.span import Span, SpanError, parse_span
from apportion.spark.processes.private_files import (
    create_directory,
    digest,
    private_directory,
    replace_file,
)

MAX_AGE_S = 30.0  # the driver touches its request many times in a second

log = logging.getLogger("apportion.spark")


class StopRequest(NamedTuple):
    """The driver's request, with what it knows of the query.

    committed: the span of the last batch that Spark has committed in this run; None if there was
    none yet.
    """

    committed: Span | None = None


class StopAnswer(NamedTuple):
    """The source's answer, with what it has done.

    is_committed: the group knows of every batch that Spark has committed. has_left: the group's
    coordinator has confirmed that the member left. line: what the driver is to log of that; "" if
    the source has logged it, or has nothing to say.
    """

    is_committed: bool
    has_left: bool
    line: str = ""

    @property
    def is_in_order(self) -> bool:
        """Return whether the query has ended as it was asked to."""
        return self.is_committed and self.has_left


def write_request(checkpoint_id: str, request: StopRequest) -> None:
    """Ask the source of this checkpoint to plan no further batch. Raises OSError."""
    committed = None if request.committed is None else request.committed.to_json()
    _write(checkpoint_id, "request", {"committed": committed})


def refresh_request(checkpoint_id: str) -> None:
    """Show that the driver still waits. Raises OSError."""
    with suppress(FileNotFoundError):  # a source that starts has just removed it
        os.utime(_path(private_directory(), checkpoint_id, "request"))


def request_or_none(checkpoint_id: str) -> StopRequest | None:
    """Return what the driver asks of the source of this checkpoint, while it waits for that."""
    request = _read(checkpoint_id, "request")
    if request is None or not _is_fresh(checkpoint_id):
        return None
    try:
        committed = request["committed"]
        return StopRequest(None if committed is None else parse_span(committed))
    except (KeyError, TypeError, SpanError) as error:
        log.warning("a request to stop the query cannot be read, and is ignored: %s", error)
        return None


def write_answer(checkpoint_id: str, answer: StopAnswer) -> None:
    """Answer the driver; without a place for the answer the driver waits in vain for a moment."""
    try:
        _write(checkpoint_id, "answer", answer._asdict())
    except OSError as error:
        log.warning("the driver cannot be told that the query has left its group: %s", error)


def answer_or_none(checkpoint_id: str) -> StopAnswer | None:
    """Return what the source of this checkpoint has answered."""
    answer = _read(checkpoint_id, "answer")
    try:
        return None if answer is None else StopAnswer(**answer)
    except TypeError:
        return None


def delete_both(checkpoint_id: str) -> None:
    """Delete the request to the source of this checkpoint, and its answer."""
    for kind in ("request", "answer"):
        try:
            _path(private_directory(), checkpoint_id, kind).unlink(missing_ok=True)
        except OSError:
            return


def _write(checkpoint_id: str, kind: str, content: Mapping[str, Any]) -> None:
    replace_file(_path(create_directory(), checkpoint_id, kind), json.dumps(content))


def _read(checkpoint_id: str, kind: str) -> dict[str, Any] | None:
    try:
        content = json.loads(_path(private_directory(), checkpoint_id, kind).read_text())
    except (OSError, ValueError):
        return None
    return content if isinstance(content, dict) else None


def _is_fresh(checkpoint_id: str) -> bool:
    """Return whether the driver has touched its request of late."""
    try:
        touched_s = _path(private_directory(), checkpoint_id, "request").stat().st_mtime
    except OSError:
        return False
    # Also one from the future, where the clock was set back.
    return abs(time() - touched_s) <= MAX_AGE_S


def _path(directory: Path, checkpoint_id: str, kind: str) -> Path:
    return directory / f"stop-{digest(checkpoint_id)}.{kind}"
