"""Checks and error messages of a writer whose table does not fit the group's offsets.

The writers' part of `member/group_claims.py`: the sinks that a span names are compared with the
writer's own name before a row is written. Where something else has committed offsets in the group,
the committed offset and the log start offset are fetched, so that the error can name the remedy.
"""

import os
import re
from collections.abc import Iterable

from apportion.client.cluster_answers import ANSWERS
from apportion.client.connection import Disconnected
from apportion.errors import Refused
from apportion.locations import local_table_or_none
from apportion.member.batch.fences import LostOffsets
from apportion.member.cluster_queries.offsets import OffsetAndMetadata
from apportion.member.group_claims import (
    AnotherSink,
    claims_without,
    refuse_other_sinks,
    sink_names,
    sinks_of,
)
from apportion.readable import readable
from apportion.rules import run_rule
from apportion.spark.connections.clusters import ClusterOptions, cluster_of
from apportion.spark.options.stream import SourceOptions
from apportion.spark.queries.introspection import SourceReading
from apportion.topics import TopicIdPartition
from apportion.wire.messages.list_offsets import EARLIEST

MAX_QUOTED_CHARS = 200  # how much of an offset's metadata an error shows


def table_location(table: str) -> str:
    """Return the table's absolute path or URI, which holds in a driver and in every executor.

    The scheme of a URI becomes lower case, and `file:/lake`, as Hadoop writes it, `file:///lake`.
    """
    scheme, _, path = table.partition(":")
    if scheme.lower() == "file" and path.startswith("/"):
        return f"file://{path}" if not path.startswith("//") else f"file:{path}"
    if path.startswith("//"):
        return f"{scheme.lower()}:{path}"
    return os.path.abspath(table)


def table_name(table: str) -> str:
    """Return the canonical path or URI of the table, by which a group names it as its sink.

    Two spellings of one location give one name: doubled slashes, `.` and `..`, a `file:` URI for a
    path, `s3a` for `s3`.
    """
    location = table_location(table)
    if (local := local_table_or_none(location)) is not None:
        return os.path.normpath(f"/{str(local).lstrip('/')}")
    scheme, separator, path = location.rpartition("://")
    # Compared as text with the name that earlier commits carry, so two spellings would be two
    # sinks.
    path = re.sub("/+", "/", path).rstrip("/")
    return f"{'s3' if scheme == 's3a' else scheme}{separator}{path}"


def refuse_foreign_batch(sources: Iterable[SourceReading], sink: str) -> None:
    """Raise AnotherSink where a batch belongs to a query that writes to other sinks.

    A span of an earlier version names no sinks: then the table's fences alone protect it.
    """
    for group, span, *_ in sources:
        if span.sinks is None or sink in span.sinks:
            continue
        if span.sinks:
            raise AnotherSink(
                f"group {readable(group)}: this checkpoint belongs to a query that writes to "
                f"{sink_names(span.sinks)}, "
                f"and now it is to write to {sink}: give the new sink a checkpoint and a "
                "group of its own; "
                "or, if the table was moved, stop all members of the group and start "
                "again, with the same checkpoint "
                "and delta.Writer(..., adopt=True). A query that writes to several "
                "tables calls each writer for every batch"
            )
        raise AnotherSink(
            f"group {readable(group)}: the query's source does not know that it writes to {sink}, "
            "so nothing is written. If the query wrote "
            "to another sink before, give this one a checkpoint and a group of its own. "
            "Else call the writer for every batch, "
            "empty ones too, let the driver and its Java process have the same TMPDIR, "
            "use trigger(availableNow=True) instead of "
            "trigger(once=True), and start again, with the same checkpoint and "
            "delta.Writer(..., adopt=True)"
        )


def refuse_claimed_group(
    options: SourceOptions, sink: str
) -> dict[TopicIdPartition, OffsetAndMetadata]:
    """Raise AnotherSink where the group of a stream that is not read yet belongs to other sinks.

    The source refuses the query, too, once the writer has reported its sink. Return the group's
    offsets; {} if they could not be fetched.
    """
    # A connection of its own, as below.
    cluster = cluster_of(options)
    try:
        partitions = run_rule(
            options.topics.find_partitions(options.assigned),
            lambda query: ANSWERS[type(query)](cluster, options.group, query),
        )
        stored = cluster.committed_offsets(options.group, partitions)
    except (Refused, Disconnected):
        return {}  # load() has asked the same: what has changed since, the query says
    finally:
        cluster.close()
    foreign = {partition: stored[partition] for partition in claims_without(sink, stored)}
    try:
        refuse_other_sinks((sink,), foreign)
    except AnotherSink as refused:
        raise AnotherSink(f"group {readable(options.group)}: {refused}") from None
    return stored


