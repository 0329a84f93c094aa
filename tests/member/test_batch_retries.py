"""Attempts to plan a batch that fail: what Spark gets meanwhile, what is logged, what ends."""

import pytest

from apportion.errors import Code, Refused, Unanswerable
from apportion.member.batch.membership import MembershipFailed
from apportion.member.batch.queries import DeleteOldReports
from apportion.member.queries import PollMembership
from apportion.topics import TopicIdPartition, Topics
from tests.member.planner_host import BEGUN, P0, P1, described, held, read
from tests.member.query_host import POLL_INTERVAL_MS, QueryHost

GONE = Unanswerable("no connection")
REMEDY = (
    "; see that a broker listens there and can be reached from this host, or give another "
    "kafka.bootstrap.servers"
)
FENCED = Refused(Code.FENCED_MEMBER_EPOCH, "fenced")
FIRST = read("c", {P0: (0, 10)})
HOUR_MS = 3_600_000


@pytest.fixture
def host() -> QueryHost:
    return QueryHost()


@pytest.fixture
def reading(host: QueryHost) -> QueryHost:
    """A query that has read its first batch."""
    assert host.next_span() == FIRST
    return host


def test_a_batch_is_planned_without_a_wait_or_a_line(host: QueryHost) -> None:
    assert (host.next_span(), host.waits, host.logged) == (FIRST, [], [])
    assert PollMembership() in host.asked
    assert host.asked[-2] == DeleteOldReports(BEGUN)


def test_an_unchanged_span_is_returned_after_a_pause(reading: QueryHost) -> None:
    assert reading.next_span(FIRST) is FIRST
    assert reading.waits == [100]


def test_a_query_that_begins_waits_a_moment_for_its_first_assignment(host: QueryHost) -> None:
    host.fails(GONE, 2_000)
    assert (host.next_span(), host.waits, host.logged) == (FIRST, [500] * 4, [])


def test_a_query_that_starts_again_waits_before_it_says_nothing_is_new(host: QueryHost) -> None:
    # Spark's processAllAvailable takes an unchanged span for the end of what there was to read.
    host.offsets = {P0: 10}
    host.ends[P0] = 20
    host.fails(GONE, 2_000)
    assert host.next_span(FIRST) == read("c", {P0: (10, 20)})
    assert (host.waits, host.logged) == ([500] * 4, [])


def test_a_query_that_waits_longer_returns_its_span_and_says_why(host: QueryHost) -> None:
    host.fails(GONE, HOUR_MS)
    assert host.next_span() is BEGUN
    assert host.waits == [500] * 7 + [100]
    assert host.logged == [
        f"no connection; the query tries again, and ends after 60 s without an answer{REMEDY}"
    ]


def test_an_outage_is_logged_once_with_its_end_and_waited_for_meanwhile(reading: QueryHost) -> None:
    assert reading.retries.waits_for == ""
    reading.fails(GONE, 150)
    told = []
    for _ in range(3):
        assert reading.next_span(FIRST) is FIRST
        told.append((reading.logged, reading.retries.waits_for))
    outage = f"no connection; the query waits until a broker answers{REMEDY}"
    assert told == [([outage], outage), ([], outage), (["reading again"], "")]


@pytest.mark.parametrize(
    ("expression", "waits_for"),
    [
        ("", "t: no such topic as the query began"),
        ("t.*", "no topic matched t.* as the query began"),
    ],
)
@pytest.mark.parametrize("then", [(P0,), ()], ids=["its partition", "it came and went"])
def test_a_query_waits_for_a_topic_until_it_has_had_a_partition_of_it(
    expression: str, waits_for: str, then: tuple[TopicIdPartition, ...]
) -> None:
    host = QueryHost(expression=expression)
    there, host.topics = host.topics, Topics()
    host.sees(target=held())
    span = host.next_span()
    assert host.retries.waits_for == waits_for
    host.topics = there
    host.sees(target=held(P0))
    span = host.next_span(span)
    assert host.retries.waits_for == ""
    host.sees(target=held(*then))  # another member may have it now
    host.next_span(span)
    assert host.retries.waits_for == ""


