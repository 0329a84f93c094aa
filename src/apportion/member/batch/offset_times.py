"""Offsets that are chosen by time: of the first record at or after it (ListOffsets).

Times are in ms since 1970. Whether a record's time is that of its producer or of the broker is a
setting of the topic (message.timestamp.type).
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from apportion.member.queries import ListOffsets
from apportion.rules import Rule
from apportion.topics import TopicIdPartition
from apportion.wire.messages.list_offsets import LATEST

NOT_FOUND = -1
"""The offset in a ListOffsets response where no record is that young."""


class NoRecordAtTime(RuntimeError):
    """A partition has no record at or after the time at which its read should begin."""


@dataclass(frozen=True, slots=True)
class OffsetTimes:
    """The times whose offsets are chosen, and what follows where no record is that young.

    option: the name of the option that gives them. for_all: of every partition that is not in
    `by_partition`; None: those have no time. latest_if_none: LATEST is chosen then; otherwise
    NoRecordAtTime is raised.
    """

    option: str
    for_all: int | None = None
    by_partition: Mapping[tuple[str, int], int] = field(default_factory=dict)
    latest_if_none: bool = False

    def find_offsets(
        self, partitions: tuple[TopicIdPartition, ...]
    ) -> Rule[dict[tuple[str, int], int]]:
        """Return, by topic name and partition, the offset of those that have a time, or LATEST.

        Ask for the ends of the logs only afterwards: then each offset is within its log.
        """
        by_time: dict[int, list[TopicIdPartition]] = {}
        for partition in sorted(partitions):
            time_ms = self.by_partition.get((partition.topic, partition.partition), self.for_all)
            if time_ms is not None:
                by_time.setdefault(time_ms, []).append(partition)
        found: dict[tuple[str, int], int] = {}
        for time_ms in sorted(by_time):
            offsets = yield ListOffsets(tuple(by_time[time_ms]), time_ms)
            for partition, offset in offsets.items():
                if offset == NOT_FOUND and not self.latest_if_none:
                    raise NoRecordAtTime(
                        f"option {self.option}: {partition} has no record at or after {time_ms} "
                        "ms; give an earlier time, or startingOffsetsByTimestampStrategy=latest "
                        "to begin at the end of such a partition"
                    )
                found[partition.topic, partition.partition] = (
                    LATEST if offset == NOT_FOUND else offset
                )
        return found