def fetch_group_progress(
    group: str, partition: TopicIdPartition, options: ClusterOptions
) -> tuple[OffsetAndMetadata | None, int | None]:
    """Return the group's committed offset and the log start offset of one partition.

    Both are None where the cluster does not answer: they only serve an error message.
    """
    if not options.bootstrap:
        return None, None
    # A connection of its own: the writer runs in the driver, the member in another process.
    cluster = cluster_of(options)
    try:
        return cluster.committed_offsets(group, [partition])[partition], cluster.list_offsets(
            [partition], EARLIEST
        )[partition]
    except (Refused, Disconnected):
        return None, None
    finally:
        cluster.close()


def explain_lost_offsets(
    lost: LostOffsets,
    group: str,
    sink: str,
    *,
    committed: OffsetAndMetadata | None,
    log_start: int | None,
) -> LostOffsets:
    """Return `lost` with its likely cause and the remedies in its message.

    committed, log_start: as `fetch_group_progress` returned them.
    """
    metadata = "" if committed is None else committed.metadata
    sinks = sinks_of(metadata)
    was_removed = lost.fence is None and committed is not None and committed.offset is None
    if sink in (sinks or ()) or was_removed:
        what = (
            "this table was removed, or another one or an older copy took its place"
            if lost.fence is None
            else "an older copy of this table took its place, or this writer was not called for a "
            "batch that others were given"
        )
        cause = f"Group {readable(group)} has read them for {sink}, so {what}"
        text = f"{cause}. {_remedies(lost, log_start, 'bring the table back, or')}"
        return LostOffsets(lost.partition, lost.fence, lost.start, text)
    if sinks:
        committer = sink_names(sinks)
    elif sinks is None and metadata:
        committer = f"somebody whose commits bear the metadata {metadata[:MAX_QUOTED_CHARS]!r}"
    else:
        committer = (
            "a consumer, a query that does not belong there, or somebody who set the offsets"
        )
    cause = (
        f"Something else has committed in group {readable(group)}, past what {sink} holds: "
        f"{committer}; or this writer was not called for a batch that others were given; or an "
        "older copy of the table took its place, or the table was removed"
    )
    return LostOffsets(
        lost.partition,
        lost.fence,
        lost.start,
        f"{cause}. {_remedies(lost, log_start, 'end what commits there, and')}",
    )


def _remedies(lost: LostOffsets, log_start: int | None, before: str) -> str:
    """Return what a person can do, by which of the lost records the topic still has.

    before: what comes before, or instead of, a rewind.
    """
    skip = "delta.Writer(..., fail_on_data_loss=False) goes on without them"
    rewind = f"{before} start this query again with delta.Writer(..., rewind=True"
    if log_start is None:
        start = "where the log begins" if lost.fence is None else str(lost.fence)
        return (
            f"{rewind[0].upper()}{rewind[1:]}): if the records are still in the topic, it goes "
            f"back to {start} and writes them once; {skip}"
        )
    if log_start >= lost.start:
        return (
            f"The records in [{lost.fence or 0}, {lost.start}) are no longer in the topic: {skip}"
        )
    gone = (
        f"The records in [{lost.fence or 0}, {log_start}) are no longer in the topic, "
        f"those in [{log_start}, {lost.start}) are. To write what is left: {rewind}"
    )
    if lost.fence is None and log_start:
        return f"{gone}): it goes back to {log_start}; {skip}"
    if lost.fence is not None and log_start > lost.fence:
        return (
            f"{gone}, fail_on_data_loss=False) and the source's "
            "option failOnDataLoss=false: it goes back "
            f"to {log_start}. With fail_on_data_loss=False alone it goes on without all of them"
        )
    return (
        f"The records are still in the topic: {rewind}): it goes back to {lost.fence or 0} and "
        f"writes them once; {skip}"
    )