def test_an_outage_ends_no_query_that_has_read(reading: QueryHost) -> None:
    reading.fails(GONE, HOUR_MS)
    reading.next_span(FIRST)
    reading.passes(HOUR_MS - 1_000)
    assert reading.next_span(FIRST) is FIRST


def test_an_outage_ends_a_query_that_never_had_an_assignment(host: QueryHost) -> None:
    host.fails(GONE, HOUR_MS)
    host.next_span()
    host.passes(60_000)
    with pytest.raises(MembershipFailed) as failed:
        host.next_span()
    assert str(failed.value) == (
        f"group g at b:9092: nothing to read for 64 s: no connection{REMEDY}"
    )
    assert failed.value.__cause__ is GONE


def test_an_error_that_no_retry_mends_ends_a_query_after_two_minutes(reading: QueryHost) -> None:
    reading.fails(FENCED, HOUR_MS)
    assert reading.next_span(FIRST) is FIRST
    reading.passes(119_000)
    assert reading.next_span(FIRST) is FIRST
    reading.passes(1_000)
    with pytest.raises(MembershipFailed, match="nothing to read for 120 s: FENCED"):
        reading.next_span(FIRST)


def test_a_broker_that_does_not_let_a_query_in_ends_it_at_once(reading: QueryHost) -> None:
    wrong = Refused(Code.SASL_AUTHENTICATION_FAILED, "a wrong password")
    reading.fails(wrong, HOUR_MS)
    with pytest.raises(MembershipFailed) as failed:
        reading.next_span(FIRST)
    assert str(failed.value) == "group g at b:9092: SASL_AUTHENTICATION_FAILED: a wrong password"
    assert (reading.waits, reading.logged) == ([], [])


def test_a_plan_between_two_errors_gives_the_second_its_own_time(reading: QueryHost) -> None:
    reading.fails(FENCED, 100)
    reading.next_span(FIRST)
    reading.next_span(FIRST)
    reading.passes(HOUR_MS)
    reading.fails(FENCED, 100)
    assert reading.next_span(FIRST) is FIRST


def test_a_pending_join_of_a_classic_group_has_as_long_as_its_slowest_member() -> None:
    host = QueryHost(classic=True)
    host.sees(target=None)
    host.next_span()
    host.passes(POLL_INTERVAL_MS - 10_000)
    assert host.next_span() is BEGUN
    host.passes(10_000)
    with pytest.raises(MembershipFailed, match="the member has no assignment yet"):
        host.next_span()


def test_a_query_with_fixed_ends_retries_and_returns_no_unchanged_span(host: QueryHost) -> None:
    host.attempt(host.retries.stop_at_present_ends())
    host.stood = described(P0)
    assert host.next_span() == FIRST
    host.ends[P0] = 20
    host.fails(GONE, 2_000)
    host.sees(owned=held(P0))
    assert host.next_span(FIRST) is FIRST
    assert host.waits == [500] * 4


def test_a_query_with_fixed_ends_waits_for_partitions_on_their_way(host: QueryHost) -> None:
    host.attempt(host.retries.stop_at_present_ends())
    assert host.next_span() == FIRST
    host.stood = described(P0, P1, given=(P0,))
    assert host.next_span(FIRST) is FIRST
    assert sum(host.waits) == 120_000
    assert host.logged == [
        "the group is still rebalancing, as is usual when a member starts or ends; the query "
        "waits up to 120 s for the partitions that this member is about to get",
        "reading again",
    ]


def test_the_ends_that_cannot_be_read_end_a_query_after_two_minutes(host: QueryHost) -> None:
    host.fails(GONE, HOUR_MS)
    with pytest.raises(
        MembershipFailed, match=r"^the ends of t cannot be read: no connection; see"
    ):
        host.attempt(host.retries.stop_at_present_ends())
    assert host.waits[:6] == [50, 100, 200, 400, 800, 1_000]
    assert 119_000 <= sum(host.waits) < 120_000


