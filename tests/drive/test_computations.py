"""Foreign computations: each has a thread, and those that never return cost no more than theirs."""

import signal
import threading
from collections.abc import Iterator
from queue import SimpleQueue
from typing import Any

import pytest

from apportion.drive.computations import FOREIGN_THREADS, ForeignComputations
from apportion.machine import ComputationEnd, Computed, ComputeFailed
from tests.raising_lines import line_of_raise

LONGEST_S = 30


class Call:
    """A call of foreign code that returns its name when it is let go."""

    is_foreign = True

    def __init__(self, group_id: str) -> None:
        self.group_id = group_id
        self.may_end = threading.Event()
        self.has_begun = threading.Event()

    def run(self) -> str:
        self.has_begun.set()
        self.may_end.wait(LONGEST_S)
        return self.group_id

    def let_go(self) -> None:
        self.may_end.set()


class Raises:
    """A call of foreign code that raises."""

    is_foreign = True
    group_id = "g"

    def __init__(self, error: BaseException) -> None:
        self.error = error

    def run(self) -> Any:
        raise self.error


class Hosted:
    """Foreign computations, and the ends that they have had."""

    def __init__(self) -> None:
        self.ends: SimpleQueue[ComputationEnd] = SimpleQueue()
        self.foreign = ForeignComputations(self.ends.put)
        self.calls: list[Call] = []

    def begin(self, count: int = 1) -> list[Call]:
        """Begin that many calls."""
        calls = [Call(f"g{len(self.calls) + number}") for number in range(count)]
        self.calls += calls
        for call in calls:
            self.foreign.begin(call)
        return calls

    def next_end(self) -> ComputationEnd:
        return self.ends.get(timeout=LONGEST_S)


@pytest.fixture
def hosted() -> Iterator[Hosted]:
    """Whatever a test leaves behind is let go."""
    hosted = Hosted()
    yield hosted
    hosted.foreign.stop()
    for call in hosted.calls:
        call.let_go()


def test_a_call_that_does_not_return_keeps_no_other_waiting(hosted: Hosted) -> None:
    _, quick = hosted.begin(2)
    quick.let_go()
    assert hosted.next_end() == Computed(quick, "g1")


def test_more_calls_than_threads_wait_for_one_to_return(hosted: Hosted) -> None:
    *running, waiting = hosted.begin(FOREIGN_THREADS + 1)
    assert all(call.has_begun.wait(LONGEST_S) for call in running)
    assert not waiting.has_begun.is_set()
    running[3].let_go()
    assert hosted.next_end() == Computed(running[3], "g3")
    assert waiting.has_begun.wait(LONGEST_S)


def test_a_call_that_is_abandoned_before_it_has_begun_never_begins(hosted: Hosted) -> None:
    *running, waiting, last = hosted.begin(FOREIGN_THREADS + 2)
    hosted.foreign.abandon(waiting)
    last.let_go()
    running[0].let_go()
    assert [hosted.next_end(), hosted.next_end()] == [
        Computed(running[0], "g0"),
        Computed(last, last.group_id),
    ]
    assert not waiting.has_begun.is_set()


def test_once_all_threads_are_lost_a_call_fails_until_one_returns(hosted: Hosted) -> None:
    lost = hosted.begin(FOREIGN_THREADS)
    for call in lost:
        hosted.foreign.abandon(call)
    (refused,) = hosted.begin()
    assert hosted.next_end() == ComputeFailed(
        refused, "all 8 threads are kept by calls that have not returned"
    )
    names = [thread.name for thread in threading.enumerate()]
    assert names.count("apportion-foreign") < 2 * FOREIGN_THREADS
    # One that returns after all frees its thread, and its end is told to nobody.
    lost[0].let_go()
    end: ComputationEnd = ComputeFailed(refused, "")
    while isinstance(end, ComputeFailed):
        (call,) = hosted.begin()
        call.let_go()
        end = hosted.next_end()
    assert end == Computed(call, call.group_id)


class Nameless(Exception):
    """An error that cannot be written down."""

    def __repr__(self) -> str:
        raise RuntimeError


@pytest.mark.parametrize(
    ("error", "why"),
    [
        (ValueError("no"), "ValueError('no')"),
        (SystemExit(3), "SystemExit(3)"),
        (Nameless(), "Nameless"),
    ],
    ids=["an error", "an exit", "an error without a text"],
)
def test_a_call_ends_with_what_it_raises(hosted: Hosted, error: BaseException, why: str) -> None:
    call = Raises(error)
    hosted.foreign.begin(call)
    assert hosted.next_end() == ComputeFailed(call, f"{why} ({line_of_raise(Raises.run)})")


def test_a_call_that_is_interrupted_interrupts_the_program_and_frees_its_thread(
    hosted: Hosted,
) -> None:
    came = threading.Event()
    before = signal.signal(signal.SIGINT, lambda _number, _frame: came.set())
    try:
        hosted.foreign.begin(Raises(KeyboardInterrupt()))
        assert came.wait(LONGEST_S)
    finally:
        signal.signal(signal.SIGINT, before)
    for call in hosted.begin(FOREIGN_THREADS):
        call.let_go()
    assert {type(hosted.next_end()) for _ in range(FOREIGN_THREADS)} == {Computed}


def test_a_long_error_is_cut_before_the_line_that_raised_it(hosted: Hosted) -> None:
    call = Raises(ValueError("x" * 1_000_000))
    hosted.foreign.begin(call)
    end = hosted.next_end()
    assert isinstance(end, ComputeFailed)
    assert len(end.why) < 450
    assert end.why.endswith(f"xxx') ({line_of_raise(Raises.run)})")
