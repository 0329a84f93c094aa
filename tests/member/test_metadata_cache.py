"""The brokers, topics and leaders that a client knows from Metadata responses."""

from typing import Any

import pytest

from apportion.errors import Code, Refused
from apportion.member.cluster_queries.retries import PauseBeforeRetry, Send
from apportion.member.cluster_queries.topics import (
    ClusterMetadata,
    Leader,
    MetadataQuery,
    TopicDescription,
    TopicWithLeaders,
)
from apportion.member.metadata_cache import MetadataCache
from apportion.rules import run_rule
from apportion.topics import IdPartition, Topic, TopicIdPartition, Topics
from apportion.wire.messages.metadata import MetadataResponse

A, B = Topic("a", b"a" * 16, 2), Topic("b", b"b" * 16, 1)
RECREATED, GROWN = Topic("a", b"n" * 16, 3), A._replace(partitions=3)
A0, A1 = (TopicIdPartition("a", A.id, number) for number in range(2))
LEADER = Leader(1, 5)
NODES = {1: ("host", 9092)}


class AskedCluster:
    """A client's cache, and the cluster that answers its queries. sent: what they named.

    refused: the errors of a topic in the next responses.
    """

    def __init__(self) -> None:
        self.cache = MetadataCache()
        self.topics = Topics([A, B])
        self.nodes = NODES
        self.refused: list[Refused] = []
        self.sent: list[tuple[str | bytes, ...]] = []

    def fetch(self, *names_or_ids: str | bytes) -> None:
        """Fetch metadata of these topics."""
        run_rule(self.cache.fetch(names_or_ids), self._answer)

    def _answer(self, query: Any) -> ClusterMetadata | None:
        if isinstance(query, PauseBeforeRetry):
            return None
        assert isinstance(query, Send)
        assert isinstance(query.query, MetadataQuery)
        requested = query.query.names_or_ids
        self.sent.append(requested)
        existing = tuple(
            TopicWithLeaders(TopicDescription(*topic), dict.fromkeys(range(2), LEADER))
            for topic in self.topics
            if topic.name in requested or topic.id in requested
        )
        refused = self.refused.pop(0) if self.refused else None
        return ClusterMetadata(self.nodes, existing, refused)

    def topics_named(self, *names: str, fresh: bool = False) -> Topics:
        """Those of the topics that the client takes to exist."""
        return run_rule(self.cache.topics(names, fresh=fresh), self._answer)

    def resolved(self, *partitions: tuple[bytes, int]) -> tuple[TopicIdPartition, ...]:
        """The partitions with their topics' names."""
        assignment = tuple(IdPartition(*each) for each in partitions)
        return run_rule(self.cache.resolve_names(assignment), self._answer)


@pytest.fixture
def asked() -> AskedCluster:
    return AskedCluster()


def test_topics_are_fetched_once_and_again_only_on_demand(asked: AskedCluster) -> None:
    assert asked.topics_named("b", "a", "b") == Topics([A, B])
    assert asked.topics_named("a") == Topics([A])
    assert asked.topics_named() == Topics()
    assert asked.sent == [("a", "b")]
    assert asked.topics_named("a", fresh=True) == Topics([A])
    assert asked.sent == [("a", "b"), ("a",)]


def test_a_topic_that_does_not_exist_is_left_out_and_looked_for_again(asked: AskedCluster) -> None:
    for _ in range(2):
        assert asked.topics_named("b", "c") == Topics([B])
    assert asked.sent == [("b", "c")] * 2


def test_an_assignment_is_resolved_in_order_and_without_unknown_topics(asked: AskedCluster) -> None:
    unknown = b"?" * 16
    partitions = ((B.id, 0), (unknown, 0), (unknown, 1), (A.id, 1))
    resolved = (A1, TopicIdPartition("b", B.id, 0))
    assert asked.resolved(*partitions) == resolved
    assert asked.resolved(*partitions) == resolved
    assert asked.sent == [(unknown, A.id, B.id), (unknown,)]


