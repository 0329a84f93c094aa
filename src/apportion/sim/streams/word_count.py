"""The simulated Streams application: word count, as far as a group can see it.

Subtopology 0 splits the lines of the source topic into words and writes them to a repartition
topic. Subtopology 1 counts the words in a store, and writes every change to the changelog.
"""

from apportion.sim.kernel.clock import EPOCH_MS
from apportion.streams.metadata.model import TaskId
from apportion.streams.topology import Topology
from apportion.streams.topology_parser import topology_of
from apportion.topics import TopicIdPartition
from apportion.wire.batch import encode_batch

SOURCE, WORDS, COUNTS = "t0", "wordcount-words-repartition", "wordcount-counts-changelog"
"""The source topic, the repartition topic and the changelog."""
SPLIT_SUBTOPOLOGY, COUNT_SUBTOPOLOGY = 0, 1
WORD_COUNT = topology_of(
    [
        {"sources": [SOURCE], "repartition_sinks": [WORDS]},
        {"repartition_sources": [WORDS], "changelogs": [COUNTS]},
    ]
)
LINES, OTHER_SOURCE = "wordcount-lines-changelog", "t1"
WIDER = topology_of(
    [
        {"sources": [SOURCE], "repartition_sinks": [WORDS], "changelogs": [LINES]},
        {"repartition_sources": [WORDS], "changelogs": [COUNTS]},
    ]
)
WIDEST = topology_of(
    [
        {"sources": [SOURCE], "repartition_sinks": [WORDS]},
        {"repartition_sources": [WORDS], "changelogs": [COUNTS]},
        {"sources": [OTHER_SOURCE]},
    ]
)
RECORDS_PER_WRITE = 20  # of a changelog, in one Produce request
WORD_BATCH = encode_batch([(b"line", b"word", ())], timestamp_ms=EPOCH_MS)
CHANGELOG_BATCH = encode_batch([(b"word", b"count", ())] * RECORDS_PER_WRITE, timestamp_ms=EPOCH_MS)


def task_of(partition: TopicIdPartition) -> TaskId:
    """Return the task that reads this partition of the source or repartition topic."""
    return TaskId(
        SPLIT_SUBTOPOLOGY if partition.topic == SOURCE else COUNT_SUBTOPOLOGY, partition.partition
    )


def topologies(topics: int) -> tuple[Topology, ...]:
    """Return the topologies between which the application changes, in a world of that many topics.

    The second one reads another topic, or has another store.
    """
    return (WORD_COUNT, WIDEST if topics > 1 else WIDER)


def changelog_of(task: TaskId) -> TopicIdPartition:
    """Return the changelog partition of a task of the counting subtopology."""
    return TopicIdPartition(COUNTS, b"", task.partition)
