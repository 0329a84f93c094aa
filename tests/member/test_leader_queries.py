"""The rule by which a member asks the cluster what its assignor wants to know."""

from typing import Any

import pytest

from apportion.errors import Code, Refused, Unanswerable
from apportion.member.cluster_queries.offsets import OffsetAndMetadata, OffsetFetchQuery
from apportion.member.cluster_queries.retries import PauseBeforeRetry, Send
from apportion.member.cluster_queries.topic_changes import CreateTopicsQuery
from apportion.member.cluster_queries.topics import (
    ClusterMetadata,
    Leader,
    ListOffsetsQuery,
    MetadataQuery,
    TopicDescription,
    TopicWithLeaders,
)
from apportion.member.leader_queries import answer_query
from apportion.member.membership import (
    MetadataFetched,
    QueryAnswered,
    QueryCluster,
    Unanswered,
)
from apportion.member.metadata_cache import MetadataCache
from apportion.member.partition_leaders import SendToLeader
from apportion.member.time_limits import ReadClock, within
from apportion.rules import run_rule
from apportion.streams.queries import (
    CreateInternalTopics,
    FetchCommittedOffsets,
    ListEndOffsets,
    ListStartOffsets,
)
from apportion.streams.topology import InternalTopic
from apportion.topics import TopicIdPartition, TopicPartition
from apportion.wire.messages.list_offsets import EARLIEST, LATEST

NAMES = ("changelog", "repartition")
ACTION = QueryCluster(5, CreateInternalTopics(tuple(InternalTopic(name, 1) for name in NAMES)))
EXISTS = Refused(Code.TOPIC_ALREADY_EXISTS, "it exists")
FORBIDDEN = Refused(Code.TOPIC_AUTHORIZATION_FAILED, "no")


def shown(*names: str, leaderless: str = "") -> ClusterMetadata:
    """A Metadata response with these topics, of one partition each."""
    return ClusterMetadata(
        {},
        tuple(
            TopicWithLeaders(
                TopicDescription(name, name.encode(), 1),
                {0: None if name == leaderless else Leader(1, 0)},
            )
            for name in names
        ),
    )


def created(*answers: Any) -> tuple[Any, list[Any]]:
    """What a leader hears that wants the topics of NAMES, and what was done for it.

    answers: to Metadata and CreateTopics, in order; after the last one the time is up.
    """
    done: list[Any] = []
    rest = iter(answers)

    def answer(query: Any) -> Any:
        if isinstance(query, PauseBeforeRetry):
            done.append("pause")
            if len(done) > len(answers):
                raise query.error
            return None
        assert isinstance(query, Send)
        match query.query:
            case MetadataQuery(names):
                assert names == NAMES
                done.append("look")
            case CreateTopicsQuery(topics):
                done.append([topic.name for topic in topics])
        if isinstance(answer := next(rest), Exception):
            raise answer
        return answer

    return run_rule(answer_query(ACTION, "g", MetadataCache()), answer), done


HEARS_OF_BOTH = MetadataFetched(5, shown(*NAMES).descriptions)


def test_internal_topics_that_exist_are_not_created() -> None:
    assert created(shown(*NAMES)) == (HEARS_OF_BOTH, ["look"])


@pytest.mark.parametrize("answer", [None, EXISTS])
def test_a_missing_topic_is_created_unless_another_leader_was_faster(answer: Any) -> None:
    assert created(shown("changelog"), answer, shown(*NAMES)) == (
        HEARS_OF_BOTH,
        ["look", ["repartition"], "pause", "look"],
    )


def test_a_topic_that_exists_hides_no_error_of_another() -> None:
    refused, done = created(shown(), EXISTS, shown("changelog"), FORBIDDEN)
    assert refused == Unanswered(5, "no", Code.TOPIC_AUTHORIZATION_FAILED)
    assert done == ["look", [*NAMES], "pause", "look", ["repartition"]]


def test_a_leader_waits_for_the_leaders_of_its_internal_topics() -> None:
    waiting = shown(*NAMES, leaderless="changelog")
    assert created(waiting, shown(*NAMES)) == (HEARS_OF_BOTH, ["look", "pause", "look"])


def test_a_leader_hears_which_topics_do_not_show_up_in_time() -> None:
    why = "not shown with leaders yet: topics repartition, changelog"
    assert created(shown("changelog", leaderless="changelog"), None)[0] == Unanswered(
        5, why, Code.UNKNOWN_TOPIC_OR_PARTITION
    )


@pytest.mark.parametrize(
    ("error", "code"),
    [(FORBIDDEN, Code.TOPIC_AUTHORIZATION_FAILED), (Unanswerable("no"), Code.NONE)],
)
def test_a_leader_hears_why_the_cluster_has_no_answer_and_with_which_code(
    error: Exception, code: Code
) -> None:
    assert created(error)[0] == Unanswered(5, "no", code)


def test_first_offsets_are_those_of_the_topics_that_exist_now() -> None:
    partition = TopicPartition("changelog", 0)

    def answer(query: Any) -> Any:
        if isinstance(query, Send):
            return shown("changelog")
        with_id = TopicIdPartition("changelog", b"changelog", 0)
        assert query == SendToLeader(1, ListOffsetsQuery(EARLIEST, {with_id: 0}))
        return {with_id: 7}

    action = QueryCluster(5, ListStartOffsets((partition,)))
    answered = run_rule(answer_query(action, "g", MetadataCache()), answer)
    assert answered == QueryAnswered(5, {partition: 7})


