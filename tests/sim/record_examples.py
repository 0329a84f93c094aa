"""Small examples of the bugs in `planted_records.py`: what happens without and with each."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from apportion.errors import Unanswerable
from apportion.member.group_claims import metadata_of
from apportion.member.membership import CoordinatorFound, Leave, Unanswered
from apportion.member.queries import (
    AdoptAssignment,
    CommitOffsets,
    FetchCommitted,
    MembershipSnapshot,
)
from apportion.member.records.queries import FetchRecords
from tests.member.record_consumer_host import P0, P1, P2, RecordConsumerHost, reading_consumer


def queries_of_a_revocation() -> list[type]:
    host = reading_consumer()
    host.poll(limit=1)
    host.receives(P1, epoch=3)
    host.poll()
    return [type(query) for query in host.named(CommitOffsets, AdoptAssignment)]


def starting_position(committed: int | None) -> int:
    host = RecordConsumerHost()
    if committed is not None:
        host.offsets[P0] = committed
    host.receives(P0)
    host.poll(limit=0)
    return host.rule.positions[P0]


def starting_position_after_the_last_commit_of_another() -> int:
    host = RecordConsumerHost()
    host.offsets[P0] = 4

    def commit(query: Any) -> None:
        if isinstance(query, AdoptAssignment):
            host.offsets[P0] = 5

    host.receives(P0)
    host.before = commit
    host.poll(limit=0)
    return host.rule.positions[P0]


def partitions_delivered_after_a_revocation() -> list[int]:
    host = RecordConsumerHost()
    host.receives(P0, P1)
    host.poll(limit=0)
    host.receives(P1, epoch=3)
    return sorted({partition for partition, _ in host.poll()})


def uncommitted_positions() -> dict[Any, int]:
    host = reading_consumer()
    host.poll(limit=1)
    return host.rule.uncommitted()


def position_after_a_rebalance() -> int:
    host = reading_consumer()
    host.poll(limit=1)
    host.receives(P0, P1, P2, epoch=3)
    host.poll(limit=0)
    return host.rule.positions[P0]


def records_of_two_polls() -> list[tuple[int, int]]:
    host = reading_consumer()
    return host.poll(limit=1) + host.poll(limit=1)


def committed_offset_after_a_revocation() -> int:
    host = reading_consumer()
    host.poll(limit=1)
    host.receives(P1, epoch=3)
    host.poll()
    return host.offsets[P0]


def committed_offset_after_a_close() -> int:
    host = reading_consumer()
    host.poll(limit=1)
    host.run(host.rule.close())
    return host.offsets[P0]


def uses_a_partition_that_was_withdrawn() -> bool:
    host = reading_consumer()

    def withdraw(query: Any) -> None:
        if isinstance(query, AdoptAssignment):
            host.receives(P0, P1, epoch=4)

    host.receives(P0, P1, P2, epoch=3)
    host.before = withdraw
    host.run(host.rule.apply_assignment())
    return P2 in host.rule.positions


def records_taken_after_a_loss() -> int:
    host = reading_consumer()
    host.poll(limit=1)
    lost = replace(host.view, incarnation=host.view.incarnation + 1, target=None)
    return len(host.rule.take_at_once(MembershipSnapshot(lost, host.now_ms, 0), 1))


def poll_with_failing(kind: type) -> str:
    """The end of a poll with an automatic commit, whose queries of this kind have no answer."""
    host = reading_consumer()
    host.poll()

    def fail(query: Any) -> None:
        if isinstance(query, kind):
            raise Unanswerable("no broker")

    host.now_ms += 60_000
    host.before = fail
    try:
        host.poll()
    except Unanswerable:
        return "raises"
    return "returns"


def event_before_the_join(error: Exception | None) -> type:
    """What the member gets to know: of a group with a sink, or where its offsets have an error."""
    host = RecordConsumerHost()
    host.metadata = metadata_of(("a table",))

    def fail(query: Any) -> None:
        if isinstance(query, FetchCommitted) and error is not None:
            raise error

    host.before = fail
    return type(host.run(host.rule.check_before_join(CoordinatorFound(1))))


RECORD_EXAMPLES: dict[str, tuple[Callable[[], Any], Any, Any]] = {
    "commit-after-adopt": (
        queries_of_a_revocation,
        [CommitOffsets, AdoptAssignment],
        [AdoptAssignment, CommitOffsets],
    ),
    "start-without-committed": (lambda: starting_position(4), 4, 0),
    "start-from-a-look": (starting_position_after_the_last_commit_of_another, 5, 4),
    "start-one-before": (lambda: starting_position(4), 4, 3),
    "start-at-the-end": (lambda: starting_position(None), 0, 5),
    "revoked-records": (partitions_delivered_after_a_revocation, [1], [0, 1]),
    "commit-undelivered": (uncommitted_positions, {P0: 3}, {P0: 4, P1: 6}),
    "position-lost-on-rejoin": (position_after_a_rebalance, 3, 2),
    "delivered-twice": (records_of_two_polls, [(0, 2), (0, 3)], [(0, 1), (0, 1)]),
    "revoked-without-commit": (committed_offset_after_a_revocation, 3, 2),
    "closed-without-commit": (committed_offset_after_a_close, 3, 2),
    "used-before-adopted": (uses_a_partition_that_was_withdrawn, False, True),
    "commit-failure-raised": (lambda: poll_with_failing(CommitOffsets), "returns", "raises"),
    "outage-raised": (lambda: poll_with_failing(FetchRecords), "returns", "raises"),
    "used-though-withdrawn": (uses_a_partition_that_was_withdrawn, False, True),
    "taken-after-a-loss": (records_taken_after_a_loss, 0, 1),
    "joins-unchecked": (lambda: event_before_the_join(None), Leave, CoordinatorFound),
    "joins-without-an-answer": (
        lambda: event_before_the_join(Unanswerable("no broker")),
        Unanswered,
        CoordinatorFound,
    ),
}
