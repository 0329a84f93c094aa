"""Reports from a query's writers to its source: files in a private directory of this host.

The writer runs in the driver's Python, the source in a Python process of its own on the same host,
and Spark offers no way from the one to the other. But Spark keeps the order: it calls the writer
with a batch, and only then asks the source for the next. So a writer leaves a file, named by the
checkpoint's id, and the source reads it when the batch's span comes back. Nobody waits. A report
counts only for the batch it was written for, and one that cannot be read counts as none.
"""

import hashlib
import json
import logging
import os
import stat
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from time import time
from typing import Any

from apportion.member.batch.sinks import WriterReport
from apportion.member.batch.span import Span, topic_id_bytes, topic_id_text
from apportion.topics import TopicIdPartition

STALE_S = 7 * 24 * 3600  # a file of a query that never came back

log = logging.getLogger("apportion.spark")


class NoPrivateDirectory(RuntimeError):
    """The directory for the reports is another user's, others may write there, or this user may
    not.
    """


def write_report(
    span: Span,
    sink: str,
    *,
    adopt: bool = False,
    has_records: bool = False,
    rewind: Mapping[TopicIdPartition, int] | None = None,
) -> None:
    """Write what the writer to `sink` reports of the batch `span`, replacing its earlier report.

    rewind: by partition, where the source is to go on instead of at the end of `span`.
    """
    told = {
        "batch": _digest(span.canonical_json()),
        "sink": sink,
        "adopt": adopt,
        "holds": has_records,
        "back": [[*_named(place), offset] for place, offset in (rewind or {}).items()],
    }
    try:
        where = _made_directory()
        _remove_stale(where)
        _write(where / f"{_digest(span.id)}.{_digest(sink)}", json.dumps(told))
    except OSError as error:
        raise NoPrivateDirectory(
            f"the writer to {sink} must be able to write to the temporary directory, "
            "where its source reads: let TMPDIR name a "
            "directory where this user may write, the same for the driver and its Java "
            f"process ({error})"
        ) from None


def _write(path: Path, text: str) -> None:
    draft = path.with_suffix(f".{os.getpid()}.draft")
    with draft.open("w") as file:
        file.write(text)
        file.flush()
        # the next process of the query may come after the host has lost its power
        os.fsync(file.fileno())
    draft.replace(path)


def read_reports(span: Span) -> WriterReport:
    """Return all writers' reports of exactly this span, merged."""
    found = list(_left(span))
    back: dict[TopicIdPartition, int] = {}
    for told in found:
        for topic, topic_id, partition, offset in told["back"]:
            place = TopicIdPartition(topic, topic_id_bytes(topic_id), partition)
            back[place] = min(offset, back.get(place, offset))
    sinks = tuple(sorted(told["sink"] for told in found))
    return WriterReport(
        sinks, any(told["adopt"] for told in found), any(told["holds"] for told in found), back
    )


def delete_reports(span: Span) -> None:
    """Delete the reports for the source that planned `span`."""
    for path in _found(span):
        path.unlink(missing_ok=True)


def _left(span: Span) -> Iterator[dict[str, Any]]:
    for path in _found(span):
        try:
            told = {} if path.suffix == ".draft" else json.loads(path.read_text())
        except (OSError, ValueError) as error:
            log.warning("%s cannot be read, and counts as if it were not there: %s", path, error)
            continue
        if isinstance(told, dict) and told.get("batch") == _digest(span.canonical_json()):
            yield told


def _found(span: Span) -> list[Path]:
    """Return the files for the source that planned `span`; none where there is no directory, or
    this user may not read it.
    """
    try:
        return sorted(_private(_path()).glob(f"{_digest(span.id)}.*"))
    except OSError:
        return []


def _made_directory() -> Path:
    """Return the directory, made if need be."""
    path = _path()
    path.mkdir(mode=0o700, exist_ok=True)
    return _private(path)


def _path() -> Path:
    return Path(tempfile.gettempdir()) / f"apportion-{os.getuid()}"


def _private(path: Path) -> Path:
    """Return the path; NoPrivateDirectory if it is not this user's alone."""
    found = path.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid() or found.st_mode & 0o022:
        raise NoPrivateDirectory(
            f"{path} must be a directory of this user in which nobody else may write: remove it"
        )
    return path


def _remove_stale(where: Path) -> None:
    for path in where.iterdir():
        try:
            if time() - path.stat().st_mtime > STALE_S:
                path.unlink()
        except OSError:  # somebody else was quicker
            continue


def _named(place: TopicIdPartition) -> tuple[str, str, int]:
    return place.topic, topic_id_text(place.topic_id), place.partition


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:32]
