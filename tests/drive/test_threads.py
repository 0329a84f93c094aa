"""The thread driver: steps, deadlines while an errand blocks, order, and what becomes of a
defect.
"""

import threading
from dataclasses import dataclass, field

from apportion.drive.clocks import now
from apportion.drive.threads import ThreadDriver
from apportion.machine import Tick


@dataclass
class Recorder:
    """A machine that remembers what it was stepped with, and wants a Tick at `tick_at_ms` once."""

    tick_at_ms: int | None = None
    seen: list = field(default_factory=list)

    def step(self, event, moment):
        self.seen.append(event)
        if isinstance(event, Tick):
            assert moment.mono_ms >= self.tick_at_ms
            self.tick_at_ms = None
            return ["ticked"]
        return [event]

    def wake_at(self):
        return self.tick_at_ms


def driven(machine, act=lambda action: None):
    """The driver of the machine, an event per finished step, and the crashes."""
    steps, crashes = threading.Semaphore(0), []
    crashed = threading.Event()

    def crash(error):
        crashes.append(error)
        crashed.set()

    return ThreadDriver(machine, act, steps.release, crash), steps, crashes, crashed


def test_events_are_stepped_in_the_order_in_which_they_were_posted():
    machine = Recorder()
    driver, steps, _, _ = driven(machine)
    for number in range(5):
        driver.post(number)
    driver.start("test")
    for _ in range(5):
        assert steps.acquire(timeout=10)
    driver.stop()
    assert machine.seen == [0, 1, 2, 3, 4]


def test_a_deadline_is_kept_while_an_errand_blocks():
    machine = Recorder(tick_at_ms=now().mono_ms + 50)
    release = threading.Event()

    def act(action):
        return (lambda: release.wait(10) and "done") if action == "errand" else None

    driver, steps, _, _ = driven(machine, act)
    driver.start("test")
    driver.post("errand")
    assert steps.acquire(timeout=10)
    assert steps.acquire(timeout=10)
    assert machine.seen == ["errand", Tick()]
    release.set()
    assert steps.acquire(timeout=10)
    driver.stop()
    assert machine.seen == ["errand", Tick(), "done"]


def test_errands_are_done_one_after_the_other():
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


def test_a_defect_ends_the_threads_and_is_told_once():
    for kind in ("step", "act", "errand"):
        machine = Recorder()

        def fail():
            raise ZeroDivisionError

        def act(action, kind=kind, fail=fail):
            return fail if kind == "errand" else fail() if kind == "act" else None

        if kind == "step":
            machine.step = lambda event, moment: 1 // 0
        driver, _, crashes, crashed = driven(machine, act)
        driver.start("test")
        driver.post("go")
        assert crashed.wait(10)
        assert [type(error) for error in crashes] == [ZeroDivisionError]
