"""The thread driver: steps, deadlines while a call blocks, order, and what becomes of a
defect.
"""

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NoReturn

from apportion.drive.clocks import now
from apportion.drive.threads import ThreadDriver
from apportion.machine import Instant, Tick


@dataclass
class Recorder:
    """A machine that remembers what it was stepped with, and wants a Tick at `tick_at_ms` once."""

    tick_at_ms: int | None = None
    seen: list[Any] = field(default_factory=list)

    def step(self, event: Tick | int | str, moment: Instant) -> list[Any]:
        self.seen.append(event)
        if isinstance(event, Tick):
            assert self.tick_at_ms is not None
            assert moment.mono_ms >= self.tick_at_ms
            self.tick_at_ms = None
            return ["ticked"]
        return [event]

    def wake_at(self) -> int | None:
        return self.tick_at_ms


def driven(
    machine: Recorder, perform: Callable[[Any], Any] = lambda action: None
) -> tuple[ThreadDriver[Any, Any], threading.Semaphore, list[Any], threading.Event]:
    """The driver of the machine, an event for each finished step, and the crashes."""
    steps, crashes = threading.Semaphore(0), []
    crashed = threading.Event()

    def crash(error: BaseException) -> None:
        crashes.append(error)
        crashed.set()

    return (
        ThreadDriver(machine, perform=perform, after_step=steps.release, on_crash=crash),
        steps,
        crashes,
        crashed,
    )


def test_events_are_stepped_in_the_order_in_which_they_were_posted() -> None:
    machine = Recorder()
    driver, steps, _, _ = driven(machine)
    for number in range(5):
        driver.post(number)
    driver.start("test")
    for _ in range(5):
        assert steps.acquire(timeout=10)
    driver.stop()
    assert machine.seen == [0, 1, 2, 3, 4]


def test_a_deadline_is_kept_while_a_call_blocks() -> None:
    machine = Recorder(tick_at_ms=now().mono_ms + 50)
    release = threading.Event()

    def perform(action: Any) -> Any:
        return (lambda: release.wait(10) and "done") if action == "call" else None

    driver, steps, _, _ = driven(machine, perform)
    driver.start("test")
    driver.post("call")
    assert steps.acquire(timeout=10)
    assert steps.acquire(timeout=10)
    assert machine.seen == ["call", Tick()]
    release.set()
    assert steps.acquire(timeout=10)
    driver.stop()
    assert machine.seen == ["call", Tick(), "done"]


def test_calls_are_made_one_after_the_other() -> None:
    machine = Recorder()
    driver, steps, _, _ = driven(
        machine, lambda action: (lambda: f"done {action}") if isinstance(action, int) else None
    )
    driver.start("test")
    driver.post(1)
    driver.post(2)
    for _ in range(4):
        assert steps.acquire(timeout=10)
    driver.stop()
    assert [seen for seen in machine.seen if isinstance(seen, str)] == ["done 1", "done 2"]


def test_a_defect_ends_the_threads_and_is_told_once() -> None:
    for kind in ("step", "perform", "call"):
        machine = Recorder()

        def fail() -> NoReturn:
            raise ZeroDivisionError

        def perform(action: Any, kind: str = kind, fail: Callable[..., Any] = fail) -> Any:
            return fail if kind == "call" else fail() if kind == "perform" else None

        if kind == "step":
            machine.step = lambda event, moment: [1 // 0]  # type: ignore[method-assign]
        driver, _, crashes, crashed = driven(machine, perform)
        driver.start("test")
        driver.post("go")
        assert crashed.wait(10)
        assert [type(error) for error in crashes] == [ZeroDivisionError]
