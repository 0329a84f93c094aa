"""The topology of a Streams application as its group must know it: subtopologies, their topics and
tasks.

Names are as on the brokers: internal topics carry the application's id in front. Shaped as
KIP-1071's Topology. The one unknown are the partitions of repartition topics, which follow from
what is written to them; `partition_counts` finds them.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from apportion.errors import Code, Refused
from apportion.streams.metadata.model import TaskId
from apportion.topics import TopicPartition, is_topic_name


class TopologyRefused(Refused):
    """A topology that cannot be run; the text says which topic and why."""

    def __init__(self, why: str) -> None:
        super().__init__(Code.STREAMS_INVALID_TOPOLOGY, why)


class MissingSources(Refused):
    """Topics that the application reads and nobody has made."""

    def __init__(self, topics: tuple[str, ...]) -> None:
        super().__init__(
            Code.UNKNOWN_TOPIC_OR_PARTITION,
            f"source topics are missing: {', '.join(topics)}; create them, and start again",
        )
        self.topics = topics


class InternalTopic(NamedTuple):
    """A topic that the group makes for itself. partitions: 0: as many as follow from the topology.
    configs: of the topic.
    """

    name: str
    partitions: int = 0
    configs: tuple[tuple[str, str], ...] = ()


REPARTITION_CONFIGS = (
    ("cleanup.policy", "delete"),
    ("message.timestamp.type", "CreateTime"),
    ("retention.ms", "-1"),
)
CHANGELOG_CONFIGS = (("cleanup.policy", "compact"), ("message.timestamp.type", "CreateTime"))


@dataclass(frozen=True, slots=True)
class Subtopology:
    """A part of the application whose tasks share no topic with another part's.

    sources: topics of others that it reads. repartition_sources: internal topics that it reads.
    repartition_sinks: internal topics that it writes for others to read. changelogs: of its state
    stores; one that is among `sources` is a source that serves as one.
    copartition: groups of topics that must have equally many partitions.
    """

    sources: tuple[str, ...] = ()
    repartition_sources: tuple[InternalTopic, ...] = ()
    repartition_sinks: tuple[str, ...] = ()
    changelogs: tuple[InternalTopic, ...] = ()
    copartition: tuple[tuple[str, ...], ...] = ()

    @property
    def stateful(self) -> bool:
        """Whether its tasks have something to restore."""
        return bool(self.changelogs)

    @property
    def source_topics(self) -> tuple[str, ...]:
        """All topics that its tasks read, in order of name."""
        return tuple(sorted((*self.sources, *(topic.name for topic in self.repartition_sources))))


class Task(NamedTuple):
    """One task: what it reads, and what its state is kept in."""

    id: TaskId
    sources: tuple[TopicPartition, ...]
    changelogs: tuple[TopicPartition, ...]


@dataclass(frozen=True, slots=True)
class Topology:
    """All subtopologies by number. TopologyRefused if they do not go together."""

    subtopologies: Mapping[int, Subtopology] = field(default_factory=dict)

    def __post_init__(self) -> None:
        _check(self.subtopologies)
        known = dict.fromkeys(self.external_topics, 1) | {
            name: 1 for name, topic in self._repartition_topics().items() if topic.partitions
        }
        self._infer_repartition_counts(known, self._repartition_topics())

    @property
    def source_topics(self) -> tuple[str, ...]:
        """All topics that some task reads, in order of name: what a member subscribes to."""
        return tuple(
            sorted({name for part in self.subtopologies.values() for name in part.source_topics})
        )

    @property
    def external_topics(self) -> tuple[str, ...]:
        """The topics of others that some task reads, in order of name: they have to be there."""
        return tuple(sorted(name for part in self.subtopologies.values() for name in part.sources))

    def partition_counts(self, exist: Mapping[str, int]) -> dict[str, int]:
        """How many partitions each topic has that some task reads, repartition topics included, by
        name.

        exist: the partitions of the topics that exist. MissingSources, or TopologyRefused where
        copartitioned topics differ or a repartition topic exists with another count. A repartition
        topic has as many as the largest source of its writers.
        """
        missing = tuple(name for name in self.external_topics if name not in exist)
        if missing:
            raise MissingSources(missing)
        internal = self._repartition_topics()
        counts = {name: exist[name] for name in self.external_topics}
        counts |= {name: topic.partitions for name, topic in internal.items() if topic.partitions}
        self._infer_repartition_counts(counts, internal)
        self._align_copartitioned(counts, internal)
        for name in internal:
            if exist.get(name, counts[name]) != counts[name]:
                why = (
                    f"repartition topic {name} has {exist[name]} partitions and should have "
                    f"{counts[name]}"
                )
                raise TopologyRefused(
                    f"{why}: reset the application, or give its topics the partitions they had"
                )
        return dict(sorted(counts.items()))

    def _repartition_topics(self) -> dict[str, InternalTopic]:
        return {
            topic.name: topic
            for part in self.subtopologies.values()
            for topic in part.repartition_sources
        }

    def _infer_repartition_counts(
        self, counts: dict[str, int], internal: Mapping[str, InternalTopic]
    ) -> None:
        """Every repartition topic has a count: the largest of what its writers read."""
        writers: dict[str, list[Subtopology]] = {name: [] for name in internal}
        for part in self.subtopologies.values():
            for sink in part.repartition_sinks:
                writers[sink].append(part)
        open_ = [name for name in sorted(internal) if name not in counts]
        while open_:
            known = [
                name
                for name in open_
                if any(topic in counts for part in writers[name] for topic in part.source_topics)
            ]
            if not known:
                raise TopologyRefused(
                    f"how many partitions {', '.join(open_)} should have follows from "
                    "nothing: say so, or who writes it"
                )
            for name in known:
                counts[name] = max(
                    counts[topic]
                    for part in writers[name]
                    for topic in part.source_topics
                    if topic in counts
                )
            open_ = [name for name in open_ if name not in counts]

    def _align_copartitioned(
        self, counts: dict[str, int], internal: Mapping[str, InternalTopic]
    ) -> None:
        """Topics that are read together are cut alike: repartition topics whose count is free
        follow the others.
        """
        for part in self.subtopologies.values():
            for group in part.copartition:
                fixed = {
                    name: counts[name]
                    for name in group
                    if name not in internal or internal[name].partitions
                }
                if len(set(fixed.values())) > 1:
                    said = ", ".join(f"{name} has {count}" for name, count in sorted(fixed.items()))
                    raise TopologyRefused(
                        f"topics that are read together must have equally many partitions: {said}"
                    )
                most = max(fixed.values()) if fixed else max(counts[name] for name in group)
                counts.update(dict.fromkeys((name for name in group if name in internal), most))

    def internal_topics(self, counts: Mapping[str, int]) -> tuple[InternalTopic, ...]:
        """All topics that the group must have made, in order of name, with their partitions.
        counts: of `partition_counts`.
        """
        made = {}
        for part in self.subtopologies.values():
            for topic in part.repartition_sources:
                made[topic.name] = InternalTopic(
                    topic.name, counts[topic.name], topic.configs or REPARTITION_CONFIGS
                )
            for topic in part.changelogs:
                if topic.name not in part.source_topics:
                    made[topic.name] = InternalTopic(
                        topic.name, _tasks(part, counts), topic.configs or CHANGELOG_CONFIGS
                    )
        return tuple(made[name] for name in sorted(made))

    def tasks(self, counts: Mapping[str, int]) -> tuple[Task, ...]:
        """All tasks in order of their ids: one for each partition of the subtopology's largest
        source.
        """
        return tuple(
            task
            for number, part in sorted(self.subtopologies.items())
            for task in _tasks_of(number, part, counts)
        )


def _tasks_of(number: int, part: Subtopology, counts: Mapping[str, int]) -> Iterator[Task]:
    most = _tasks(part, counts)
    sources = [(name, counts[name]) for name in part.source_topics]
    logs = [(topic.name, counts.get(topic.name, most)) for topic in part.changelogs]
    for partition in range(most):
        read = [TopicPartition(name, partition) for name, size in sources if partition < size]
        logged = [TopicPartition(name, partition) for name, size in logs if partition < size]
        yield Task(TaskId(number, partition), tuple(read), tuple(logged))


def _tasks(part: Subtopology, counts: Mapping[str, int]) -> int:
    return max((counts[name] for name in part.source_topics), default=0)


def _check(parts: Mapping[int, Subtopology]) -> None:
    """Each part is in order, no two share a topic, and what one writes for others is read.
    TopologyRefused if not.
    """
    if not parts:
        raise TopologyRefused(
            "a topology has at least one subtopology, with the topics that it reads"
        )
    read_by: dict[str, int] = {}
    logged_by: dict[str, int] = {}
    for number, part in parts.items():
        _check_part(number, part)
        for name in part.source_topics:
            if (before := read_by.get(name)) is not None:
                whom = (
                    f"by subtopology {number} twice"
                    if before == number
                    else f"by subtopologies {before} and {number}"
                )
                raise TopologyRefused(
                    f"topic {name} is read {whom}: once is enough, and who reads the same "
                    "is one subtopology"
                )
            read_by[name] = number
        for name, partitions, _ in part.changelogs:
            if name in logged_by:
                raise TopologyRefused(
                    f"subtopologies {logged_by[name]} and {number} have changelog {name}: "
                    "each store has its own"
                )
            if partitions:
                why = (
                    f"changelog {name} has a partition for each task of its subtopology, and "
                    f"not {partitions}: leave that out"
                )
                raise TopologyRefused(why)
            logged_by[name] = number
    repartitioned = {topic.name for part in parts.values() for topic in part.repartition_sources}
    for number, part in sorted(parts.items()):
        for sink in part.repartition_sinks:
            if sink not in repartitioned:
                raise TopologyRefused(
                    f"subtopology {number} writes repartition topic {sink}, which nobody reads"
                )


def _check_part(number: object, part: Subtopology) -> None:
    if type(number) is not int or not 0 <= number < 2**31:
        raise TopologyRefused(
            f"a subtopology's number must be from 0 to {2**31 - 1}, not {number!r}"
        )
    internal = (*part.repartition_sources, *part.changelogs)
    for name in (*part.sources, *part.repartition_sinks, *(topic.name for topic in internal)):
        if not is_topic_name(name):
            raise TopologyRefused(f"subtopology {number} names {name!r}, which cannot be a topic")
    if not part.source_topics:
        raise TopologyRefused(f"subtopology {number} reads no topic")
    for topic in internal:
        if type(topic.partitions) is not int or not 0 <= topic.partitions < 2**31:
            raise TopologyRefused(
                f"{topic.name} must have a number of partitions, or 0 for what follows, "
                f"not {topic.partitions!r}"
            )
        if not all(isinstance(text, str) for pair in topic.configs for text in pair):
            raise TopologyRefused(
                f"configs of {topic.name} must be texts, not {dict(topic.configs)!r}"
            )
    for group in part.copartition:
        strange = [name for name in group if name not in part.source_topics]
        if strange or not group:
            named = strange[0] if strange else "no topics"
            raise TopologyRefused(
                f"subtopology {number} copartitions {named}, which it does not read"
            )
