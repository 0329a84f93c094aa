"""Whether a batch is for this sink, and what to say where the group's offsets and the sink do not
fit together.

The writers' side of `member/batch/sinks.py`: the sinks that a span names are compared with the
writer's own name before a row is written. Where something else has committed in the group, the
cluster is asked which records still exist, so that the error can name the remedy.
"""

import os
import re
from collections.abc import Iterable

from apportion.client.cluster import EARLIEST, Cluster
from apportion.client.connection import Disconnected
from apportion.errors import Refused
from apportion.member.batch.offsets import OffsetAndMetadata
from apportion.member.batch.sinks import AnotherSink, sink_names, sinks_of
from apportion.member.batch.span import LostOffsets
from apportion.spark.query_introspection import SourceReading
from apportion.topics import TopicIdPartition

ASK_MS = 5_000
MOST_QUOTED = 200  # characters of somebody's metadata that an error shows


def location_of(table: str) -> str:
    """Return where the table lies, for a driver or an executor in any directory: an absolute path,
    or a URI.

    A URI's scheme is written in lower case, and `file:/lake`, as Hadoop writes it, is
    `file:///lake`.
    """
    scheme, _, rest = table.partition(":")
    if scheme.lower() == "file" and rest.startswith("/"):
        return f"file://{rest}" if not rest.startswith("//") else f"file:{rest}"
    if rest.startswith("//"):
        return f"{scheme.lower()}:{rest}"
    return os.path.abspath(table)


def table_name(table: str) -> str:
    """Return the name by which a group knows the table: its path or URI, without what makes no
    difference.
    """
    scheme, there, rest = location_of(table).rpartition("://")
    if scheme in ("", "file"):
        return os.path.normpath(f"/{rest.lstrip('/')}")
    rest = re.sub("/+", "/", rest).rstrip("/")
    return f"{'s3' if scheme == 's3a' else scheme}{there}{rest}"


def refuse_foreign_batch(sources: Iterable[SourceReading], sink: str) -> None:
    """Raise AnotherSink where a batch belongs to a query that writes elsewhere.

    A span of before sinks had names says nothing of them: then the fences alone decide.
    """
    for group, span, _ in sources:
        if span.sinks is None or sink in span.sinks:
            continue
        if span.sinks:
            raise AnotherSink(
                f"group {group}: this checkpoint belongs to a query that writes to "
                f"{sink_names(span.sinks)}, "
                f"and now it is to write to {sink}: give the new sink a checkpoint and a "
                "group of its own; "
                "or, if the table was moved, stop all members of the group and start "
                "again, with the same checkpoint "
                "and delta.Writer(..., adopt=True). A query that writes to several "
                "tables calls each writer for every batch"
            )
        raise AnotherSink(
            f"group {group}: the query's source was never told that it writes to {sink}, "
            "so nothing is written. If the query wrote "
            "to another sink before, give this one a checkpoint and a group of its own. "
            "Else call the writer for every batch, "
            "empty ones too, let the driver and its Java process have the same TMPDIR, "
            "use trigger(availableNow=True) instead of "
            "trigger(once=True), and start again, with the same checkpoint and "
            "delta.Writer(..., adopt=True)"
        )


def fetch_group_state(
    place: TopicIdPartition, reading: SourceReading
) -> tuple[OffsetAndMetadata, int | None]:
    """Return the group's committed offset and the log start offset.

    Nothing where the cluster does not answer.
    """
    if not reading.bootstrap:
        return OffsetAndMetadata(None), None
    cluster = Cluster(reading.bootstrap, timeout_ms=ASK_MS)
    try:
        return cluster.committed_offsets(reading.group, [place])[place], cluster.list_offsets(
            [place], EARLIEST
        )[place]
    except (Refused, Disconnected):
        return OffsetAndMetadata(None), None
    finally:
        cluster.close()


def explain_lost_offsets(
    lost: LostOffsets,
    reading: SourceReading,
    sink: str,
    stored: OffsetAndMetadata,
    log_start: int | None,
) -> LostOffsets:
    """Return `lost` with its likely cause, as far as the cluster tells, and the remedies.

    stored, log_start: as `fetch_group_state` returned them.
    """
    named = sinks_of(stored.metadata)
    if named and named != reading.span.sinks:
        who = sink_names(named)
    elif named is None and stored.metadata:
        who = f"somebody whose commits bear the metadata {stored.metadata[:MOST_QUOTED]!r}"
    else:
        who = "a consumer, a query that does not belong there, or somebody who set the offsets"
    cause = f"Something else has committed in group {reading.group}, past what {sink} holds: {who}"
    others = (
        "or this writer was not called for a batch that others were given; or the table was "
        "restored to an earlier version"
    )
    return LostOffsets(
        lost.partition, lost.fence, lost.start, f"{cause}; {others}. {_ways_on(lost, log_start)}"
    )


def _ways_on(lost: LostOffsets, log_start: int | None) -> str:
    give_up = "delta.Writer(..., fail_on_data_loss=False) goes on without them"
    again = (
        "end what commits there, and start this query again, with the same checkpoint and "
        "with delta.Writer(..., rewind=True"
    )
    if log_start is None:
        back = "where the log begins" if lost.fence is None else str(lost.fence)
        return (
            f"If the records are still in the topic: {again}): it goes back to {back} and "
            f"writes them once; {give_up}"
        )
    if log_start >= lost.start:
        return (
            f"The records in [{lost.fence or 0}, {lost.start}) are no longer in the topic: "
            f"{give_up}"
        )
    if lost.fence is not None and log_start > lost.fence:
        return (
            f"The records in [{lost.fence}, {log_start}) are no longer in the topic, "
            f"those in [{log_start}, {lost.start}) are. "
            f"To write what is left: {again}, fail_on_data_loss=False) and the source's "
            "option failOnDataLoss=false: it goes back "
            f"to {log_start}. With fail_on_data_loss=False alone it goes on without all of them"
        )
    to = log_start if lost.fence is None else lost.fence
    return (
        f"The records are still in the topic: {again}): it goes back to {to} and writes them "
        f"once; {give_up}"
    )
