"""What a query's first look asks, which errors end it, when, and in which words: its clock is moved
by its own pauses alone.
"""

from collections.abc import Callable
from typing import Any

import pytest

from apportion.errors import Code, Refused, Unanswerable
from apportion.member.batch.first_look import FirstLook
from apportion.member.batch.membership import MembershipFailed
from apportion.member.batch.topic_choice import TopicChoice
from apportion.member.queries import (
    ExistingTopics,
    FetchCommitted,
    ListOffsets,
    MatchingTopics,
)
from apportion.member.records.queries import FetchRecords
from apportion.wire.messages.list_offsets import LATEST
from tests.member.looked_at import P0, P1, LookedAt

LOOK = FirstLook("g", "b:9092", TopicChoice(("t", "not-there-yet")))
REMEDY = (
    "; see that a broker listens there and can be reached from this host, or give another "
    "kafka.bootstrap.servers"
)
GONE = Unanswerable("no connection")
DENIED = Refused(Code.GROUP_AUTHORIZATION_FAILED, "no right to Read the group")
MOVED = Refused(Code.NOT_COORDINATOR, "the group has moved")
WAITING = f"no connection; the query tries again, and ends after 60 s without an answer{REMEDY}"


@pytest.fixture
def cluster() -> LookedAt:
    return LookedAt()


def asked_of(names: tuple[str, ...], **ends: int) -> list[Any]:
    """The questions of one attempt about these topics, with the ends of what is there."""
    positions = {{"p0": P0, "p1": P1}[name]: end for name, end in ends.items()}
    partitions = tuple(positions)
    return [
        ExistingTopics(names),
        ListOffsets(partitions, LATEST),
        FetchRecords(positions, max_wait_ms=0),
        FetchCommitted(partitions, 0),
    ]


# what is asked


def test_a_look_asks_what_the_query_will_ask_and_changes_nothing(cluster: LookedAt) -> None:
    assert (cluster.look(LOOK), cluster.logged) == (0, [])
    assert cluster.asked == asked_of(("t", "not-there-yet"), p0=10, p1=20)


def test_topics_that_do_not_exist_yet_are_left_to_the_query(cluster: LookedAt) -> None:
    assert cluster.look(LOOK._replace(topics=TopicChoice(("not-there-yet",)))) == 0
    assert cluster.asked == asked_of(("not-there-yet",))


def test_a_pattern_is_looked_up_first(cluster: LookedAt) -> None:
    cluster.look(LOOK._replace(topics=TopicChoice(expression="t.*")))
    assert cluster.asked == [MatchingTopics("t.*"), *asked_of(("t",), p0=10, p1=20)]


def test_only_the_assigned_partitions_are_asked_about(cluster: LookedAt) -> None:
    cluster.look(LOOK._replace(topics=TopicChoice(("t",)), assigned=(("t", 1),)))
    assert cluster.asked == asked_of(("t",), p1=20)


# errors that are known at once


@pytest.mark.parametrize("missing", [("t", 2), ("not-there-yet", 0)])
def test_an_assigned_partition_that_does_not_exist_is_said_at_once(
    cluster: LookedAt, missing: tuple[str, int]
) -> None:
    assert cluster.refusal(LOOK._replace(assigned=(("t", 0), missing))) == (
        f"option assign names {missing[0]}-{missing[1]}, which does not exist: create the "
        "partition, or correct the option",
        0,
    )


@pytest.mark.parametrize("query", [ExistingTopics, ListOffsets, FetchRecords, FetchCommitted])
def test_a_refused_login_is_said_at_once_wherever_it_shows(cluster: LookedAt, query: type) -> None:
    cluster.fails(query, Refused(Code.SASL_AUTHENTICATION_FAILED, "wrong password"))
    assert cluster.refusal(LOOK) == (
        "group g at b:9092: SASL_AUTHENTICATION_FAILED: wrong password",
        0,
    )
    assert cluster.logged == []