def test_a_query_with_fixed_ends_fails_where_its_topic_is_missing(
    host: QueryHost,
) -> None:
    host.topics = Topics()
    missing = (
        "UNKNOWN_TOPIC_OR_PARTITION: topic t does not exist: is its name right? "
        "`apportion topics create t --bootstrap b:9092` creates it"
    )
    with pytest.raises(MembershipFailed) as failed:
        host.attempt(host.retries.stop_at_present_ends())
    assert str(failed.value) == f"the ends of t cannot be read: {missing}"
    assert host.logged == [missing]
    assert 14_000 <= sum(host.waits) < 15_000


def test_a_query_with_fixed_ends_reads_a_topic_that_is_created_just_now() -> None:
    class Late(QueryHost):
        def passes(self, time_ms: int) -> None:
            super().passes(time_ms)
            self.topics = existing if self.now_ms >= 2_000 else Topics()

    host, existing = Late(), QueryHost().topics
    host.topics = Topics()
    host.attempt(host.retries.stop_at_present_ends())
    host.stood = described(P0)
    assert host.next_span() == FIRST


def test_a_broker_that_does_not_let_a_query_in_ends_the_search_for_ends(host: QueryHost) -> None:
    host.fails(Refused(Code.SSL_HANDSHAKE_FAILED, "a wrong CA"), HOUR_MS)
    with pytest.raises(MembershipFailed, match="group g at b:9092: SSL_HANDSHAKE_FAILED: a w"):
        host.attempt(host.retries.stop_at_present_ends())
    assert host.waits == []


def test_a_batch_of_over_half_the_poll_interval_is_warned_of(reading: QueryHost) -> None:
    reading.passes(POLL_INTERVAL_MS // 2)
    reading.next_span(FIRST)
    assert reading.logged == []
    reading.passes(POLL_INTERVAL_MS // 2 + 1_000)
    reading.next_span(FIRST)
    assert reading.logged == [
        "the last batch took 151 s; after 300 s (kafka.max.poll.interval.ms) the query loses its "
        "partitions: lower maxOffsetsPerTrigger or raise that option"
    ]


def test_a_reader_without_a_membership_is_warned_of_no_long_batch() -> None:
    host = QueryHost(poll_interval_ms=None)
    host.next_span()
    host.passes(POLL_INTERVAL_MS)
    host.next_span(FIRST)
    assert host.logged == []


@pytest.fixture
def sparing() -> QueryHost:
    """A query that has read its first batch, and reads 5 offsets or more within a minute."""
    made = QueryHost(least_offsets=5, longest_delay_ms=60_000)
    assert made.next_span() == FIRST
    return made


def test_few_new_offsets_wait_for_the_longest_delay_after_the_last_batch(
    sparing: QueryHost,
) -> None:
    sparing.ends[P0] = 14
    sparing.passes(59_900)
    assert sparing.next_span(FIRST) is FIRST
    sparing.passes(100)
    following = read("c", {P0: (10, 14)})
    assert sparing.next_span(FIRST) == following
    sparing.ends[P0] = 18
    assert sparing.next_span(following) is following


def test_enough_new_offsets_are_read_at_once(sparing: QueryHost) -> None:
    sparing.ends[P0] = 15
    assert sparing.next_span(FIRST) == read("c", {P0: (10, 15)})


def test_a_trigger_that_reads_everything_reads_few_offsets(sparing: QueryHost) -> None:
    sparing.ends[P0] = 11
    span = sparing.attempt(sparing.retries.next_span(FIRST, None, reads_all=True))
    assert span == read("c", {P0: (10, 11)})


def test_a_query_with_fixed_ends_reads_few_offsets(sparing: QueryHost) -> None:
    sparing.ends[P0] = 11
    sparing.attempt(sparing.retries.stop_at_present_ends())
    assert sparing.next_span(FIRST) == read("c", {P0: (10, 11)})
