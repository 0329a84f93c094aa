from collections.abc import Collection
from typing import Any

import pytest

from apportion.errors import Code
from apportion.streams.metadata.model import TaskId
from apportion.streams.topology import (
    InternalTopic,
    MissingSources,
    Subtopology,
    Task,
    Topology,
    TopologyRefused,
)
from apportion.streams.topology_parser import topology_of
from apportion.topics import TopicPartition

COUNT = topology_of(
    [
        {"sources": ["lines"], "repartition_sinks": ["app-words"]},
        {"repartition_sources": ["app-words"], "changelogs": ["app-counts-changelog"]},
    ]
)


def test_a_repartition_topic_has_the_partitions_of_its_writers_largest_source() -> None:
    assert COUNT.partition_counts({"lines": 3, "other": 9}) == {"app-words": 3, "lines": 3}


def test_there_is_a_task_for_each_partition_of_a_subtopologys_largest_source() -> None:
    parts = [{"sources": ["a", "b"]}, {"sources": ["c"], "changelogs": ["c-changelog"]}]
    topology = topology_of(parts)
    assert topology.tasks(topology.partition_counts({"a": 1, "b": 2, "c": 1})) == (
        Task(TaskId(0, 0), (TopicPartition("a", 0), TopicPartition("b", 0)), ()),
        Task(TaskId(0, 1), (TopicPartition("b", 1),), ()),
        Task(TaskId(1, 0), (TopicPartition("c", 0),), (TopicPartition("c-changelog", 0),)),
    )


def test_internal_topics_are_made_with_streams_settings() -> None:
    assert COUNT.internal_topics(COUNT.partition_counts({"lines": 2})) == (
        InternalTopic(
            "app-counts-changelog",
            2,
            (("cleanup.policy", "compact"), ("message.timestamp.type", "CreateTime")),
        ),
        InternalTopic(
            "app-words",
            2,
            (
                ("cleanup.policy", "delete"),
                ("message.timestamp.type", "CreateTime"),
                ("retention.ms", "-1"),
            ),
        ),
    )


def test_a_source_that_serves_as_a_changelog_is_not_made() -> None:
    table = topology_of([{"sources": ["table"], "changelogs": ["table"]}])
    assert table.internal_topics({"table": 4}) == ()
    assert table.tasks({"table": 1}) == (
        Task(TaskId(0, 0), (TopicPartition("table", 0),), (TopicPartition("table", 0),)),
    )


def test_a_source_with_fewer_partitions_than_tasks_is_a_changelog_of_as_many_of_them() -> None:
    tasks = topology_of([{"sources": ["large", "table"], "changelogs": ["table"]}]).tasks(
        {"large": 2, "table": 1}
    )
    assert [task.changelogs for task in tasks] == [(TopicPartition("table", 0),), ()]


@pytest.mark.parametrize("number", [-1, 2**31, "0"])
def test_a_subtopologys_number_is_one_that_can_be_told(number: Any) -> None:
    with pytest.raises(
        TopologyRefused, match="a subtopology's number must be from 0 to 2147483647, not"
    ):
        Topology({number: Subtopology(sources=("a",))})


def test_partitions_follow_through_several_repartitions_and_copartitioned_topics() -> None:
    chain = topology_of(
        [
            {"sources": ["a"], "repartition_sinks": ["one"]},
            {"repartition_sources": ["one"], "repartition_sinks": ["two"]},
            {"sources": ["b"], "repartition_sources": ["two"], "copartition": [["b", "two"]]},
        ]
    )
    assert chain.partition_counts({"a": 3, "b": 6}) == {"a": 3, "b": 6, "one": 3, "two": 6}
    assert chain.source_topics == ("a", "b", "one", "two")


def test_missing_source_topics_are_named() -> None:
    with pytest.raises(MissingSources, match="source topics are missing: lines") as refusal:
        COUNT.partition_counts({})
    assert (refusal.value.code, refusal.value.topics) == (
        Code.UNKNOWN_TOPIC_OR_PARTITION,
        ("lines",),
    )


JOIN = Topology({0: Subtopology(sources=("a", "b"), copartition=(("a", "b"),))})