@pytest.mark.parametrize("requested", ["a", A.id, RECREATED.id])
def test_a_recreated_topic_replaces_the_one_of_its_name(
    asked: AskedCluster, requested: str | bytes
) -> None:
    asked.topics_named("a", "b")
    asked.topics = Topics([RECREATED, B])
    asked.fetch(requested)
    assert asked.topics_named("a") == Topics([RECREATED])
    assert asked.resolved((A.id, 0)) == ()
    assert asked.cache.leader(A0) is None


def test_a_topic_that_has_grown_is_the_same_one(asked: AskedCluster) -> None:
    asked.topics_named("a")
    asked.topics = Topics([GROWN])
    assert asked.topics_named("a", fresh=True) == Topics([GROWN])
    assert asked.resolved((A.id, 2)) == (TopicIdPartition("a", A.id, 2),)


@pytest.mark.parametrize("requested", ["a", A.id])
def test_a_deleted_topic_is_forgotten_with_its_leaders_once_it_is_requested(
    asked: AskedCluster, requested: str | bytes
) -> None:
    asked.topics_named("a", "b")
    asked.topics = Topics()
    asked.fetch(requested, "never seen")
    assert asked.cache.leader(A0) is None
    assert asked.topics_named("b") == Topics([B])
    assert asked.topics_named("a") == Topics()
    assert asked.resolved((A.id, 0)) == ()


def test_a_leader_is_known_from_metadata_until_it_is_forgotten(asked: AskedCluster) -> None:
    assert asked.cache.leader(A0) is None
    asked.cache.forget_leader(A0)
    asked.topics_named("a")
    assert [asked.cache.leader(each) for each in (A0, A1)] == [LEADER, LEADER]
    asked.cache.forget_leader(A0)
    assert [asked.cache.leader(each) for each in (A0, A1)] == [None, LEADER]
    asked.topics_named("a", fresh=True)
    assert asked.cache.leader(A0) == LEADER


def test_a_response_without_brokers_erases_none(asked: AskedCluster) -> None:
    asked.fetch()
    asked.nodes = {}
    asked.fetch()
    assert asked.cache.nodes == NODES


def test_a_client_that_is_to_begin_again_forgets_the_brokers_and_asks_again(
    asked: AskedCluster,
) -> None:
    """KIP-1102: the whole response has an error, and no broker."""
    asked.fetch("a")
    query, code = MetadataQuery(("a",)), Code.REBOOTSTRAP_REQUIRED
    whole = query.parse(MetadataResponse(error_code=code))
    assert whole.refused is not None
    assert (str(whole.refused), whole.nodes) == (f"{code.name}: Metadata: {code.sentence}", {})
    asked.nodes, asked.refused = {}, [whole.refused]
    asked.fetch("a")
    assert (asked.cache.nodes, asked.cache.leader(A0)) == ({}, LEADER)
    assert asked.sent == [("a",)] * 3


def test_the_error_of_one_topic_is_raised_once_the_others_are_known(asked: AskedCluster) -> None:
    asked.refused = [Refused(Code.TOPIC_AUTHORIZATION_FAILED, "topic 'c'")]
    with pytest.raises(Refused, match="TOPIC_AUTHORIZATION_FAILED: topic 'c'"):
        asked.fetch("a", "c")
    assert (asked.cache.nodes, asked.cache.leader(A0)) == (NODES, LEADER)
    assert asked.topics_named("a") == Topics([A])
    assert asked.sent == [("a", "c")]


def test_a_topic_that_has_no_leader_yet_is_asked_for_again(asked: AskedCluster) -> None:
    asked.topics_named("a")
    asked.topics = Topics([B])
    asked.refused = [Refused(Code.LEADER_NOT_AVAILABLE, "topic 'a'")]
    asked.fetch("a")
    assert asked.sent == [("a",)] * 3
    assert asked.cache.leader(A0) is None
