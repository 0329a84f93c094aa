"""The topology of a Streams application: subtopologies, their topics, and the tasks that follow.

The topology has the shape of KIP-1071's Topology. Topics have the names that the brokers know, so
internal topics begin with the application's id. Only the partition counts of repartition topics may
be omitted: they follow from the topics that their writers read, and `partition_counts` computes
them.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from apportion.errors import Code, Refused
from apportion.readable import listed
from apportion.settings import MAX_INT32
from apportion.streams.metadata.model import TaskId
from apportion.topics import TopicPartition, is_topic_name


class TopologyRefused(Refused):
    """The topology cannot run; the text says which topic is wrong, and why."""

    def __init__(self, why: str) -> None:
        super().__init__(Code.STREAMS_INVALID_TOPOLOGY, why)


class MissingSources(Refused):
    """Source topics of the application do not exist."""

    def __init__(self, topics: tuple[str, ...]) -> None:
        """Keep the names of the source topics that the Streams application lacks."""
        super().__init__(
            Code.UNKNOWN_TOPIC_OR_PARTITION,
            f"source topics are missing: {listed(topics)}; create them, and start again",
        )
        self.topics = topics


class InternalTopic(NamedTuple):
    """A repartition topic or a changelog, which the group creates.

    partitions: 0 if the count follows from the topology. configs: of the topic; () for Kafka
    Streams' defaults.
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
    """A part of the application whose tasks share no topic with another part's tasks.

    sources: topics from outside that it reads. repartition_sources: internal topics that it reads.
    repartition_sinks: internal topics that it writes for other subtopologies. changelogs: of its
    state stores; one that is among `sources` is a source topic that serves as changelog.
    copartition: groups of topics that must have equally many partitions.
    """

    sources: tuple[str, ...] = ()
    repartition_sources: tuple[InternalTopic, ...] = ()
    repartition_sinks: tuple[str, ...] = ()
    changelogs: tuple[InternalTopic, ...] = ()
    copartition: tuple[tuple[str, ...], ...] = ()

    @property
    def stateful(self) -> bool:
        """Return whether its tasks have state stores to restore."""
        return bool(self.changelogs)

    @property
    def source_topics(self) -> tuple[str, ...]:
        """All topics that its tasks read, in order of name."""
        return tuple(sorted((*self.sources, *(topic.name for topic in self.repartition_sources))))


class Task(NamedTuple):
    """One task: the partitions that it reads, and those that keep its state."""

    id: TaskId
    sources: tuple[TopicPartition, ...]
    changelogs: tuple[TopicPartition, ...]