@pytest.mark.parametrize(
    ("topology", "exist", "why"),
    [
        (
            JOIN,
            {"a": 2, "b": 3},
            "topics that are read together must have equally many partitions: a has 2, b has 3",
        ),
        (
            COUNT,
            {"lines": 2, "app-words": 4},
            "repartition topic app-words has 4 partitions and should have 2",
        ),
    ],
)
def test_partitions_that_do_not_go_together_are_refused(
    topology: Topology, exist: dict[str, int], why: str
) -> None:
    with pytest.raises(TopologyRefused, match=why) as refusal:
        topology.partition_counts(exist)
    assert refusal.value.code is Code.STREAMS_INVALID_TOPOLOGY


@pytest.mark.parametrize(
    ("parts", "why"),
    [
        ([], "a topology has at least one subtopology"),
        ([{}], "subtopology 0 reads no topic"),
        (
            {"sources": ["a"]},
            "a topology must be a list of its subtopologies, not {'sources': \\['a'\\]}",
        ),
        (["a"], "subtopology 0 must be a mapping of its fields, sources, .*, not 'a'"),
        ([{"sources": "lines"}], "subtopology 0: sources must be a list, not 'lines'"),
        ([{"sources": ["a b"]}], "subtopology 0 names 'a b', which cannot be a topic"),
        ([{"sources": [1]}], "subtopology 0 names 1, which cannot be a topic"),
        (
            [{"sources": ["a"], "copartition": ["a"]}],
            "subtopology 0: copartition must be a list, not 'a'",
        ),
        ([{"sources": ["a"], "copartition": [[]]}], "subtopology 0 copartitions no topics"),
        (
            [{"sources": ["a"], "changelogs": [3]}],
            "an internal topic must be a mapping of its fields, name, .*, not 3",
        ),
        (
            [{"sources": ["a"], "changelogs": [{}]}],
            "subtopology 0: an internal topic has no name in {}",
        ),
        (
            [{"sources": ["a"], "changelogs": [{"nam": "c"}]}],
            "subtopology 0: an internal topic has no 'nam'; there are name",
        ),
        (
            [{"sources": ["a"], "changelogs": [{"name": "c", "partitions": -1}]}],
            "c must have a number of partitions.*, not -1",
        ),
        (
            [{"sources": ["a"], "changelogs": [{"name": "c", "configs": 3}]}],
            "configs of 'c' must map names to texts, not 3",
        ),
        (
            [{"sources": ["a"], "changelogs": [{"name": "c", "configs": {"k": 3}}]}],
            "configs of c must be texts, not {'k': 3}",
        ),
        (
            [{"repartition_sources": ["r"], "repartition_sinks": ["r"]}],
            "partitions r should have follows from nothing",
        ),
        (
            [{"sources": ["a"]}, {"repartition_sources": ["r"]}],
            "r should have follows from nothing: say so, or who writes it",
        ),
        (
            [{"sources": ["a"], "changelogs": [{"name": "c", "partitions": 3}]}],
            "c has a partition for each task .* not 3: leave",
        ),
        ([{"sources": ["a", "a"]}], "topic a is read by subtopology 0 twice: once is enough"),
        (
            [{"sources": ["a"], "changelogs": ["c", "c"]}],
            "subtopologies 0 and 0 have changelog c: each store has its own",
        ),
        (
            [{"sources": ["a"], "changelogs": ["c"]}, {"sources": ["b"], "changelogs": ["c"]}],
            "subtopologies 0 and 1 have changelog c",
        ),
        (
            [{"sources": ["a"]}, {"sources": ["a"]}],
            "topic a is read by subtopologies 0 and 1: once is enough",
        ),
        (
            [{"sources": ["a"], "copartition": [["a", "b"]]}],
            "subtopology 0 copartitions b, which it does not read",
        ),
        (
            [{"sources": ["a"], "repartition_sinks": ["r"]}],
            "subtopology 0 writes repartition topic r, which nobody reads",
        ),
        (
            [{"source": ["a"]}],
            "subtopology 0 has no 'source'; there are sources, repartition_sources",
        ),
    ],
)
def test_a_topology_that_does_not_go_together_is_refused(parts: Collection[Any], why: str) -> None:
    with pytest.raises(TopologyRefused, match=why):
        topology_of(parts)
