"""What a query's first look asks, answered at once: a clock that the look's own pauses move, and a
small cluster, as plain fields.
"""

from dataclasses import dataclass, field
from typing import Any

import pytest

from apportion.errors import Code
from apportion.machine import Note
from apportion.member.batch.first_look import FirstLook, look_at_cluster
from apportion.member.batch.membership import MembershipFailed
from apportion.member.cluster_queries.offsets import OffsetAndMetadata
from apportion.member.cluster_queries.records import PartitionFetch
from apportion.member.queries import (
    ExistingTopics,
    FetchCommitted,
    ListOffsets,
    MatchingTopics,
)
from apportion.member.records.queries import FetchRecords
from apportion.member.time_limits import Pause, ReadClock
from apportion.rules import run_rule
from apportion.topics import Topic, TopicIdPartition, Topics
from apportion.wire.messages.list_offsets import LATEST

ID = bytes(range(16))
P0, P1 = (TopicIdPartition("t", ID, number) for number in range(2))
HOUR_MS = 3_600_000


@dataclass
class LookedAt:
    """A cluster with the topic t of two partitions, which end at 10 and 20.

    errors: of queries, until the given time. codes: of partitions, in the responses to Fetch.
    """

    now_ms: int = 5_000
    errors: dict[type, tuple[Exception, int]] = field(default_factory=dict)
    codes: dict[TopicIdPartition, Code] = field(default_factory=dict)
    asked: list[Any] = field(default_factory=list)
    pauses: list[int] = field(default_factory=list)
    logged: list[str] = field(default_factory=list)

    def fails(self, query: type, error: Exception, for_ms: int = HOUR_MS) -> None:
        self.errors[query] = error, self.now_ms + for_ms

    def look(self, look: FirstLook) -> int:
        """The time that the look takes, in ms."""
        began_ms = self.now_ms
        run_rule(look_at_cluster(look), self._answer)
        return self.now_ms - began_ms

    def refusal(self, look: FirstLook) -> tuple[str, int]:
        """What the look ends with, and the time until then."""
        began_ms = self.now_ms
        with pytest.raises(MembershipFailed) as refused:
            run_rule(look_at_cluster(look), self._answer)
        return str(refused.value), self.now_ms - began_ms

    def _answer(self, query: Any) -> Any:
        match query:
            case ReadClock():
                return self.now_ms
            case Pause(pause_ms):
                self.pauses.append(pause_ms)
                self.now_ms += pause_ms
                return None
            case Note("warning", text, hint):
                return self.logged.append(text + hint)
        self.asked.append(query)
        error, until_ms = self.errors.get(type(query), (None, 0))
        if error is not None and self.now_ms < until_ms:
            raise error
        return self._found(query)

    def _found(self, query: Any) -> Any:
        match query:
            case MatchingTopics(expression):
                return ("t",) if expression == "t.*" else ()
            case ExistingTopics(names):
                return Topics([Topic("t", ID, 2)] if "t" in names else [])
            case ListOffsets(partitions, timestamp) if timestamp == LATEST:
                return {each: {P0: 10, P1: 20}[each] for each in partitions}
            case FetchRecords(positions, 0):
                return {
                    each: PartitionFetch((), at, self.codes.get(each, Code.NONE))
                    for each, at in positions.items()
                }
            case FetchCommitted(partitions, 0):
                return {each: OffsetAndMetadata(None) for each in partitions}
        raise AssertionError(query)
