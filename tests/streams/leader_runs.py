"""A Streams leader in a test: the subscriptions it reads, and a cluster that answers it."""

from typing import Any

from apportion.errors import Unanswerable
from apportion.rules import Rule, run_rule
from apportion.streams.leader import LeaderSettings, assign_as_leader
from apportion.streams.metadata.model import SubscriptionInfo, TaskId
from apportion.streams.metadata.releases import NEWEST_RELEASE, RELEASES
from apportion.streams.queries import CreateInternalTopics
from apportion.streams.task_assignment.client_metadata import ConsumerMetadata
from apportion.streams.topology import Topology
from apportion.streams.topology_parser import topology_of
from apportion.topics import TopicPartition

WORDS = topology_of(
    [
        {"sources": ["lines"], "repartition_sinks": ["g-words"]},
        {"repartition_sources": ["g-words"], "changelogs": ["g-counts-changelog"]},
    ]
)
LINES = topology_of([{"sources": ["lines"]}])
STATE = topology_of([{"sources": ["lines"], "changelogs": ["g-changelog"]}])
NEWEST = RELEASES[NEWEST_RELEASE]


def subscription(
    process: Any,
    version: int = 11,
    owned: range | list[int] | tuple[int, ...] = (),
    sums: Any = None,
    **rest: Any,
) -> ConsumerMetadata:
    info = SubscriptionInfo(
        version,
        version if version > 2 else -1,
        process.encode().rjust(16),
        offset_sums=sums or {},
        **rest,
    )
    return ConsumerMetadata(info, tuple(TopicPartition("lines", number) for number in owned))


def run_queries(
    plan: Rule[Any],
    *,
    made: Any = None,
    ends: dict[TopicPartition, int] | None = None,
    queries: Any = None,
) -> Any:
    """The plan; `made` is what topics are found to have, `ends` says offsets: None: nobody
    answers.
    """

    def answer(query: Any) -> dict[Any, int]:
        if queries is not None:
            queries.append(query)
        if isinstance(query, CreateInternalTopics):
            return {topic.name: topic.partitions for topic in query.topics} | (made or {})
        if ends is None:
            raise Unanswerable("no broker")
        return {partition: ends.get(partition, 0) for partition in query.partitions}

    return run_rule(plan, answer)


def lead(
    topology: Topology,
    subscriptions: Any,
    *,
    existing: Any = None,
    member: str = "a",
    wall_ms: int = 1_000,
    settings: dict[str, Any] | None = None,
    **known: Any,
) -> Any:
    defaults: dict[str, Any] = {"release": NEWEST}
    leader = LeaderSettings(member, topology, **(defaults | (settings or {})))
    return run_queries(
        assign_as_leader(leader, existing or {"lines": 4}, subscriptions, wall_ms), **known
    )


def lines(*numbers: int) -> tuple[TopicPartition, ...]:
    return tuple(TopicPartition("lines", number) for number in numbers)


def tasks(*numbers: int) -> tuple[TaskId, ...]:
    return tuple(TaskId(0, number) for number in numbers)
