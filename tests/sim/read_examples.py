"""Small examples of the bugs in `planted_reads.py`: what happens without and with each."""

from collections.abc import Callable
from typing import Any

from apportion.errors import Refused
from apportion.member.batch.range_reader import RangeReader, ReaderTimeouts
from tests.member.three_brokers import A0, START_MS, ThreeBrokers

TIMEOUTS = ReaderTimeouts(request_ms=30_000, silence_ms=120_000)


def batches_of_a_range_that_needs_two_requests() -> int:
    brokers = ThreeBrokers()
    brokers.most_batches = 5
    brokers.run(RangeReader(brokers.cache, A0, (0, 100), TIMEOUTS).read())
    return len(brokers.delivered)


def whether_a_task_waits_for_a_leader() -> bool:
    brokers = ThreeBrokers()
    brokers.leaders[A0] = None
    try:
        brokers.run(RangeReader(brokers.cache, A0, (0, 100), TIMEOUTS).read())
    except Refused:
        return brokers.now_ms > START_MS
    raise AssertionError("nobody leads the partition")


def how_a_read_of_a_topic_ends_that_was_created_again() -> str:
    brokers = ThreeBrokers()
    before = A0._replace(topic_id=b"o" * 16)
    reader = RangeReader(brokers.cache, before, (0, 100), TIMEOUTS)
    try:
        brokers.run(reader.read_remaining(fail_on_data_loss=False))
    except Refused:
        return "fails"
    return f"at {reader.position}"


READ_EXAMPLES: dict[str, tuple[Callable[[], Any], Any, Any]] = {
    "answered-is-read": (batches_of_a_range_that_needs_two_requests, 10, 5),
    "task-ends-at-once": (whether_a_task_waits_for_a_leader, True, False),
    "same-name-is-there": (how_a_read_of_a_topic_ends_that_was_created_again, "at 100", "fails"),
}
