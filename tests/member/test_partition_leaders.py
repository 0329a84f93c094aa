"""Queries to the leaders of partitions: split by leader, and sent again where a retry may help."""

from typing import Any

import pytest

from apportion.errors import Code, Refused, Unanswerable
from apportion.member.cluster_queries.retries import PauseBeforeRetry, Send
from apportion.member.cluster_queries.topics import (
    ClusterMetadata,
    Leader,
    ListOffsetsQuery,
    MetadataQuery,
    TopicDescription,
    TopicWithLeaders,
)
from apportion.member.metadata_cache import MetadataCache
from apportion.member.partition_leaders import SendToLeader, list_offsets
from apportion.rules import run_rule
from apportion.topics import Topic, TopicIdPartition
from apportion.wire.messages.list_offsets import LATEST

TOPIC = Topic("t", b"t" * 16, 3)
P0, P1, P2 = (TopicIdPartition("t", TOPIC.id, number) for number in range(3))
NODES = {1: ("one", 9092), 2: ("two", 9092)}


def asks(*partitions: TopicIdPartition, epoch: int = 5) -> ListOffsetsQuery:
    return ListOffsetsQuery(LATEST, dict.fromkeys(partitions, epoch))


class TwoBrokers:
    """Two brokers, of which each leads some partitions of a topic.

    leaders: by partition; None: none now. errors: the next answers of a node that are no offsets.
    sent: the queries, and the metadata of topics that was fetched. pauses: between retries.
    """

    def __init__(self) -> None:
        self.cache = MetadataCache()
        self.topic: Topic | None = TOPIC
        self.leaders: dict[int, Leader | None] = {0: Leader(1, 5), 1: Leader(2, 5), 2: Leader(1, 5)}
        self.errors: dict[int, list[Exception | dict[TopicIdPartition, Refused]]] = {1: [], 2: []}
        self.sent: list[Any] = []
        self.pauses: list[Exception] = []

    def list_offsets(self, *partitions: TopicIdPartition) -> dict[TopicIdPartition, int]:
        """Run the rule; a partition's offset is the node id of its leader."""
        return run_rule(list_offsets(self.cache, partitions, LATEST), self._answer)

    def _answer(self, query: Any) -> Any:
        match query:
            case PauseBeforeRetry(error):
                self.pauses.append(error)
                return None
            case Send(MetadataQuery(names)):
                self.sent.append(names)
                topic = () if self.topic is None else (self.topic,)
                return ClusterMetadata(
                    NODES,
                    tuple(
                        TopicWithLeaders(TopicDescription(*each), dict(self.leaders))
                        for each in topic
                    ),
                )
            case SendToLeader(node_id, asked):
                self.sent.append((node_id, asked))
                assert isinstance(asked, ListOffsetsQuery)
                outcome = self.errors[node_id].pop(0) if self.errors[node_id] else {}
                if isinstance(outcome, Exception):
                    raise outcome
                return dict.fromkeys(asked.leader_epochs, node_id) | outcome
        raise AssertionError(query)


@pytest.fixture
def brokers() -> TwoBrokers:
    return TwoBrokers()


def test_each_leader_is_asked_for_its_partitions_once(brokers: TwoBrokers) -> None:
    assert brokers.list_offsets(P0, P1, P2) == {P0: 1, P1: 2, P2: 1}
    assert brokers.sent == [("t",), (1, asks(P0, P2)), (2, asks(P1))]
    assert brokers.pauses == []


def test_no_partitions_ask_nobody(brokers: TwoBrokers) -> None:
    assert brokers.list_offsets() == {}
    assert brokers.sent == []


def test_only_a_partition_whose_leader_has_moved_is_asked_for_again(brokers: TwoBrokers) -> None:
    moved = Refused(Code.NOT_LEADER_OR_FOLLOWER)
    brokers.list_offsets(P0, P1, P2)
    brokers.sent.clear()
    brokers.errors[1] = [{P2: moved}]
    brokers.leaders[2] = Leader(2, 6)
    assert brokers.list_offsets(P0, P1, P2) == {P0: 1, P1: 2, P2: 2}
    assert brokers.sent == [
        (1, asks(P0, P2)),
        (2, asks(P1)),
        ("t",),
        (2, asks(P2, epoch=6)),
    ]
    assert brokers.pauses == [moved]


def test_partitions_of_a_leader_that_does_not_answer_are_looked_up_again(
    brokers: TwoBrokers,
) -> None:
    away = Unanswerable("away")
    brokers.errors[1] = [away]
    assert brokers.list_offsets(P0, P1) == {P0: 1, P1: 2}
    assert brokers.sent == [("t",), (1, asks(P0)), (2, asks(P1)), ("t",), (1, asks(P0))]
    assert brokers.pauses == [away]


def test_a_leader_that_is_not_ready_is_asked_again_without_new_metadata(
    brokers: TwoBrokers,
) -> None:
    brokers.errors[1] = [{P0: Refused(Code.OFFSET_NOT_AVAILABLE)}]
    assert brokers.list_offsets(P0) == {P0: 1}
    assert brokers.sent == [("t",), (1, asks(P0)), (1, asks(P0))]


def test_a_partition_without_a_leader_is_waited_for(brokers: TwoBrokers) -> None:
    brokers.leaders[0] = None

    def elect(query: Any) -> Any:
        if isinstance(query, PauseBeforeRetry):
            brokers.leaders[0] = Leader(2, 6)
        return brokers._answer(query)

    assert run_rule(list_offsets(brokers.cache, [P0, P1], LATEST), elect) == {P0: 2, P1: 2}
    assert [str(each) for each in brokers.pauses] == [
        "LEADER_NOT_AVAILABLE: partition t-0 has no leader now"
    ]


@pytest.mark.parametrize(
    ("topic", "fate"),
    [
        (None, "is gone"),
        (Topic("t", b"n" * 16, 3), "was made again as bm5ubm5ubm5ubm5ubm5ubg"),
    ],
)
def test_a_topic_that_was_deleted_ends_the_query(
    brokers: TwoBrokers, topic: Topic | None, fate: str
) -> None:
    brokers.topic = topic
    with pytest.raises(Refused) as refusal:
        brokers.list_offsets(P0)
    assert (refusal.value.code, refusal.value.why) == (
        Code.UNKNOWN_TOPIC_ID,
        f"topic 't' with id dHR0dHR0dHR0dHR0dHR0dA {fate}",
    )


def test_an_error_that_no_retry_mends_ends_the_query(brokers: TwoBrokers) -> None:
    refused = Refused(Code.TOPIC_AUTHORIZATION_FAILED)
    brokers.errors[1] = [{P0: refused}]
    with pytest.raises(Refused) as raised:
        brokers.list_offsets(P0, P1)
    assert raised.value is refused
    assert brokers.sent == [("t",), (1, asks(P0))]
