"""Records that are gone while a task reads its range: left out, or an error, by failOnDataLoss."""

from itertools import count
from typing import Any

import pytest

from apportion.errors import UNKNOWN_TOPIC, Code, Refused
from apportion.member.batch.range_reader import RangeReader, ReaderTimeouts
from apportion.member.cluster_queries.topics import Leader, ListOffsetsQuery
from apportion.member.partition_leaders import SendToLeader
from apportion.rules import run_rule
from apportion.wire.batch import decode_batch
from apportion.wire.messages.list_offsets import EARLIEST, LATEST
from tests.member.three_brokers import A0, START_MS, ThreeBrokers

TIMEOUTS = ReaderTimeouts(request_ms=30_000, silence_ms=120_000)


@pytest.fixture
def brokers() -> ThreeBrokers:
    return ThreeBrokers()


class Rows:
    """What the tasks of a query make of a range: the offsets of the rows that it delivers."""

    def __init__(self, brokers: ThreeBrokers, *, fail_on_data_loss: bool = False) -> None:
        self.brokers, self.fail_on_data_loss = brokers, fail_on_data_loss
        self.before: Any = lambda query: None  # called with each query, before it is answered

    def read(self, start: int, end: int) -> list[int]:
        """Read the range, as `spark.reading.slices` does."""
        offsets: list[int] = []
        range_reader = RangeReader(self.brokers.cache, A0, (start, end), TIMEOUTS)
        for from_offset, rule in range_reader.parts(fail_on_data_loss=self.fail_on_data_loss):
            self.brokers.delivered.clear()
            run_rule(rule, self._answer)
            offsets += [
                record.offset
                for batch in self.brokers.delivered
                for record in decode_batch(batch)
                if from_offset <= record.offset < end
            ]
        return offsets

    def _answer(self, query: Any) -> Any:
        self.before(query)
        return self.brokers.answer(query)


def test_a_range_that_is_there_has_each_row_once(brokers: ThreeBrokers) -> None:
    brokers.most_batches = 3
    assert Rows(brokers).read(5, 77) == [*range(5, 77)]


@pytest.mark.parametrize(("log", "rows"), [((30, 100), range(30, 50)), ((60, 100), range(0))])
def test_rows_that_retention_deleted_before_the_read_are_left_out(
    brokers: ThreeBrokers, log: tuple[int, int], rows: range
) -> None:
    brokers.logs[A0] = log
    assert Rows(brokers).read(5, 50) == [*rows]
    assert brokers.sent.count((1, EARLIEST)) == 2


def test_rows_that_retention_deletes_during_the_read_are_left_out(brokers: ThreeBrokers) -> None:
    brokers.most_batches = 2
    rows = Rows(brokers)

    def delete(query: Any) -> None:
        if brokers.delivered:
            brokers.logs[A0] = (45, 100)

    rows.before = delete
    assert rows.read(0, 60) == [*range(20), *range(45, 60)]


def test_rows_that_a_truncated_log_has_lost_are_left_out_and_none_comes_twice(
    brokers: ThreeBrokers,
) -> None:
    """An unclean election: the new leader's log ends below what was read from the old one."""
    brokers.most_batches = 5
    rows = Rows(brokers)

    def truncate(query: Any) -> None:
        if brokers.delivered:
            brokers.logs[A0], brokers.leaders[A0] = (0, 30), Leader(2, 6)

    rows.before = truncate
    assert rows.read(0, 100) == [*range(50)]


def test_the_rows_of_a_topic_that_is_deleted_during_the_read_are_left_out(
    brokers: ThreeBrokers,
) -> None:
    brokers.most_batches = 5
    rows = Rows(brokers)

    def delete(query: Any) -> None:
        if brokers.delivered:
            brokers.deleted = {"a"}

    rows.before = delete
    assert rows.read(0, 100) == [*range(50)]


@pytest.mark.parametrize("timestamp", [EARLIEST, LATEST])
def test_an_outage_while_lost_rows_are_looked_for_is_waited_for(
    brokers: ThreeBrokers, timestamp: int
) -> None:
    brokers.logs[A0], brokers.leaders[A0] = (0, 30), Leader(1, 6)
    rows = Rows(brokers)
    back_ms = START_MS + 2 * TIMEOUTS.request_ms
    brokers.request_ms = 100

    def go_down(query: Any) -> None:
        match query:
            case SendToLeader(_, ListOffsetsQuery(asked)) if asked == timestamp:
                brokers.down = {1, 2, 3}
        if brokers.now_ms > back_ms:
            brokers.down = set()

    rows.before = go_down
    assert rows.read(50, 60) == []
    assert brokers.now_ms > back_ms


@pytest.mark.parametrize("code", UNKNOWN_TOPIC)
def test_a_leader_that_does_not_know_a_topic_of_the_metadata_loses_no_row(
    brokers: ThreeBrokers, code: Code
) -> None:
    rows = Rows(brokers)
    rows.before = lambda _query: brokers.codes.update({A0: [code]})
    with pytest.raises(Refused) as raised:
        rows.read(0, 100)
    assert raised.value.code is code


@pytest.mark.parametrize(
    "error", [Refused(Code.NOT_LEADER_OR_FOLLOWER), Refused(Code.TOPIC_AUTHORIZATION_FAILED)]
)
def test_no_row_is_left_out_because_of_another_error(brokers: ThreeBrokers, error: Refused) -> None:
    """Here the broker does not tell where a log begins whose first records are gone."""
    brokers.logs[A0] = (30, 100)
    rows = Rows(brokers)
    looks = count()

    def refuse(query: Any) -> None:
        match query:
            # The first two are for the words of the error.
            case SendToLeader(_, ListOffsetsQuery()) if next(looks) >= 2:
                raise error

    rows.before = refuse
    with pytest.raises(Refused) as raised:
        rows.read(5, 50)
    assert raised.value is error


@pytest.mark.parametrize("log", [(0, 100), (5, 100), (0, 5)])
def test_a_log_that_has_the_position_all_the_same_loses_no_row(
    brokers: ThreeBrokers, log: tuple[int, int]
) -> None:
    """As after an election: the old leader had less than the new one."""
    brokers.logs[A0] = log
    brokers.codes[A0] = [Code.OFFSET_OUT_OF_RANGE]
    with pytest.raises(Refused, match=r"^OFFSET_OUT_OF_RANGE: a-0: offset 5 of \[5, 50\)"):
        Rows(brokers).read(5, 50)


def test_a_query_that_must_not_lose_rows_says_which_are_gone(brokers: ThreeBrokers) -> None:
    brokers.logs[A0] = (30, 90)
    with pytest.raises(RuntimeError) as raised:
        Rows(brokers, fail_on_data_loss=True).read(5, 50)
    assert str(raised.value) == (
        "a-0: offset 5 of [5, 50) is not there; the log holds [30, 90): this batch reads a-0 from "
        "5 to 50. Set failOnDataLoss to false to go on without these records."
    )
    assert [query for query in brokers.sent if query in ((1, EARLIEST), (1, LATEST))] == [
        (1, EARLIEST),
        (1, LATEST),
    ]


def test_an_error_that_loses_nothing_ends_the_task_and_not_the_query(
    brokers: ThreeBrokers,
) -> None:
    brokers.codes[A0] = [Code.TOPIC_AUTHORIZATION_FAILED]
    with pytest.raises(Refused, match="TOPIC_AUTHORIZATION_FAILED"):
        Rows(brokers, fail_on_data_loss=True).read(5, 50)
