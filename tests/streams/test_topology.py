import pytest

from apportion.errors import Code
from apportion.streams.topology import InternalTopic, MissingSources, Subtopology, Task, Topology, TopologyRefused, topology_of
from apportion.streams.words import TaskId
from apportion.topics import TopicPartition

COUNT = topology_of(
    [
        {"sources": ["lines"], "repartition_sinks": ["app-words"]},
        {"repartition_sources": ["app-words"], "changelogs": ["app-counts-changelog"]},
    ]
)


def test_a_repartition_topic_has_as_many_partitions_as_the_largest_source_of_its_writers():
    assert COUNT.partition_counts({"lines": 3, "other": 9}) == {"app-words": 3, "lines": 3}


def test_there_is_a_task_for_each_partition_of_a_subtopologys_largest_source():
    parts = [{"sources": ["a", "b"]}, {"sources": ["c"], "changelogs": ["c-changelog"]}]
    topology = topology_of(parts)
    assert topology.tasks(topology.partition_counts({"a": 1, "b": 2, "c": 1})) == (
        Task(TaskId(0, 0), (TopicPartition("a", 0), TopicPartition("b", 0)), ()),
        Task(TaskId(0, 1), (TopicPartition("b", 1),), ()),
        Task(TaskId(1, 0), (TopicPartition("c", 0),), (TopicPartition("c-changelog", 0),)),
    )


def test_internal_topics_are_made_with_streams_settings():
    assert COUNT.internal_topics(COUNT.partition_counts({"lines": 2})) == (
        InternalTopic("app-counts-changelog", 2, (("cleanup.policy", "compact"), ("message.timestamp.type", "CreateTime"))),
        InternalTopic(
            "app-words", 2, (("cleanup.policy", "delete"), ("message.timestamp.type", "CreateTime"), ("retention.ms", "-1"))
        ),
    )


def test_a_source_that_serves_as_a_changelog_is_not_made():
    table = topology_of([{"sources": ["table"], "changelogs": ["table"]}])
    assert table.internal_topics({"table": 4}) == ()
    assert table.tasks({"table": 1}) == (Task(TaskId(0, 0), (TopicPartition("table", 0),), (TopicPartition("table", 0),)),)


def test_partitions_follow_through_several_repartitions_and_copartitioned_topics():
    chain = topology_of(
        [
            {"sources": ["a"], "repartition_sinks": ["one"]},
            {"repartition_sources": ["one"], "repartition_sinks": ["two"]},
            {"sources": ["b"], "repartition_sources": ["two"], "copartition": [["b", "two"]]},
        ]
    )
    assert chain.partition_counts({"a": 3, "b": 6}) == {"a": 3, "b": 6, "one": 3, "two": 6}
    assert chain.source_topics == ("a", "b", "one", "two")


def test_missing_source_topics_are_named():
    with pytest.raises(MissingSources, match="source topics are missing: lines") as refusal:
        COUNT.partition_counts({})
    assert (refusal.value.code, refusal.value.topics) == (Code.UNKNOWN_TOPIC_OR_PARTITION, ("lines",))


JOIN = Topology({0: Subtopology(sources=("a", "b"), copartition=(("a", "b"),))})


@pytest.mark.parametrize(
    ("topology", "exist", "why"),
    [
        (JOIN, {"a": 2, "b": 3}, "topics that are read together must have equally many partitions: a has 2, b has 3"),
        (COUNT, {"lines": 2, "app-words": 4}, "repartition topic app-words has 4 partitions and should have 2"),
        (
            topology_of([{"repartition_sources": ["r"], "repartition_sinks": ["r"]}]),
            {},
            "partitions r should have follows from nothing",
        ),
    ],
)
def test_partitions_that_do_not_go_together_are_refused(topology, exist, why):
    with pytest.raises(TopologyRefused, match=why) as refusal:
        topology.partition_counts(exist)
    assert refusal.value.code is Code.STREAMS_INVALID_TOPOLOGY


@pytest.mark.parametrize(
    ("parts", "why"),
    [
        ([{}], "subtopology 0 reads no topic"),
        ([{"sources": ["a"]}, {"sources": ["a"]}], "topic a is read by subtopologies 0 and 1: then they are one"),
        ([{"sources": ["a"], "copartition": [["a", "b"]]}], "subtopology 0 copartitions b, which it does not read"),
        ([{"sources": ["a"], "repartition_sinks": ["r"]}], "subtopology 0 writes repartition topic r, which nobody reads"),
        ([{"source": ["a"]}], "subtopology 0 has no 'source'; there are sources, repartition_sources"),
    ],
)
def test_a_topology_that_does_not_go_together_is_refused(parts, why):
    with pytest.raises(TopologyRefused, match=why):
        topology_of(parts)