def test_a_login_that_is_refused_after_an_outage_is_said_at_once(cluster: LookedAt) -> None:
    cluster.fails(ExistingTopics, GONE, 2_000)
    cluster.fails(ListOffsets, Refused(Code.SASL_AUTHENTICATION_FAILED, "wrong password"))
    assert cluster.refusal(LOOK)[1] == 2_000


# errors that may pass


@pytest.mark.parametrize("query", [ExistingTopics, ListOffsets, FetchRecords, FetchCommitted])
def test_a_broker_that_comes_in_time_is_enough(cluster: LookedAt, query: type) -> None:
    cluster.fails(query, GONE, 59_000)
    assert (cluster.look(LOOK), cluster.logged) == (59_000, [WAITING])
    assert {*cluster.pauses} == {500}


def test_a_right_that_is_given_in_time_is_enough(cluster: LookedAt) -> None:
    cluster.fails(FetchCommitted, DENIED, 14_000)
    assert (cluster.look(LOOK), cluster.logged) == (14_000, [str(DENIED)])


@pytest.mark.parametrize("query", [ExistingTopics, ListOffsets, FetchRecords, FetchCommitted])
def test_an_error_that_kafka_calls_retriable_is_left_to_the_query(
    cluster: LookedAt, query: type
) -> None:
    cluster.fails(query, MOVED)
    assert (cluster.look(LOOK), cluster.logged) == (0, [])


def test_a_topic_that_is_deleted_meanwhile_is_left_to_the_query(cluster: LookedAt) -> None:
    cluster.codes = {P1: Code.UNKNOWN_TOPIC_OR_PARTITION}
    assert (cluster.look(LOOK), cluster.logged) == (0, [])


def test_each_reason_is_logged_once_while_it_lasts(cluster: LookedAt) -> None:
    cluster.fails(ExistingTopics, GONE, 3_000)
    cluster.fails(ListOffsets, DENIED, 6_000)
    assert (cluster.look(LOOK), cluster.logged) == (6_000, [WAITING, str(DENIED)])


# time limits


def test_a_broker_that_does_not_come_is_named_with_a_remedy_after_a_minute(
    cluster: LookedAt,
) -> None:
    cluster.fails(ExistingTopics, GONE)
    assert cluster.refusal(LOOK) == (f"group g at b:9092: no connection{REMEDY}", 60_000)
    assert cluster.logged == [WAITING]


def deny_fetch(cluster: LookedAt) -> None:
    cluster.codes = {P1: Code.TOPIC_AUTHORIZATION_FAILED}


def deny_group(cluster: LookedAt) -> None:
    cluster.fails(FetchCommitted, DENIED)


@pytest.mark.parametrize(
    ("deny", "said"),
    [
        (
            deny_fetch,
            "TOPIC_AUTHORIZATION_FAILED: Fetch of t-1: this client's principal has no permission "
            "for READ on the topic 't'; a user who may alter the cluster gives it by `apportion "
            "acls add --allow-principal User:NAME --operation Read --topic t`",
        ),
        (deny_group, "GROUP_AUTHORIZATION_FAILED: no right to Read the group"),
    ],
)
def test_a_missing_right_is_said_after_a_quarter_of_a_minute(
    cluster: LookedAt, deny: Callable[[LookedAt], None], said: str
) -> None:
    deny(cluster)
    assert cluster.refusal(LOOK) == (f"group g at b:9092: {said}", 15_000)


def test_the_limit_counts_from_the_beginning_of_the_look(cluster: LookedAt) -> None:
    cluster.fails(ExistingTopics, GONE, 20_000)
    cluster.fails(FetchCommitted, DENIED)
    refusal, took_ms = cluster.refusal(LOOK)
    assert (refusal, took_ms) == (f"group g at b:9092: {DENIED}", 20_000)


def test_the_reason_of_a_refusal_is_its_cause(cluster: LookedAt) -> None:
    cluster.fails(FetchCommitted, DENIED)
    with pytest.raises(MembershipFailed) as refused:
        cluster.look(LOOK)
    assert refused.value.__cause__ is DENIED
