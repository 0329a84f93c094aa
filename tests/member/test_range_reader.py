"""A range as a task of a micro-batch reads it: until all of it was read, or is known to be gone."""

from typing import Any

import pytest

from apportion.errors import Code, Refused, Unanswerable
from apportion.member.batch.range_reader import (
    LEAST_FETCH_BYTES,
    RANGE_FETCH_WAIT_MS,
    RangeReader,
    ReaderTimeouts,
)
from apportion.member.cluster_queries.records import FETCH_BYTES, PartitionFetch, refusals
from apportion.member.cluster_queries.topics import Leader
from apportion.member.partition_leaders import SendToLeader
from apportion.member.reactions import REACTIONS, Reaction
from apportion.member.time_limits import METADATA_TIMEOUT_MS, Pause
from apportion.rules import run_rule
from tests.member.three_brokers import A0, START_MS, Fetch, ThreeBrokers

REQUEST_MS, SILENCE_MS = 30_000, 120_000
FETCH_MS = RANGE_FETCH_WAIT_MS + REQUEST_MS
TIMEOUTS = ReaderTimeouts(REQUEST_MS, SILENCE_MS)
TENS = [*range(0, 100, 10)]
PERMANENT = [
    code
    for code in Code
    if code not in (Code.NONE, Code.OFFSET_OUT_OF_RANGE) and not code.retriable
]


@pytest.fixture
def brokers() -> ThreeBrokers:
    return ThreeBrokers()


def reader(
    brokers: ThreeBrokers, start: int = 0, end: int = 100, timeouts: ReaderTimeouts = TIMEOUTS
) -> RangeReader:
    return RangeReader(brokers.cache, A0, (start, end), timeouts)


def words_of(code: Code) -> str:
    """The words for the error of a partition, as those of every reader."""
    return refusals({A0: PartitionFetch((), 0, code)})[A0].why


def fetch(node: int, offset: int) -> Fetch:
    return Fetch(node, {A0: offset}, RANGE_FETCH_WAIT_MS, FETCH_MS)


def test_a_range_is_read_from_the_leader_alone(brokers: ThreeBrokers) -> None:
    range_reader = reader(brokers, 15, 42)
    brokers.run(range_reader.read())
    assert brokers.offsets == [10, 20, 30, 40]
    assert brokers.sent == [("a",), fetch(1, 15)]
    assert range_reader.position >= 42


def test_an_empty_range_asks_nobody(brokers: ThreeBrokers) -> None:
    brokers.run(reader(brokers, 20, 20).read())
    assert (brokers.sent, brokers.offsets) == ([], [])


def test_a_range_is_read_in_as_many_requests_as_it_needs(brokers: ThreeBrokers) -> None:
    brokers.most_batches = 4
    brokers.run(reader(brokers).read())
    assert brokers.offsets == TENS
    assert brokers.sent == [("a",), fetch(1, 0), fetch(1, 40), fetch(1, 80)]


def test_batches_are_delivered_before_more_are_fetched(brokers: ThreeBrokers) -> None:
    brokers.most_batches, brokers.reading_ms = 5, SILENCE_MS * 2
    brokers.run(reader(brokers).read())
    assert brokers.offsets == TENS
    # The caller's own time is not the brokers' silence.
    assert brokers.now_ms == START_MS + 2 * brokers.reading_ms


def test_the_leader_changes_in_the_middle_of_a_range(brokers: ThreeBrokers) -> None:
    brokers.most_batches = 5

    def move(query: Any) -> Any:
        if brokers.delivered:
            brokers.leaders[A0] = Leader(3, 6)
        return brokers.answer(query)

    run_rule(reader(brokers).read(), move)
    assert brokers.offsets == TENS
    assert brokers.sent == [("a",), fetch(1, 0), fetch(1, 50), ("a",), fetch(3, 50)]
    assert brokers.pauses == [50]


