"""The checks of a query's paths: its checkpoint, and the Delta table that it writes to."""

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path

from apportion.cli.doctor.finding import Finding, failed, ok, skipped, warning
from apportion.cli.doctor.subjects import Subjects
from apportion.locations import local_path_or_none, local_table_or_none
from apportion.member.batch.span import Span, SpanError, parse_span
from apportion.member.cluster_queries.offsets import OffsetAndMetadata
from apportion.member.group_claims import sink_names
from apportion.topics import TopicIdPartition

OWN_CHECKPOINT = "give the query a checkpoint of its own"
ITS_RIGHTS = "change its owner or its rights"
OFFSETS, COMMITS = "offsets", "commits"
"""The directories of a checkpoint in which Spark logs what each batch reads, and that it ended."""
NAMED_SOURCES = "v2"


def check_paths(subjects: Subjects) -> Iterator[Finding]:
    """Yield the findings on the checkpoint and on the table."""
    if subjects.checkpoint is None:
        yield skipped("checkpoint", "--checkpoint is not given")
    else:
        try:
            yield _checkpoint(subjects.checkpoint, subjects.sink)
        except OSError as error:
            yield failed("checkpoint", f"{error.filename}: {error.strerror}", ITS_RIGHTS)
    if subjects.table is None:
        yield skipped("table", "--table is not given")
    else:
        yield _table(subjects.table)


def _checkpoint(location: str, sink: str | None) -> Finding:
    """Return whether a query that writes to `sink` can begin or go on with this checkpoint."""
    check = "checkpoint"
    path = local_path_or_none(location)
    if path is None:
        return skipped(check, f"{location} is not on this machine, so it was not looked at")
    if not path.exists():
        return _new(check, path, "a query begins with it")
    if not path.is_dir():
        return failed(check, f"{path} is a file", "name a directory")
    if not os.access(path, os.R_OK | os.W_OK | os.X_OK):
        return failed(check, f"{path} cannot be read and written by you", ITS_RIGHTS)
    logged = sorted(
        (int(each.name), each) for each in (path / OFFSETS).glob("*") if each.name.isdigit()
    )
    if not logged:
        return ok(check, f"{path} has no batch yet: a query begins with it")
    number, newest = logged[-1]
    spans = _spans_of(newest)
    if not spans:
        return failed(
            check, f"{path} belongs to a query without a source of apportion", OWN_CHECKPOINT
        )
    sinks = next((span.sinks for span in spans if span.sinks), None)
    if sinks and sink is not None and sink not in sinks:
        return failed(check, f"{path} belongs to a query of {sink_names(sinks)}", OWN_CHECKPOINT)
    if not (path / COMMITS / str(number)).exists():
        return ok(check, f"{path}: a query begins with batch {number} again, which has not ended")
    return ok(check, f"{path}: a query goes on after batch {number}")


def _spans_of(offsets: Path) -> list[Span]:
    """Return the spans of a logged batch: those of its sources that are apportion's."""
    version, *lines = offsets.read_text(errors="replace").splitlines() or [""]
    spans = []
    for line in lines:
        # Version 2 is of named sources: each offset has the name of its source before it.
        offset = line.partition(":")[2] if version == NAMED_SOURCES else line
        with suppress(SpanError):  # Spark's own settings, or another source
            spans.append(parse_span(offset))
    return spans


def _table(location: str) -> Finding:
    """Return whether `delta.Writer` can write to this table."""
    check = "table"
    try:
        from deltalake import DeltaTable
        from deltalake.exceptions import DeltaError, TableNotFoundError

        from apportion.spark.delta_sink.columns import SOURCE_COLUMNS
        from apportion.spark.delta_sink.ownership import table_location
        from apportion.spark.delta_sink.table_checks import refuse_unfit_table
        from apportion.spark.errors import NotWritable
    except ImportError as error:
        return skipped(check, f"it was not looked at: {error}")
    table = table_location(location)
    path = local_table_or_none(table)
    if path is None:
        return skipped(check, f"{table} is not on this machine, so it was not looked at")
    try:
        # By the writer's own rule, whose sentence says what to do.
        refuse_unfit_table(table, None, SOURCE_COLUMNS)
        opened = DeltaTable(table)
    except TableNotFoundError:
        return ok(check, f"{path} does not exist yet: the writer creates the table")
    except NotWritable as refused:
        return failed(check, str(refused), "")
    except (DeltaError, OSError, ValueError) as error:
        return failed(check, str(error), "give delta.Writer another path")
    names = [field.name for field in opened.schema().fields]
    found = f"{table}, version {opened.version()}, columns {', '.join(names)}"
    lacking = [name for name in SOURCE_COLUMNS.names if name not in names]
    if lacking:
        return warning(
            check,
            found,
            f"the writer adds {', '.join(lacking)}: each row says which record it came from",
        )
    return ok(check, found)


def explain_missing_records(
    subjects: Subjects,
    group: str,
    committed: Mapping[TopicIdPartition, OffsetAndMetadata],
    fetch_log_start: Callable[[TopicIdPartition], int],
) -> str:
    """Return the writer's sentence on a table that lacks what its group has committed for it.

    "" if it lacks nothing, and where it cannot be opened, as another check says.
    """
    if subjects.table is None or subjects.sink is None:
        return ""
    from deltalake.exceptions import DeltaError

    from apportion.spark.delta_sink import batch_admission, ownership, table
    from apportion.spark.errors import NotWritable

    location = ownership.table_location(subjects.table)
    if local_table_or_none(location) is None:
        return ""
    try:
        attempt = table.TableAttempt.on_existing_or_none(location, None)
    except (NotWritable, DeltaError, OSError):
        return ""
    lost = batch_admission.missing_records_or_none(attempt, group, committed, subjects.sink)
    if lost is None:
        return ""
    return str(
        ownership.explain_lost_offsets(
            lost,
            group,
            subjects.sink,
            committed=committed[lost.partition],
            log_start=fetch_log_start(lost.partition),
        )
    )


def _new(check: str, path: Path, then: str) -> Finding:
    """Return whether a directory can be created."""
    parent = next(each for each in (path, *path.absolute().parents) if each.exists())
    if not parent.is_dir() or not os.access(parent, os.W_OK | os.X_OK):
        return failed(
            check,
            f"{path} cannot be created: you may not write to {parent}",
            "name another directory, or change the rights of that one",
        )
    return ok(check, f"{path} does not exist yet: {then}")
