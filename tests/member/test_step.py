"""One step of a member."""

from apportion.machine import Instant, Note
from apportion.member.membership import Left
from apportion.member.step import Step


def test_a_step_keeps_its_actions_in_the_order_in_which_they_came() -> None:
    step = Step(Instant(5, 1_000))
    step.warn("it is late")
    step.emit(Left(is_confirmed=False), Left(is_confirmed=True))
    step.emit()
    assert step.actions == [
        Note("warning", "it is late"),
        Left(is_confirmed=False),
        Left(is_confirmed=True),
    ]


def test_a_time_is_due_from_its_own_moment_on() -> None:
    step = Step(Instant(5, 1_000))
    assert [step.is_due(at_ms) for at_ms in (4, 5, 6, None)] == [True, True, False, False]
