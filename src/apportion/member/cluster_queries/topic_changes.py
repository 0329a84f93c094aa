"""Queries that change topics: CreateTopics, CreatePartitions and DeleteTopics.

An error has the broker's own words. A query may be sent again if its response is lost: it then
finds its work done, or is refused for that.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import ClassVar, NamedTuple

from apportion.member.cluster_queries.query import BrokerQuery
from apportion.wire.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
)
from apportion.wire.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from apportion.wire.messages.delete_topics import (
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DeleteTopicState,
)


class NewTopic(NamedTuple):
    """A topic to create. config: its settings; the broker's defaults hold for all others."""

    name: str
    partitions: int
    replication_factor: int = 1
    config: Mapping[str, str] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class CreateTopicsQuery(BrokerQuery[None]):
    """Create these topics."""

    api: ClassVar[str] = "CreateTopics"

    topics: tuple[NewTopic, ...]
    timeout_ms: int

    def request(self) -> CreateTopicsRequest:
        """Return the request to create the topics."""
        topics = tuple(
            CreatableTopic(
                name=topic.name,
                num_partitions=topic.partitions,
                replication_factor=topic.replication_factor,
                configs=tuple(
                    CreatableTopicConfig(name=name, value=value)
                    for name, value in topic.config.items()
                ),
            )
            for topic in self.topics
        )
        return CreateTopicsRequest(topics=topics, timeout_ms=self.timeout_ms)

    def parse(self, response: CreateTopicsResponse) -> None:
        """Raise Refused if any of the topics was not created."""
        for result in response.topics:
            self.refuse_error(result.error_code, result.error_message, result.name)


@dataclass(frozen=True, slots=True)
class CreatePartitionsQuery(BrokerQuery[None]):
    """Increase a topic to `partitions` partitions."""

    api: ClassVar[str] = "CreatePartitions"

    name: str
    partitions: int
    timeout_ms: int
    validate_only: bool = False

    def request(self) -> CreatePartitionsRequest:
        """Return the request for that many partitions."""
        topic = CreatePartitionsTopic(name=self.name, count=self.partitions, assignments=None)
        return CreatePartitionsRequest(
            topics=(topic,), timeout_ms=self.timeout_ms, validate_only=self.validate_only
        )

    def parse(self, response: CreatePartitionsResponse) -> None:
        """Raise Refused if the topic has no more partitions than before."""
        [result] = response.results
        self.refuse_error(result.error_code, result.error_message, self.name)


@dataclass(frozen=True, slots=True)
class DeleteTopicsQuery(BrokerQuery[None]):
    """Delete a topic."""

    api: ClassVar[str] = "DeleteTopics"

    name: str
    timeout_ms: int

    def request(self) -> DeleteTopicsRequest:
        """Return the request to delete the topic."""
        # DeleteTopics names topics by `topics` since version 6, by `topic_names` before.
        return DeleteTopicsRequest(
            topics=(DeleteTopicState(name=self.name),),
            topic_names=(self.name,),
            timeout_ms=self.timeout_ms,
        )

    def parse(self, response: DeleteTopicsResponse) -> None:
        """Raise Refused if the topic was not deleted."""
        [result] = response.responses
        self.refuse_error(result.error_code, result.error_message, self.name)
