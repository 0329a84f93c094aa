"""The offset ranges of a read that has a beginning and an end, for readers without a membership.

Spark's batch read chooses them before its tasks run. It may begin at the committed offsets of a
group; it does not join that group, and it commits nothing.

Example: the log of t-0 holds [3, 9), and the group has committed 5. From the committed offsets on,
t-0 is read in [5, 9); from the earliest on, in [3, 9).
"""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from apportion.log_bounds import LogBounds
from apportion.machine import Note
from apportion.member.batch.data_loss import DataLoss
from apportion.member.batch.offset_times import OffsetTimes
from apportion.member.batch.plan import Gap, StartingOffsets, nearest_offset
from apportion.member.batch.span import Span, sorted_span
from apportion.member.batch.topic_choice import TopicChoice
from apportion.member.cluster_queries.offsets import OffsetAndMetadata
from apportion.member.queries import NO_MEMBER_INCARNATION, FetchCommitted, ListOffsets
from apportion.rules import Rule
from apportion.topics import TopicIdPartition, partitions_of
from apportion.wire.messages.list_offsets import EARLIEST, LATEST

OffsetsByName = Mapping[tuple[str, int], int]
"""Offsets by topic name and partition, EARLIEST and LATEST among them."""


class ReadRefused(ValueError):
    """The topics cannot be read as the options say; the text says why."""


class BoundedRead(NamedTuple):
    """The topics to read, and where each of their partitions begins and ends.

    assigned: the partitions to read, by topic name, in place of all; None: all.
    starting: of a partition that does not begin at a committed offset. ending: LATEST, which is
    the last stable offset, where it has none. ending_times: come before `ending`. from_committed:
    begin at the committed offset of the group where there is one.
    """

    topics: TopicChoice
    starting: StartingOffsets
    ending: OffsetsByName
    ending_times: OffsetTimes | None = None
    from_committed: bool = False
    fail_on_data_loss: bool = True
    assigned: tuple[tuple[str, int], ...] | None = None


def read_ranges(read: BoundedRead) -> Rule[Span]:
    """Return the offset ranges to read; partitions with nothing to read are left out.

    Raises ReadRefused where the options do not fit the topics, NoRecordAtTime, and DataLoss for
    records that are gone, unless `fail_on_data_loss` is False.
    """
    partitions = yield from _find_partitions(read)
    for option, offsets in _given_by_partition(read).items():
        _require_the_same_partitions(option, offsets, partitions)
    committed = yield from _fetch_committed(read, partitions)
    starting = yield from read.starting.with_times_found(
        tuple(each for each in partitions if _offset(committed, each) is None)
    )
    ending = read.ending
    if read.ending_times is not None:
        ending = yield from read.ending_times.find_offsets(partitions)
    log_starts: dict[TopicIdPartition, int] = yield ListOffsets(partitions, EARLIEST)
    # Last: every offset that was found before is within the log then.
    log_ends: dict[TopicIdPartition, int] = yield ListOffsets(partitions, LATEST)
    ranges: dict[TopicIdPartition, tuple[int, int]] = {}
    gone: list[str] = []
    for partition in partitions:
        log = LogBounds(log_starts[partition], log_ends[partition])
        start = _offset(committed, partition)
        if start is None:
            start = starting.start_offset(partition, log, is_new=False)
        end = ending.get((partition.topic, partition.partition), LATEST)
        end = log.end if end == LATEST else end
        start, end = _within_log(partition, (start, end), log, gone)
        if start < end:
            ranges[partition] = start, end
    yield from _report(gone, fail=read.fail_on_data_loss)
    return sorted_span("", ranges)


