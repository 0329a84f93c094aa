"""Reports from a query's writers to its source: files in a private directory of this host.

The writer runs in the driver's Python, the source in a Python process of its own on the same host,
and Spark has no channel from the one to the other. But Spark guarantees an order: it calls the
writer with a batch before it asks the source for the next one. So a writer leaves a file, named by
the checkpoint's id, and the source reads it when the batch's span comes back; neither waits for the
other. A report counts only for the batch that it was written for, and a file that cannot be read
counts as no report.
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

from apportion.member.batch.span import Span, topic_id_bytes
from apportion.member.batch.writer_reports import WriterReport
from apportion.topics import TopicIdPartition
from apportion.wire.uuids import uuid_text

STALE_S = 7 * 24 * 3600  # older files are of queries that were never started again
WRITABLE_BY_OTHERS = stat.S_IWGRP | stat.S_IWOTH

log = logging.getLogger("apportion.spark")


class NoPrivateDirectory(RuntimeError):
    """The directory through which Spark queries hand over reports is not this user's alone.

    The directory is another user's, other users may write there, or this user may not.
    """


def write_report(
    span: Span,
    sink: str,
    *,
    adopt: bool = False,
    has_records: bool = False,
    rewind: Mapping[TopicIdPartition, int] | None = None,
) -> None:
    """Write the report of a query's writer to `sink` about one micro-batch, for the query's source.

    The report replaces the writer's earlier one. span: the offset ranges of the micro-batch.
    adopt: the writer takes over the group. has_records: the table has fences of the group.
    rewind: by partition, the offset where the source is to go on instead of at the end of `span`.
    """
    report = {
        "batch": _digest(span.canonical_json()),
        "sink": sink,
        "adopt": adopt,
        "holds": has_records,
        "back": [
            [partition.topic, uuid_text(partition.topic_id), partition.partition, offset]
            for partition, offset in (rewind or {}).items()
        ],
    }
    try:
        directory = _create_directory()
        _remove_stale(directory)
        _write(directory / f"{_digest(span.id)}.{_digest(sink)}", json.dumps(report))
    except OSError as error:
        raise NoPrivateDirectory(
            f"the writer to {sink} must be able to write to the temporary directory, "
            "where its source reads: let TMPDIR name a "
            "directory where this user may write, the same for the driver and its Java "
            f"process ({error})"
        ) from None


def _write(path: Path, text: str) -> None:
    """Replace a report file at once, so that the query's source never reads half a report."""
    draft = path.with_suffix(f".{os.getpid()}.draft")
    with draft.open("w") as file:
        file.write(text)
        file.flush()
        # Durable before it is visible: the source may read it after the host has lost its power.
        os.fsync(file.fileno())
    draft.replace(path)


def read_reports(span: Span) -> WriterReport:
    """Return the reports of all writers of a query about exactly this span, merged into one.

    Called by the query's source when Spark asks it for the next micro-batch.
    """
    reports = list(_read_valid_reports(span))
    rewind: dict[TopicIdPartition, int] = {}
    for report in reports:
        for topic, topic_id, index, offset in report["back"]:
            partition = TopicIdPartition(topic, topic_id_bytes(topic_id), index)
            # The lowest offset: every sink gets what it lacks, and drops by its fence what it has.
            rewind[partition] = min(offset, rewind.get(partition, offset))
    sinks = tuple(sorted(report["sink"] for report in reports))
    return WriterReport(
        sinks,
        any(report["adopt"] for report in reports),
        any(report["holds"] for report in reports),
        rewind,
    )


def delete_reports(span: Span) -> None:
    """Delete the writers' reports for the query whose source planned `span`."""
    for path in _report_files(span):
        path.unlink(missing_ok=True)


def _read_valid_reports(span: Span) -> Iterator[dict[str, Any]]:
    """Yield the writers' reports about exactly this span, skipping files that cannot be read."""
    for path in _report_files(span):
        try:
            report = {} if path.suffix == ".draft" else json.loads(path.read_text())
        except (OSError, ValueError) as error:
            log.warning("%s cannot be read, and counts as if it were not there: %s", path, error)
            continue
        # An older report is of a batch that Spark has committed, or of an attempt that planned
        # another span.
        if isinstance(report, dict) and report.get("batch") == _digest(span.canonical_json()):
            yield report


def _report_files(span: Span) -> list[Path]:
    """Return the files with writers' reports for the query whose source planned `span`.

    There are none where the directory does not exist or cannot be read.
    """
    try:
        # Also here, before reading: a report steers where the source goes on, so another user must
        # not be able to write one.
        return sorted(_require_private_directory(_directory_path()).glob(f"{_digest(span.id)}.*"))
    except OSError:
        return []


def _create_directory() -> Path:
    """Return the directory through which queries hand over reports, creating it on first use."""
    path = _directory_path()
    path.mkdir(mode=0o700, exist_ok=True)
    return _require_private_directory(path)


def _directory_path() -> Path:
    return Path(tempfile.gettempdir()) / f"apportion-{os.getuid()}"


def _require_private_directory(path: Path) -> Path:
    """Return the path of the directory through which a Spark query's writer hands over reports.

    Raises NoPrivateDirectory unless only this user may write there: the directory has a predictable
    name in the shared temporary directory, so another user could have made it. Others may read.
    """
    # lstat and not stat: a symbolic link made by another user must not be followed.
    status = path.lstat()
    if (
        not stat.S_ISDIR(status.st_mode)
        or status.st_uid != os.getuid()
        or status.st_mode & WRITABLE_BY_OTHERS
    ):
        raise NoPrivateDirectory(
            f"{path} must be a directory of this user in which nobody else may write: remove it"
        )
    return path


def _remove_stale(directory: Path) -> None:
    """Delete report files of Spark queries that were not started again for STALE_S."""
    for path in directory.iterdir():
        try:
            if time() - path.stat().st_mtime > STALE_S:
                path.unlink()
        except OSError:  # another process has just deleted it
            continue


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:32]