def test_a_lost_connection_leads_to_the_leader_of_new_metadata(brokers: ThreeBrokers) -> None:
    brokers.down = {1}

    def fail_over(query: Any) -> Any:
        if isinstance(query, Pause):
            brokers.leaders[A0] = Leader(2, 6)
        return brokers.answer(query)

    run_rule(reader(brokers).read(), fail_over)
    assert brokers.offsets == TENS
    assert brokers.sent == [("a",), fetch(1, 0), ("a",), fetch(2, 0)]
    assert brokers.now_ms == START_MS + FETCH_MS + 50


def test_a_partition_without_a_leader_is_waited_for(brokers: ThreeBrokers) -> None:
    brokers.leaders[A0] = None

    def elect(query: Any) -> Any:
        if brokers.now_ms > START_MS + 200:
            brokers.leaders[A0] = Leader(2, 6)
        return brokers.answer(query)

    run_rule(reader(brokers).read(), elect)
    assert brokers.offsets == TENS
    assert brokers.pauses == [50, 100, 200]


@pytest.mark.parametrize("code", [code for code in Code if code.retriable])
def test_a_range_is_asked_for_again_after_an_error_that_a_retry_may_mend(
    brokers: ThreeBrokers, code: Code
) -> None:
    brokers.codes[A0] = [code, code]
    brokers.run(reader(brokers).read())
    assert brokers.offsets == TENS
    assert brokers.pauses == [50, 100]
    # Only where the leader may be another one are the metadata fetched again.
    has_moved = REACTIONS["Fetch"].get(code) is Reaction.REFRESH_METADATA
    assert brokers.sent.count(("a",)) == (3 if has_moved else 1)


@pytest.mark.parametrize("code", PERMANENT)
def test_an_error_that_no_retry_mends_is_raised_at_once(brokers: ThreeBrokers, code: Code) -> None:
    brokers.codes[A0] = [code]
    with pytest.raises(Refused) as raised:
        brokers.run(reader(brokers).read())
    assert (raised.value.code, raised.value.why) == (code, words_of(code))
    assert (brokers.fetches, brokers.pauses) == ([fetch(1, 0)], [])


@pytest.mark.parametrize("code", [Code.UNKNOWN_SERVER_ERROR, Code.UNSUPPORTED_VERSION])
def test_the_permanent_error_of_a_whole_response_is_raised_at_once(
    brokers: ThreeBrokers, code: Code
) -> None:
    brokers.failing[1] = Refused(code, "all of it")
    with pytest.raises(Refused, match="all of it"):
        brokers.run(reader(brokers).read())
    assert brokers.pauses == []


def test_the_error_of_a_whole_response_that_a_retry_may_mend_is_outlasted(
    brokers: ThreeBrokers,
) -> None:
    brokers.failing[1] = Refused(Code.FETCH_SESSION_ID_NOT_FOUND, "all of it")

    def recover(query: Any) -> Any:
        if isinstance(query, Pause):
            brokers.failing.clear()
        return brokers.answer(query)

    run_rule(reader(brokers).read(), recover)
    assert brokers.offsets == TENS


def test_a_range_that_goes_on_above_the_end_of_the_log_is_waited_for(brokers: ThreeBrokers) -> None:
    """A new leader may lag in what it shows."""
    brokers.logs[A0] = (0, 60)

    def catch_up(query: Any) -> Any:
        if isinstance(query, Pause) and query.pause_ms == 200:
            brokers.logs[A0] = (0, 100)
        return brokers.answer(query)

    run_rule(reader(brokers).read(), catch_up)
    assert brokers.offsets == TENS
    assert brokers.sent == [("a",), fetch(1, 0), *[fetch(1, 60)] * 4]
    assert brokers.pauses == [50, 100, 200]


def test_the_last_error_is_raised_once_nothing_has_come_for_the_whole_time(
    brokers: ThreeBrokers,
) -> None:
    brokers.logs[A0] = (0, 60)
    with pytest.raises(
        Refused, match=r"^REQUEST_TIMED_OUT: a-0: nothing came at offset 60 of \[0, 100\)$"
    ):
        brokers.run(reader(brokers).read())
    assert brokers.offsets == TENS[:6]
    last_request_ms = RANGE_FETCH_WAIT_MS
    assert abs(brokers.now_ms - START_MS - SILENCE_MS) <= 1_000 + last_request_ms


