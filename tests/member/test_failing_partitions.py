"""A consumer of which some partitions cannot be fetched, and others can."""

from typing import Any

import pytest

from apportion.errors import Code, Refused
from apportion.machine import Note
from apportion.member.cluster_queries.records import PartitionFetch
from apportion.member.permissions import denial_or_none
from apportion.member.records.queries import AwaitMembershipChange, ReportFetch
from apportion.topics import TopicIdPartition
from tests.member.record_consumer_host import P0, P1, RecordConsumerHost

DAMAGED = f"CORRUPT_MESSAGE: Fetch of t-0: {Code.CORRUPT_MESSAGE.sentence}"
BEGAN = Note("warning", f"cannot fetch t-0 now, and tries again until it can: {DAMAGED}")
ENDED = Note("warning", "t-0 is fetched again")


class FailingHost(RecordConsumerHost):
    """A consumer of P0 and P1, whose brokers answer for partitions in `codes` with these errors.

    reported: the texts of the errors in its reports of whole fetches; None for one that went well.
    """

    def __init__(self, codes: dict[TopicIdPartition, Code], **settings: Any) -> None:
        super().__init__(**settings)
        self.codes = codes
        self.reported: list[str | None] = []
        self.before = self._report
        self.receives(P0, P1)

    def fetched(self, partition: TopicIdPartition, position: int) -> PartitionFetch:
        """Return the partition's error, if it has one, or its records."""
        if partition in self.codes:
            return PartitionFetch((), position, self.codes[partition])
        return super().fetched(partition, position)

    def grow(self) -> None:
        """Append a record to P1."""
        self.logs[P1] += 1

    def _report(self, query: Any) -> None:
        if isinstance(query, ReportFetch):
            self.reported.append(None if query.error is None else str(query.error))


def test_a_damaged_partition_keeps_no_other_from_being_delivered() -> None:
    host = FailingHost({P0: Code.CORRUPT_MESSAGE})
    assert host.poll() == [(1, offset) for offset in range(5)]
    host.grow()
    assert host.poll() == [(1, 5)]
    assert host.reported == [None, None]


def test_a_partition_that_stays_damaged_is_logged_once_and_at_its_end() -> None:
    host = FailingHost({P0: Code.CORRUPT_MESSAGE})
    for _ in range(4):
        host.poll()
        host.grow()
    assert host.named(Note) == [BEGAN]
    host.codes = {}
    host.poll()
    host.poll()
    assert host.named(Note) == [BEGAN, ENDED]


def test_one_error_of_a_partition_is_not_logged() -> None:
    """A leader that has moved is found by the next fetch."""
    host = FailingHost({P0: Code.NOT_LEADER_OR_FOLLOWER})
    host.poll()
    host.codes = {}
    host.poll()
    assert host.named(Note) == []


def test_a_partition_that_was_revoked_while_it_failed_has_no_end_in_the_log() -> None:
    host = FailingHost({P0: Code.CORRUPT_MESSAGE})
    for _ in range(2):
        host.poll()
        host.grow()
    host.receives(P1, epoch=3)
    host.poll()
    host.codes = {}
    host.receives(P0, P1, epoch=4)
    assert (0, 0) in host.poll()
    assert host.named(Note) == [BEGAN]


@pytest.mark.parametrize("code", [Code.TOPIC_AUTHORIZATION_FAILED, Code.UNKNOWN_SERVER_ERROR])
def test_a_permanent_error_is_raised_and_what_came_beside_it_is_kept(code: Code) -> None:
    host = FailingHost({P0: code})
    with pytest.raises(Refused) as raised:
        host.poll()
    why = denial_or_none("Fetch", code, ("t",)) or code.sentence
    assert str(raised.value) == f"{code.name}: Fetch of t-0: {why}"
    assert host.poll() == [(1, offset) for offset in range(5)]


def test_a_reset_that_is_refused_loses_nothing_that_came_beside_it() -> None:
    host = FailingHost({})
    host.poll()
    host.rule.settings = host.rule.settings._replace(reset=None)
    host.codes = {P0: Code.OFFSET_OUT_OF_RANGE}
    host.grow()
    with pytest.raises(Refused, match="auto_offset_reset is 'error'"):
        host.poll()
    assert host.poll() == [(1, 5)]


def test_errors_of_all_partitions_are_an_outage() -> None:
    host = FailingHost({P0: Code.CORRUPT_MESSAGE, P1: Code.LEADER_NOT_AVAILABLE})
    assert host.poll() == []
    assert host.poll() == []
    leaderless = f"LEADER_NOT_AVAILABLE: Fetch of t-1: {Code.LEADER_NOT_AVAILABLE.sentence}"
    assert sorted(map(str, host.reported)) == [DAMAGED, leaderless]
    host.codes = {P0: Code.CORRUPT_MESSAGE}
    host.poll()
    assert host.reported[2:] == [None]
    assert host.named(Note) == []


def test_a_permanent_error_is_raised_before_those_that_a_retry_may_mend() -> None:
    host = FailingHost({P0: Code.CORRUPT_MESSAGE, P1: Code.TOPIC_AUTHORIZATION_FAILED})
    for _ in range(2):  # in either order
        with pytest.raises(Refused, match="TOPIC_AUTHORIZATION_FAILED"):
            host.poll()


@pytest.mark.parametrize("failing", [{P0}, {P0, P1}])
def test_a_poll_waits_between_fetches_that_an_error_ends_at_once(
    failing: set[TopicIdPartition],
) -> None:
    host = FailingHost(dict.fromkeys(failing, Code.CORRUPT_MESSAGE))
    host.logs = dict.fromkeys(host.logs, 0)
    assert host.poll() == []
    assert host.named(AwaitMembershipChange) == [AwaitMembershipChange(0)]
