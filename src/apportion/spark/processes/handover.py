"""Reports from a query's writers to its source: files in a private directory of this host.

The writer runs in the driver's Python, the source in a Python process of its own on the same host,
and Spark has no channel from the one to the other. But Spark guarantees an order: it calls the
writer with a batch before it asks the source for the next one. So a writer leaves a file, named by
the checkpoint's id, and the source reads it when the batch's span comes back; neither waits for the
other. A report counts only for the batch that it was written for, and a file that cannot be read
counts as no report.
"""

import json
import logging
from collections.abc import Iterator, Mapping
from pathlib import Path
from time import time
from typing import Any

from apportion.member.batch.span import Span, topic_id_bytes
from apportion.member.batch.writer_reports import WriterReport
from apportion.spark.processes.private_files import (
    LOCKED,
    NoPrivateDirectory,
    create_directory,
    digest,
    private_directory,
    replace_file,
)
from apportion.topics import TopicIdPartition
from apportion.wire.uuids import uuid_text

STALE_S = 7 * 24 * 3600  # older files are of queries that were never started again

log = logging.getLogger("apportion.spark")


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
        "batch": digest(span.canonical_json()),
        "sink": sink,
        "adopt": adopt,
        "holds": has_records,
        "back": [
            [partition.topic, uuid_text(partition.topic_id), partition.partition, offset]
            for partition, offset in (rewind or {}).items()
        ],
    }
    try:
        directory = create_directory()
        _remove_stale(directory)
        replace_file(directory / f"{digest(span.id)}.{digest(sink)}", json.dumps(report))
    except OSError as error:
        raise _no_directory(sink, error) from None


def require_directory(sink: str) -> None:
    """Raise NoPrivateDirectory if the writer to `sink` will be able to write no report."""
    try:
        create_directory()
    except OSError as error:
        raise _no_directory(sink, error) from None


def _no_directory(sink: str, error: OSError) -> NoPrivateDirectory:
    if isinstance(error, NoPrivateDirectory):
        return error
    return NoPrivateDirectory(
        f"the writer to {sink} must be able to write to the temporary directory, "
        "where its source reads: let TMPDIR name a "
        "directory where this user may write, the same for the driver and its Java "
        f"process ({error})"
    )


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
        if isinstance(report, dict) and report.get("batch") == digest(span.canonical_json()):
            yield report


def _report_files(span: Span) -> list[Path]:
    """Return the files with writers' reports for the query whose source planned `span`.

    There are none where the directory does not exist or cannot be read.
    """
    try:
        # Also here, before reading: a report steers where the source goes on, so another user must
        # not be able to write one.
        return sorted(private_directory().glob(f"{digest(span.id)}.*"))
    except NoPrivateDirectory:
        raise
    except OSError:
        return []


def _remove_stale(directory: Path) -> None:
    """Delete report files of Spark queries that were not started again for STALE_S."""
    for path in directory.iterdir():
        if path.suffix in LOCKED:  # the next source removes what is not in use any more
            continue
        try:
            if time() - path.stat().st_mtime > STALE_S:
                path.unlink()
        except OSError:  # another process has just deleted it
            continue
