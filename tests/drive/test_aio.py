"""The loop driver carries out what a toy machine asks for, and invents nothing."""

import asyncio
import threading
from collections.abc import Callable
from errno import ENOSPC
from typing import Any, NamedTuple, NoReturn

from apportion.drive.aio import LoopDriver
from apportion.machine import (
    Arrivals,
    Arrived,
    Caller,
    Compute,
    Computed,
    ComputeFailed,
    Flush,
    Flushed,
    FlushFailed,
    Instant,
    Note,
    Tick,
    Ticket,
)


class Sum(NamedTuple):
    """The computation to add some numbers."""

    group_id: str
    numbers: tuple[Any, ...]
    is_foreign: bool = False

    def run(self) -> Any:
        return sum(self.numbers)


class Toy:
    """Writes down every event; acts as the event itself says."""

    def __init__(self) -> None:
        self.events: list[Any] = []
        self.wake_ms: int | None = None

    def step(self, event: Any, now: Instant) -> list[Flush | Note]:
        if isinstance(event, Exception):
            raise event
        self.events.append(event)
        if isinstance(event, Tick):
            self.wake_ms = None
        return event if isinstance(event, list) else []

    def wake_at(self) -> int | None:
        return self.wake_ms

    def give_up(
        self, event: AssertionError | KeyError, error: AssertionError | KeyError, now: Instant
    ) -> list[Note]:
        if isinstance(event, KeyError):
            raise event
        self.events.append(("gave up", event))
        return [Note("error", str(error))]


def request(ticket: int) -> Arrived:
    return Arrived(Ticket(ticket), "request", 0, Caller("client", "/host"), bytes(16))


def run(
    script: Any, sync: Callable[..., Any] = lambda paths: None
) -> tuple[list[Any], list[Note | KeyError]]:
    """What the toy saw and what was carried out, after `script(toy, driver)`."""
    toy: Any = Toy()
    done: list[Any] = []

    async def play() -> None:
        driver = LoopDriver(
            toy,
            sync=sync,
            carry_out=done.extend,
            broken=done.append,
            loop=asyncio.get_running_loop(),
        )
        await script(toy, driver)
        await driver.stop()

    asyncio.run(play())
    return toy.events, done


def test_actions_are_carried_out_in_order_and_a_flush_comes_back_as_an_event() -> None:
    paths: list[str] = []

    async def script(toy: Toy, driver: LoopDriver) -> None:
        driver.post([Note("info", "a"), Flush(3, ("x", "y")), Note("info", "b")])
        await driver.idle()

    events, done = run(script, paths.extend)
    assert events[1:] == [Flushed(3)]
    assert (paths, done) == (["x", "y"], [Note("info", "a"), Note("info", "b")])


def test_actions_before_a_flush_are_carried_out_before_it_begins() -> None:
    done: list[Any] = []

    async def play() -> None:
        toy: Any = Toy()
        driver = LoopDriver(
            toy,
            sync=lambda _paths: None,
            carry_out=done.append,
            broken=done.append,
            loop=asyncio.get_running_loop(),
        )
        driver._own[Flush] = done.append
        notes = [Note("info", text) for text in "abc"]
        driver.perform([*notes[:2], Flush(1, ()), notes[2]])
        assert done == [notes[:2], Flush(1, ()), notes[2:]]
        await driver.stop()

    asyncio.run(play())


def test_a_disk_that_refuses_is_an_event_too() -> None:
    def refuse(paths: tuple[str, ...]) -> NoReturn:
        raise OSError(ENOSPC, "no room")

    async def script(toy: Toy, driver: LoopDriver) -> None:
        driver.post([Flush(1, ("x",))])
        await driver.idle()

    assert run(script, refuse)[0][1:] == [FlushFailed(1, f"[Errno {ENOSPC}] no room", ENOSPC)]


def test_a_step_that_breaks_off_is_given_up_and_the_next_one_goes_on() -> None:
    async def script(toy: Toy, driver: LoopDriver) -> None:
        driver.post(AssertionError("broken"))
        driver.post([Note("info", "next")])

    events, done = run(script)
    assert [type(each) for each in events] == [tuple, list]
    assert done == [Note("error", "broken"), Note("info", "next")]


def test_the_machine_is_woken_when_it_wants_to_be() -> None:
    async def script(toy: Toy, driver: LoopDriver) -> None:
        toy.wake_ms = 0
        driver.post([])
        while Tick() not in toy.events:
            await asyncio.sleep(0)

    assert run(script)[0] == [[], Tick()]


def test_requests_that_arrive_in_one_pass_of_the_loop_are_one_step() -> None:
    first, second, third, fourth = map(request, range(4))

    async def script(toy: Toy, driver: LoopDriver) -> None:
        driver.post_soon(first)
        driver.post_soon(second)
        assert toy.events == []
        await asyncio.sleep(0)
        driver.post_soon(third)
        await asyncio.sleep(0)
        driver.post_soon(fourth)

    assert run(script)[0] == [Arrivals((first, second)), third, fourth]


def test_another_event_comes_behind_the_requests_before_it() -> None:
    first, second = map(request, range(2))

    async def script(toy: Toy, driver: LoopDriver) -> None:
        driver.post_soon(first)
        driver.post(Tick())
        driver.post_soon(second)

    assert run(script)[0] == [first, Tick(), second]


def test_after_the_end_nothing_is_stepped() -> None:
    async def script(toy: Toy, driver: LoopDriver) -> None:
        await driver.stop()
        driver.post([Note("info", "late")])

    assert run(script) == ([], [])


def test_a_machine_that_cannot_give_up_a_step_is_stepped_no_more() -> None:
    broken = KeyError("worse")

    async def script(toy: Toy, driver: LoopDriver) -> None:
        driver.post(broken)
        driver.post([Note("info", "late")])

    assert run(script) == ([], [broken])


async def ended(toy: Toy, count: int) -> None:
    """Wait until that many computations have ended."""
    while sum(isinstance(each, Computed | ComputeFailed) for each in toy.events) < count:
        await asyncio.sleep(0)


def test_a_task_comes_back_as_an_event_with_its_result_or_its_error() -> None:
    right, wrong = Sum("g", (1, 2)), Sum("g", ("a", 2))

    async def script(toy: Toy, driver: LoopDriver) -> None:
        driver.post([Compute(right), Note("info", "at once"), Compute(wrong)])
        await ended(toy, 2)

    events, done = run(script)
    assert events[1:] == [
        Computed(right, 3),
        ComputeFailed(
            wrong,
            """TypeError("unsupported operand type(s) for +: 'int' and 'str'")"""
            f" (test_aio.py:{Sum.run.__code__.co_firstlineno + 1})",
        ),
    ]
    assert done == [Note("info", "at once")]


class Blocked:
    """A computation that ends when it is let go."""

    group_id = "g"
    is_foreign = False

    def __init__(self) -> None:
        self.may_end = threading.Event()
        self.has_begun = threading.Event()

    def run(self) -> str:
        self.has_begun.set()
        self.may_end.wait()
        return "late"


def test_a_long_task_delays_neither_a_flush_nor_the_end_of_the_driver() -> None:
    blocked, behind = Blocked(), Sum("g", (1,))

    async def script(toy: Toy, driver: LoopDriver) -> None:
        driver.post([Compute(blocked), Compute(behind)])
        await asyncio.to_thread(blocked.has_begun.wait)
        driver.post([Flush(1, ())])
        await driver.idle()

    events, _ = run(script)
    blocked.may_end.set()
    assert events[2:] == [Flushed(1)]
