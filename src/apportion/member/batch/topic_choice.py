"""The topics of a Spark query or a batch read: by name, or by a regular expression.

The expression is RE2's and matches the whole name of a topic, as in KIP-848. For a member the
coordinator resolves it; here it is resolved for what the member itself has to know, such as where
its topics end now.
"""

from typing import NamedTuple

from apportion.member.queries import ExistingTopics, MatchingTopics
from apportion.rules import Rule
from apportion.topics import TopicIdPartition, Topics, partitions_of

AssignedPartitions = tuple[tuple[str, int], ...]
"""The partitions of the option assign, by topic name and number."""


class TopicChoice(NamedTuple):
    """The names of topics, or an expression in their place; "" for none."""

    names: tuple[str, ...] = ()
    expression: str = ""

    def __str__(self) -> str:
        return (
            f"the topics that match {self.expression}" if self.expression else ", ".join(self.names)
        )

    def find_topics(self) -> Rule[Topics]:
        """Return the chosen topics that exist."""
        names = self.names
        if self.expression:
            names = yield MatchingTopics(self.expression)
        topics: Topics = yield ExistingTopics(names)
        return topics

    def find_partitions(
        self, assigned: AssignedPartitions | None
    ) -> Rule[tuple[TopicIdPartition, ...]]:
        """Return the partitions of the chosen topics that exist.

        assigned: return these alone; None: all.
        """
        topics = yield from self.find_topics()
        return tuple(
            partition
            for topic in topics
            for partition in partitions_of(topic)
            if assigned is None or partition.topic_partition in assigned
        )