def test_committed_offsets_are_those_of_the_members_group_and_0_where_there_is_none() -> None:
    partitions = (TopicPartition("changelog", 0), TopicPartition("repartition", 0))
    one, other = (TopicIdPartition(name, name.encode(), 0) for name in NAMES)

    def answer(query: Any) -> Any:
        if isinstance(query.query, MetadataQuery):
            return shown(*NAMES)
        assert query == Send(OffsetFetchQuery("g", (one, other)))
        return {one: OffsetAndMetadata(7, ""), other: OffsetAndMetadata(None, "")}

    action = QueryCluster(5, FetchCommittedOffsets(partitions))
    answered = run_rule(answer_query(action, "g", MetadataCache()), answer)
    assert answered == QueryAnswered(5, dict(zip(partitions, (7, 0), strict=True)))


def test_the_leader_of_a_partition_has_what_the_look_at_its_topic_has_left() -> None:
    timeouts: list[int | None] = []

    def answer(query: Any) -> Any:
        if isinstance(query, ReadClock):
            return 300 * len(timeouts)
        timeouts.append(query.timeout_ms)
        if isinstance(query, Send):
            return shown("t")
        return dict.fromkeys(query.query.leader_epochs, 7)

    action = QueryCluster(5, ListEndOffsets((TopicPartition("t", 0),)))
    run_rule(within(answer_query(action, "g", MetadataCache()), 1_000), answer)
    assert timeouts == [1_000, 700]


def ends_of(*named: Any) -> Any:
    """What an assignor hears that asks for the ends of these partitions; each ends at 7."""

    def answer(query: Any) -> Any:
        if isinstance(query, Send):
            return shown("t")
        assert isinstance(query, SendToLeader)
        assert isinstance(query.query, ListOffsetsQuery)
        assert query.query.timestamp == LATEST
        return dict.fromkeys(query.query.leader_epochs, 7)

    action = QueryCluster(5, ListEndOffsets(*named))
    return run_rule(answer_query(action, "g", MetadataCache()), answer)


def test_plain_pairs_are_partitions_to_an_assignors_query() -> None:
    assert ends_of([("t", 0)]) == QueryAnswered(5, {TopicPartition("t", 0): 7})


@pytest.mark.parametrize(
    ("named", "shown_as"),
    [
        (None, "None"),
        (5, "5"),
        ("t", "'t'"),
        (["t"], "'t'"),
        ([("t", "0")], "('t', '0')"),
        ([("t", True)], "('t', True)"),
        ([("t", 0, 1)], "('t', 0, 1)"),
        ([(0, "t")], "(0, 't')"),
    ],
)
@pytest.mark.parametrize("query", [ListEndOffsets, ListStartOffsets, FetchCommittedOffsets])
def test_a_query_of_what_is_no_partition_is_refused(query: Any, named: Any, shown_as: str) -> None:
    def answer(query: Any) -> Any:
        raise AssertionError(query)

    why = f"the assignor's {query.__name__} names {shown_as}, which is no partition: use "
    answered = run_rule(answer_query(QueryCluster(5, query(named)), "g", MetadataCache()), answer)
    assert answered == Unanswered(5, why + "TopicPartition(topic, number)", Code.INVALID_REQUEST)


class Unprintable:
    """A query that nobody knows, and that has no text."""

    def __repr__(self) -> str:
        raise KeyError("text")


def test_a_query_that_cannot_be_read_is_refused() -> None:
    def partitions() -> Any:
        yield ("t", 0)
        raise KeyError("t")

    why = "the assignor's ListEndOffsets cannot be read: KeyError: 't'"
    assert ends_of(partitions()) == Unanswered(5, why, Code.INVALID_REQUEST)


def test_a_query_that_nobody_can_answer_is_refused() -> None:
    def answer(query: Any) -> Any:
        raise AssertionError(query)

    for query, shown_as in [(7, "7"), (Unprintable(), "Unprintable")]:
        answered = run_rule(answer_query(QueryCluster(5, query), "g", MetadataCache()), answer)
        why = f"nobody here can answer {shown_as}"
        assert answered == Unanswered(5, why, Code.INVALID_REQUEST)


def test_a_query_of_a_partition_that_does_not_exist_is_answered_at_once() -> None:
    assert ends_of([("t", 0), ("t", 99)]) == Unanswered(
        5, "topic 't' has no partition 99", Code.UNKNOWN_TOPIC_OR_PARTITION
    )


def test_a_query_of_a_topic_that_has_grown_is_answered() -> None:
    grown = TopicWithLeaders(TopicDescription("t", b"t", 2), {0: Leader(1, 0), 1: Leader(1, 0)})
    looks = iter((shown("t"), ClusterMetadata({}, (grown,))))

    def answer(query: Any) -> Any:
        if isinstance(query, Send):
            return next(looks)
        return dict.fromkeys(query.query.leader_epochs, 7)

    partition = TopicPartition("t", 1)
    action = QueryCluster(5, ListEndOffsets((partition,)))
    answered = run_rule(answer_query(action, "g", MetadataCache()), answer)
    assert answered == QueryAnswered(5, {partition: 7})
