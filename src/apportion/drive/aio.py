"""Drives a state machine on an asyncio loop: flushes on one thread, one timer for all deadlines.

For the broker: `server/server.py` drives its node with it. Steps run on the loop; waiting for the
disk leaves it, and so do computations (`computations.py`).
"""

import asyncio
import time
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any, Protocol

from apportion.drive.clocks import now
from apportion.drive.computations import ComputationThread, ForeignComputations
from apportion.machine import (
    Abandon,
    Arrivals,
    Arrived,
    ComputationEnd,
    Compute,
    Flush,
    Flushed,
    FlushFailed,
    Instant,
    Tick,
)


class RecoverableMachine(Protocol):
    """A machine that can recover after one of its steps raised."""

    def step(self, event: Any, now: Instant) -> list[Any]:
        """Return the actions that `event` causes, as `Machine.step` does."""
        ...

    def wake_at(self) -> int | None:
        """Return when the machine needs a `Tick`, as `Machine.wake_at` does."""
        ...

    def give_up(self, event: Any, error: Exception, now: Instant, /) -> list[Any]:
        """Undo the step over `event` that raised `error`; return the actions that follow."""
        ...


class LoopDriver:
    """One machine on one loop.

    sync: makes files durable; called on a thread of its own. carry_out: called on the loop's thread
    with all other actions than Flush, Compute and Abandon, in order; those between two of these
    come in one list. broken: called when the machine cannot even give up a step; no event is taken
    after that.
    """

    def __init__(
        self,
        machine: RecoverableMachine,
        *,
        sync: Callable[[Iterable[str]], None],
        carry_out: Callable[[list[Any]], None],
        broken: Callable[[Exception], None],
        loop: asyncio.AbstractEventLoop,
    ) -> None:
        """Keep the machine and its callbacks, for a server's asyncio loop."""
        self._machine = machine
        self._sync = sync
        self._carry_out = carry_out
        self._broken = broken
        self._loop = loop
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="apportion-sync")
        # Not the thread of the flushes, which would be late behind a long computation.
        self._computations = ComputationThread(self._post_computed)
        self._foreign = ForeignComputations(self._post_computed)
        self._flushing: asyncio.Future[None] | None = None
        self._arrivals: list[Arrived] = []
        self._timer: asyncio.TimerHandle | None = None
        self._timer_ms = 0
        self._stopped = False
        self._own: dict[type[Any], Callable[[Any], None]] = {
            Flush: self._flush,
            Compute: self._compute,
            Abandon: self._abandon,
        }

    def post_soon(self, request: Arrived) -> None:
        """Step the driven machine over a request and all others that this pass of the loop brings.

        One step for many requests costs less than one for each.
        """
        if not self._arrivals:
            self._loop.call_soon(self.post_arrivals)
        self._arrivals.append(request)

    def post(self, event: Any) -> None:
        """Step the driven state machine over `event`, and perform its actions on the event loop."""
        self.post_arrivals()  # they came before
        self._step(event)

    def post_arrivals(self) -> None:
        """Step the driven machine over the requests of `post_soon` now."""
        arrivals, self._arrivals = self._arrivals, []
        if arrivals:
            self._step(arrivals[0] if len(arrivals) == 1 else Arrivals(tuple(arrivals)))

    def _step(self, event: Any) -> None:
        """Step the machine over one event; where that fails, have it give the step up."""
        if self._stopped:
            return
        moment = now()
        try:
            actions = self._machine.step(event, moment)
        except Exception as error:
            # A defect. The machine undoes the step and answers the request, so that one bad request
            # does not end the broker.
            try:
                actions = self._machine.give_up(event, error, moment)
            except Exception as worse:
                self._stopped = True
                self._broken(worse)
                return
        self.perform(actions)

    def perform(self, actions: list[Any]) -> None:
        """Perform the actions in order, and set the timer to the machine's next deadline."""
        others: list[Any] = []  # in a row, and not carried out yet
        for action in actions:
            perform = self._own.get(type(action))
            if perform is None:
                others.append(action)
                continue
            if others:
                self._carry_out(others)
                others = []
            perform(action)
        if others:
            self._carry_out(others)
        wake_ms = self._machine.wake_at()
        if wake_ms is not None and (self._timer is None or wake_ms < self._timer_ms):
            self._set_timer(wake_ms)

    async def idle(self) -> None:
        """Wait until no flush is under way: what was posted before this call is durable."""
        self.post_arrivals()
        while self._flushing is not None:
            await asyncio.wait([self._flushing])
            await asyncio.sleep(0)  # callbacks of the flush come first: they may begin another

    async def stop(self) -> None:
        """Wait for the flush under way, then take no further event."""
        await self.idle()
        self._stopped = True
        if self._timer is not None:
            self._timer.cancel()
        self._thread.shutdown()
        self._computations.stop()
        self._foreign.stop()

    def _set_timer(self, wake_ms: int) -> None:
        """Set the event loop's one timer to the machine's next deadline, in monotonic ms."""
        if self._timer is not None:
            self._timer.cancel()
        self._timer_ms = wake_ms
        # At least 1 ms, so that a deadline that stays due does not keep the loop from its sockets.
        self._timer = self._loop.call_later(
            max(0.001, wake_ms / 1000 - time.monotonic()), self._wake
        )

    def _wake(self) -> None:
        """Step the machine over a Tick, as the timer has run out."""
        self._timer = None
        self.post(Tick())

    def _compute(self, compute: Compute) -> None:
        """Begin a computation beside the loop."""
        place = self._foreign if compute.computation.is_foreign else self._computations
        place.begin(compute.computation)

    def _abandon(self, abandon: Abandon) -> None:
        """Wait no longer for a computation, which a foreign one may never end."""
        if abandon.computation.is_foreign:
            self._foreign.abandon(abandon.computation)

    def _flush(self, flush: Flush) -> None:
        """Begin a flush of the broker's files on the flush thread."""
        self._flushing = future = self._loop.run_in_executor(self._thread, self._sync, flush.paths)
        future.add_done_callback(lambda done: self._flushed(flush, done.exception()))

    def _flushed(self, flush: Flush, error: BaseException | None) -> None:
        """Give the machine the end of a flush as an event, on the loop's thread."""
        self._flushing = None
        self.post(
            Flushed(flush.flush_seq)
            if error is None
            else FlushFailed(flush.flush_seq, str(error), getattr(error, "errno", None))
        )

    def _post_computed(self, event: ComputationEnd) -> None:
        """Give the machine the end of a computation as an event; called on that thread."""
        # The loop may have ended since: then nobody needs the result.
        with suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self.post, event)