def test_with_every_step_forward_the_time_starts_anew(brokers: ThreeBrokers) -> None:
    brokers.most_batches, brokers.request_ms = 1, SILENCE_MS // 2 - 1_000
    brokers.codes[A0] = [Code.CORRUPT_MESSAGE, Code.NONE] * 10
    brokers.run(reader(brokers).read())
    assert brokers.offsets == TENS


def test_brokers_that_stay_away_are_waited_for_until_the_time_is_over(
    brokers: ThreeBrokers,
) -> None:
    brokers.down = {1, 2, 3}
    with pytest.raises(Unanswerable, match="down"):
        brokers.run(reader(brokers).read())
    # Each look-up has a timeout of its own, so that one broker that hangs costs no more.
    first, *_ = brokers.sent
    assert first == ("a",)
    assert brokers.fetches == []
    assert len(brokers.sent) == SILENCE_MS // METADATA_TIMEOUT_MS
    assert brokers.pauses == [50, 100, 200, 400, 800, *[1_000] * 6][: len(brokers.sent) - 1]


def test_the_error_with_which_the_retries_ended_is_raised(brokers: ThreeBrokers) -> None:
    brokers.codes[A0] = [Code.CORRUPT_MESSAGE] * 3
    with pytest.raises(
        Refused, match=r"CORRUPT_MESSAGE: a-0: nothing came at offset 0 of \[0, 9\)"
    ):
        brokers.run(reader(brokers, 0, 9, ReaderTimeouts(REQUEST_MS, 200)).read())
    assert brokers.pauses == [50, 100]


def test_a_topic_that_was_deleted_ends_the_read_at_once(brokers: ThreeBrokers) -> None:
    brokers.deleted = {"a"}
    with pytest.raises(Refused, match=r"UNKNOWN_TOPIC_ID: topic 'a' .* is gone"):
        brokers.run(reader(brokers).read())
    assert (brokers.sent, brokers.pauses) == ([("a",)], [])


def test_as_many_bytes_are_asked_for_as_the_range_needs(brokers: ThreeBrokers) -> None:
    """A tenth more than its records have had so far; 256 bytes each before the first response."""
    brokers.logs[A0], brokers.most_batches = (0, 25_000), 500
    brokers.run(reader(brokers, 0, 25_000).read())
    record_bytes = sum(map(len, brokers.delivered)) / 25_000
    assert brokers.sizes[:2] == [int(25_000 * 256 * 1.1), int(20_000 * record_bytes * 1.1)]


def test_records_that_are_not_visible_are_passed_and_say_nothing_of_sizes(
    brokers: ThreeBrokers,
) -> None:
    brokers.logs[A0], brokers.most_batches, brokers.hidden = (0, 25_000), 500, {A0}
    brokers.run(reader(brokers, 0, 25_000).read())
    assert brokers.offsets == []
    assert brokers.sizes[:2] == [int(25_000 * 256 * 1.1), int(20_000 * 256 * 1.1)]


def test_the_sizes_of_requests_have_bounds(brokers: ThreeBrokers) -> None:
    brokers.run(reader(brokers, 0, 1).read())
    brokers.codes[A0] = [Code.CORRUPT_MESSAGE]
    with pytest.raises(Refused):
        brokers.run(reader(brokers, 0, 10**9, ReaderTimeouts(REQUEST_MS, 0)).read())
    assert brokers.sizes == [LEAST_FETCH_BYTES, FETCH_BYTES]


def test_a_response_that_leaves_the_partition_out_is_an_error(brokers: ThreeBrokers) -> None:
    def leave_out(query: Any) -> Any:
        is_fetch = isinstance(query, SendToLeader)
        return {} if is_fetch else brokers.answer(query)

    with pytest.raises(Refused, match="UNKNOWN_SERVER_ERROR: Fetch of a-0: the response leaves it"):
        run_rule(reader(brokers).read(), leave_out)
