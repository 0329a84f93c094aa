"""The report of a query's source on its membership, which Spark shows in StreamingQueryProgress.

Spark takes no metrics from Python sources: their `sources[].metrics` is always empty. But it asks
them for their latest offset (`reportLatestOffset`, from Spark 4.2 on), and shows that JSON as it
is. So the report is the source's latest offset: member epoch, assigned partitions and lag, and the
three metrics of Spark's own Kafka source under their names.
"""

import json
from collections.abc import Mapping
from typing import Any, NamedTuple

from apportion.log_bounds import LogBounds
from apportion.topics import TopicPartition


class LogPosition(NamedTuple):
    """The place of a query in one partition's log, once it has written the planned batch.

    next: the first offset that it has not read. log: as of the plan.
    """

    next: int
    log: LogBounds

    def to_json(self) -> dict[str, Any]:
        """Return the position as Spark shows it."""
        side = self.log.out_of_range(self.next)
        return {
            "next": self.next,
            "start": self.log.start,
            "latest": self.log.end,
            "lag": self.log.lag(self.next),
            **({} if side is None else {"outOfRange": side.value}),
        }


class ReportedMember(NamedTuple):
    """The member that a query's source is. epoch: of a classic member the generation."""

    id: str
    epoch: int
    max_poll_interval_ms: int


class SourceReport(NamedTuple):
    """The membership of a query's source, as of the plan of a micro-batch.

    member: None with the option assign, which is no membership. positions: of its assigned
    partitions.
    """

    group_id: str
    member: ReportedMember | None
    positions: Mapping[TopicPartition, LogPosition]

    def to_json(self) -> dict[str, Any]:
        """Return the report as Spark shows it, with partitions in order."""
        topics: dict[str, dict[str, dict[str, Any]]] = {}
        for partition, position in sorted(self.positions.items()):
            numbers = topics.setdefault(partition.topic, {})
            numbers[str(partition.partition)] = position.to_json()
        member = {}
        if self.member is not None:
            member = {
                "memberId": self.member.id,
                "memberEpoch": self.member.epoch,
                "maxPollIntervalMs": self.member.max_poll_interval_ms,
            }
        return {
            "group": self.group_id,
            **member,
            "assignedPartitions": len(self.positions),
            "metrics": self._offsets_behind_latest(),
            "topics": topics,
        }

    def _offsets_behind_latest(self) -> dict[str, str]:
        """Return the metrics of Spark's own Kafka source, as texts as there.

        They are of the partitions whose lag is known; the others are counted beside them.
        """
        if not self.positions:
            return {}
        every = [log.lag(following) for following, log in self.positions.values()]
        lags = [lag for lag in every if lag is not None]
        count = {"partitionsOutOfRange": str(len(every) - len(lags))}
        if not lags:
            return count
        return count | {
            "avgOffsetsBehindLatest": str(sum(lags) / len(lags)),
            "maxOffsetsBehindLatest": str(max(lags)),
            "minOffsetsBehindLatest": str(min(lags)),
        }


def is_waiting(latest_offset: Any) -> bool | None:
    """Return whether the source waits, by `sources[].latestOffset`; None if it does not say so.

    latest_offset: as for `parse_report`.
    """
    try:
        fields = json.loads(latest_offset) if isinstance(latest_offset, str) else latest_offset
        if isinstance(fields.get("waitsFor"), str):
            return True
    except (ValueError, AttributeError):
        return None
    return None if parse_report(fields) is None else False


def parse_report(latest_offset: Any) -> SourceReport | None:
    """Return the report in `sources[].latestOffset` of a query's progress; None if it is none.

    latest_offset: a dict, or its JSON text. It is none of a source of another kind, before the
    first plan, and in a batch that Spark runs again after a restart.
    """
    try:
        fields = json.loads(latest_offset) if isinstance(latest_offset, str) else latest_offset
        member = None
        if "memberId" in fields:
            member = ReportedMember(
                fields["memberId"], fields["memberEpoch"], fields["maxPollIntervalMs"]
            )
        return SourceReport(
            fields["group"],
            member,
            {
                TopicPartition(topic, int(number)): LogPosition(
                    each["next"], LogBounds(each["start"], each["latest"])
                )
                for topic, numbers in fields["topics"].items()
                for number, each in numbers.items()
            },
        )
    # Any JSON may stand there: a number, an object of another source, null.
    except (ValueError, TypeError, KeyError, AttributeError):
        return None