def _find_partitions(read: BoundedRead) -> Rule[tuple[TopicIdPartition, ...]]:
    """Return the partitions to read, in order; raise ReadRefused if one is missing."""
    topics = yield from read.topics.find_topics()
    missing = [name for name in read.topics.names if topics.named(name) is None]
    option = "subscribe" if read.assigned is None else "assign"
    if read.topics.expression and not topics:
        missing, option = [f"that matches {read.topics.expression}"], "subscribePattern"
    if missing:
        raise ReadRefused(
            f"there is no topic {', '.join(missing)}, and a batch read needs topics that exist: "
            f"create what is missing, or correct the option {option}"
        )
    partitions = tuple(sorted(each for topic in topics for each in partitions_of(topic)))
    if read.assigned is None:
        return partitions
    by_name = {(each.topic, each.partition): each for each in partitions}
    absent = [
        f"{topic}-{number}" for topic, number in read.assigned if (topic, number) not in by_name
    ]
    if absent:
        raise ReadRefused(
            f"option assign names {', '.join(absent)}, which does not exist: create what is "
            "missing, or correct the option"
        )
    return tuple(by_name[each] for each in read.assigned)


def _given_by_partition(read: BoundedRead) -> dict[str, OffsetsByName]:
    """Return, by option, the offsets or times that the options give in JSON."""
    times = [each for each in (read.starting.times, read.ending_times) if each is not None]
    return {
        "startingOffsets": read.starting.by_partition,
        "endingOffsets": read.ending,
        **{each.option: each.by_partition for each in times},
    }


def _offset(
    committed: Mapping[TopicIdPartition, OffsetAndMetadata], partition: TopicIdPartition
) -> int | None:
    """Return the committed offset of the partition; None if there is none, or none was fetched."""
    return committed[partition].offset if partition in committed else None


def _require_the_same_partitions(
    option: str, offsets: OffsetsByName, partitions: Iterable[TopicIdPartition]
) -> None:
    """Raise ReadRefused unless an option in JSON names exactly these partitions, or none."""
    if not offsets:
        return
    # As in Spark's own source: a partition that was forgotten would be read wholly, or not at all.
    existing = dict.fromkeys((each.topic, each.partition) for each in partitions)
    for what, names in (
        ("leaves out", [name for name in existing if name not in offsets]),
        ("names partitions that do not exist:", [name for name in offsets if name not in existing]),
    ):
        if names:
            texts = ", ".join(f"{topic}-{partition}" for topic, partition in sorted(names))
            raise ReadRefused(
                f"option {option} {what} {texts}: a batch read wants each partition that it "
                "reads, and no other"
            )


def _fetch_committed(
    read: BoundedRead, partitions: tuple[TopicIdPartition, ...]
) -> Rule[dict[TopicIdPartition, OffsetAndMetadata]]:
    """Return the group's committed offsets if the read begins there."""
    if not read.from_committed:
        return {}
    committed = yield FetchCommitted(partitions, NO_MEMBER_INCARNATION)
    if all(each.offset is None for each in committed.values()):
        yield Note(
            "warning",
            "the group has no committed offset of these topics; they are read from the beginning",
            ": is kafka.group.id right?",
        )
    return dict(committed)


def _within_log(
    partition: TopicIdPartition, bounds: tuple[int, int], log: LogBounds, gone: list[str]
) -> tuple[int, int]:
    """Return the part of the bounds that the log has; add to `gone` what it does not have."""
    start, end = bounds
    if start < end or start > log.end:
        gaps: list[Gap] = []
        start = nearest_offset(partition, start, log, gaps)
        gone.extend(map(str, gaps))
    if end > log.end:
        gone.append(f"{partition}: the log ends at {log.end}, before endingOffsets' {end}")
        end = log.end
    return start, end


def _report(gone: list[str], *, fail: bool) -> Rule[None]:
    """Raise DataLoss for records that a batch read should have had, or note a warning."""
    if not gone:
        return
    what = "; ".join(gone)
    if fail:
        raise DataLoss(f"{what}. Set failOnDataLoss to false to go on without these records.")
    yield Note("warning", f"{what}; failOnDataLoss is false, so the rest is read")
