"""How long a task of a simulated query has to try before an error may end it."""

import pytest

from apportion.errors import Code, Refused, Unanswerable
from apportion.sim.actors.tasks import SILENCE_MS, RangeRead, TaskReads
from apportion.sim.kernel.outcome import LawBroken
from apportion.topics import TopicIdPartition

P = TopicIdPartition("t", b"t" * 16, 0)
DOWN = Unanswerable("no broker")


class Clock:
    """A clock that stands until it is moved."""

    def __init__(self) -> None:
        self.now_ms = 1_000_000

    def mono_ms(self) -> int:
        """The clock's milliseconds."""
        return self.now_ms


def test_a_task_may_end_when_nothing_has_come_for_its_time() -> None:
    clock = Clock()
    attempt = RangeRead(TaskReads("worker0", clock.mono_ms), P, (0, 10))
    clock.now_ms += SILENCE_MS
    attempt.check_patience(DOWN)


@pytest.mark.parametrize(
    ("error", "after_ms"),
    [(DOWN, SILENCE_MS // 2), (Refused(Code.UNKNOWN_SERVER_ERROR), SILENCE_MS)],
)
def test_a_task_ends_neither_early_nor_with_a_final_error(error: Exception, after_ms: int) -> None:
    clock = Clock()
    attempt = RangeRead(TaskReads("worker0", clock.mono_ms), P, (0, 10))
    clock.now_ms += after_ms
    with pytest.raises(LawBroken) as broken:
        attempt.check_patience(error)
    assert broken.value.law == "task-goes-on"