@dataclass(frozen=True, slots=True)
class Topology:
    """All subtopologies by number. Raises TopologyRefused if they contradict each other."""

    subtopologies: Mapping[int, Subtopology] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Check a new Streams topology: its subtopologies, and repartition topics for cycles."""
        _check(self.subtopologies)
        # Find a cycle of repartition topics now, not in the first rebalance. Whether the counts can
        # be inferred does not depend on their values.
        known = dict.fromkeys(self.external_topics, 1) | {
            name: 1 for name, topic in self._repartition_topics().items() if topic.partitions
        }
        self._infer_repartition_counts(known, self._repartition_topics())

    @property
    def source_topics(self) -> tuple[str, ...]:
        """All topics that some Streams task reads, by name: what a member subscribes to."""
        return tuple(
            sorted({name for part in self.subtopologies.values() for name in part.source_topics})
        )

    @property
    def external_topics(self) -> tuple[str, ...]:
        """The source topics from outside, in order of name: the group does not create them."""
        return tuple(sorted(name for part in self.subtopologies.values() for name in part.sources))

    def partition_counts(self, existing: Mapping[str, int]) -> dict[str, int]:
        """Return the partition counts of all topics that some Streams task reads, by name.

        The leader asks in each rebalance. existing: the partition counts of the topics that exist.
        A repartition topic has as many partitions as the largest source of its writers. Raises
        MissingSources, or TopologyRefused where copartitioned topics differ or a repartition topic
        exists with another count.
        """
        # Before anything else: without its sources no count of an internal topic can be computed.
        missing = tuple(name for name in self.external_topics if name not in existing)
        if missing:
            raise MissingSources(missing)
        internal = self._repartition_topics()
        counts = {name: existing[name] for name in self.external_topics}
        counts |= {name: topic.partitions for name, topic in internal.items() if topic.partitions}
        # In this order, as in Kafka Streams: copartitioning may change an inferred count.
        self._infer_repartition_counts(counts, internal)
        self._align_copartitioned(counts, internal)
        for name in internal:
            # Records are placed by key modulo the partition count, so an existing repartition topic
            # of another size would bring keys to the wrong tasks.
            if existing.get(name, counts[name]) != counts[name]:
                why = (
                    f"repartition topic {name} has {existing[name]} partitions and should have "
                    f"{counts[name]}"
                )
                raise TopologyRefused(
                    f"{why}: reset the application, or give its topics the partitions they had"
                )
        return dict(sorted(counts.items()))

    def _repartition_topics(self) -> dict[str, InternalTopic]:
        """Return the repartition topics that the Streams subtopologies read, by name."""
        return {
            topic.name: topic
            for subtopology in self.subtopologies.values()
            for topic in subtopology.repartition_sources
        }

    def _infer_repartition_counts(
        self, counts: dict[str, int], internal: Mapping[str, InternalTopic]
    ) -> None:
        """Set each repartition topic's partition count: the largest that its writers read.

        A writer is a Streams subtopology, and may itself read a repartition topic, so this goes on
        until nothing is unknown. Raises TopologyRefused for a cycle of unknown counts.
        """
        writers: dict[str, list[Subtopology]] = {name: [] for name in internal}
        # Several subtopologies may write one repartition topic; its count follows from all of them.
        for part in self.subtopologies.values():
            for sink in part.repartition_sinks:
                writers[sink].append(part)
        unknown = [name for name in sorted(internal) if name not in counts]
        while unknown:
            solvable = [
                name
                for name in unknown
                if any(topic in counts for part in writers[name] for topic in part.source_topics)
            ]
            # Each unknown topic waits for another one of them: a cycle, in which no count can be
            # inferred.
            if not solvable:
                raise TopologyRefused(
                    f"how many partitions {', '.join(unknown)} should have follows from "
                    "nothing: say so, or who writes it"
                )
            for name in solvable:
                counts[name] = max(
                    counts[topic]
                    for part in writers[name]
                    for topic in part.source_topics
                    if topic in counts
                )
            unknown = [name for name in unknown if name not in counts]

    def _align_copartitioned(
        self, counts: dict[str, int], internal: Mapping[str, InternalTopic]
    ) -> None:
        """Give the copartitioned topics of the Streams topology equal partition counts.

        Repartition topics without a count of their own follow the others. A task joins the
        partitions of one number, so copartitioned topics must have equally many.
        """
        for part in self.subtopologies.values():
            for group in part.copartition:
                fixed = {
                    name: counts[name]
                    for name in group
                    if name not in internal or internal[name].partitions
                }
                if len(set(fixed.values())) > 1:
                    listed = ", ".join(
                        f"{name} has {count}" for name, count in sorted(fixed.items())
                    )
                    raise TopologyRefused(
                        f"topics that are read together must have equally many partitions: {listed}"
                    )
                # A repartition topic without a count follows those whose count is fixed.
                most = max(fixed.values()) if fixed else max(counts[name] for name in group)
                counts.update(dict.fromkeys((name for name in group if name in internal), most))

    def internal_topics(self, counts: Mapping[str, int]) -> tuple[InternalTopic, ...]:
        """Return the repartition topics and changelogs that the group must create, ordered by name.

        counts: the result of `partition_counts`.
        """
        topics = {}
        for part in self.subtopologies.values():
            for topic in part.repartition_sources:
                topics[topic.name] = InternalTopic(
                    topic.name, counts[topic.name], topic.configs or REPARTITION_CONFIGS
                )
            for topic in part.changelogs:
                # A source topic that serves as changelog exists already.
                if topic.name not in part.source_topics:
                    topics[topic.name] = InternalTopic(
                        topic.name, _tasks(part, counts), topic.configs or CHANGELOG_CONFIGS
                    )
        return tuple(topics[name] for name in sorted(topics))

    def tasks(self, counts: Mapping[str, int]) -> tuple[Task, ...]:
        """Return all tasks of the Streams topology in order of their ids.

        A subtopology has one task for each partition of its largest source topic.
        """
        return tuple(
            task
            for number, part in sorted(self.subtopologies.items())
            for task in _tasks_of(number, part, counts)
        )


def _tasks_of(number: int, part: Subtopology, counts: Mapping[str, int]) -> Iterator[Task]:
    """Yield the tasks of one Streams subtopology, each with the partitions of its number."""
    # As many tasks as the largest source topic has partitions, as in Kafka Streams; a task reads
    # nothing of a smaller topic that lacks its partition.
    most = _tasks(part, counts)
    sources = [(name, counts[name]) for name in part.source_topics]
    logs = [(topic.name, counts.get(topic.name, most)) for topic in part.changelogs]
    for partition in range(most):
        read = [TopicPartition(name, partition) for name, size in sources if partition < size]
        logged = [TopicPartition(name, partition) for name, size in logs if partition < size]
        yield Task(TaskId(number, partition), tuple(read), tuple(logged))


def _tasks(part: Subtopology, counts: Mapping[str, int]) -> int:
    # The same number for tasks and for changelogs: a changelog has one partition for each task.
    return max((counts[name] for name in part.source_topics), default=0)


def _check(parts: Mapping[int, Subtopology]) -> None:
    """Raise TopologyRefused for a faulty Streams subtopology, a shared topic or an unread sink."""
    if not parts:
        raise TopologyRefused(
            "a topology has at least one subtopology, with the topics that it reads"
        )
    read_by: dict[str, int] = {}
    logged_by: dict[str, int] = {}
    for number, part in parts.items():
        _check_part(number, part)
        for name in part.source_topics:
            # A topic in two subtopologies would be subscribed by two tasks of one partition, and
            # the group assigns each partition once only.
            if (before := read_by.get(name)) is not None:
                readers = (
                    f"by subtopology {number} twice"
                    if before == number
                    else f"by subtopologies {before} and {number}"
                )
                raise TopologyRefused(
                    f"topic {name} is read {readers}: once is enough, and who reads the same "
                    "is one subtopology"
                )
            read_by[name] = number
        for name, partitions, _ in part.changelogs:
            # Two stores in one changelog would overwrite each other's keys.
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
    """Raise TopologyRefused if a Streams subtopology's number, topic, count or group is invalid."""
    if type(number) is not int or not 0 <= number <= MAX_INT32:
        raise TopologyRefused(
            f"a subtopology's number must be from 0 to {MAX_INT32}, not {number!r}"
        )
    internal = (*part.repartition_sources, *part.changelogs)
    for name in (*part.sources, *part.repartition_sinks, *(topic.name for topic in internal)):
        if not is_topic_name(name):
            raise TopologyRefused(f"subtopology {number} names {name!r}, which cannot be a topic")
    if not part.source_topics:
        raise TopologyRefused(f"subtopology {number} reads no topic")
    for topic in internal:
        if type(topic.partitions) is not int or not 0 <= topic.partitions <= MAX_INT32:
            raise TopologyRefused(
                f"{topic.name} must have a number of partitions, or 0 for what follows, "
                f"not {topic.partitions!r}"
            )
        if not all(isinstance(text, str) for pair in topic.configs for text in pair):
            raise TopologyRefused(
                f"configs of {topic.name} must be texts, not {dict(topic.configs)!r}"
            )
    for group in part.copartition:
        unread = [name for name in group if name not in part.source_topics]
        if unread or not group:
            named = unread[0] if unread else "no topics"
            raise TopologyRefused(
                f"subtopology {number} copartitions {named}, which it does not read"
            )
