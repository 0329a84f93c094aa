"""Drives a state machine on a daemon thread, and its blocking calls on others.

`ThreadDriver.post` hands an event over from any thread. The first thread steps the machine and
performs at once every action that does not block; an action that has to wait for a broker becomes
a `BlockingCall`, made on another thread, whose result is the next event. So the machine's deadlines
are kept while a call blocks. For the members of `client/group_membership.py`; nothing here knows
what a member is.
"""

import threading
from collections.abc import Callable
from queue import Empty, SimpleQueue
from typing import Generic, TypeVar

from apportion.drive.clocks import now
from apportion.machine import Machine, Tick

E = TypeVar("E")
A = TypeVar("A")
BlockingCall = Callable[[], E]


class ThreadDriver(Generic[E, A]):
    """Drives a state machine on a thread of its own.

    perform: performs one action on the machine's thread and returns None, or returns a call that
    blocks and then returns an event.
    after_step: called on the machine's thread after every step, when its actions are performed; the
    place to publish a snapshot.
    on_crash: called once if a step, an action or a call raised: that is a defect, and the threads
    have ended.
    concurrent_calls: how many calls may block at the same time; further ones wait in order.
    """

    def __init__(
        self,
        machine: Machine[E | Tick, A],
        *,
        perform: Callable[[A], BlockingCall[E] | None],
        after_step: Callable[[], None],
        on_crash: Callable[[BaseException], None],
        concurrent_calls: int = 1,
    ) -> None:
        """Keep the machine and its callbacks; `start` starts the threads."""
        self._machine = machine
        self._perform = perform
        self._after_step = after_step
        self._on_crash = on_crash
        self._concurrent_calls = concurrent_calls
        self._events: SimpleQueue[E | Tick | None] = SimpleQueue()  # None: stop
        self._calls: SimpleQueue[BlockingCall[E] | None] = SimpleQueue()  # None: one thread ends

    def start(self, name: str) -> None:
        """Start the thread driver's threads; they end with `stop` or with the process."""
        for suffix, loop in (
            ("", self._step_until_stopped),
            *(("-calls", self._make_calls),) * self._concurrent_calls,
        ):
            threading.Thread(
                target=self._run, args=(loop,), name=name + suffix, daemon=True
            ).start()

    def post(self, event: E) -> None:
        """Queue an event for the driven state machine, from any thread; order is kept."""
        self._events.put(event)

    def stop(self) -> None:
        """Begin no further step. A call that blocks ends by itself; its result is dropped."""
        self._events.put(None)
        for _ in range(self._concurrent_calls):
            self._calls.put(None)

    def _run(self, loop: Callable[[], None]) -> None:
        """Run one of the two loops on its thread; what it raises ends all threads of the driver."""
        try:
            loop()
        except BaseException as error:
            self.stop()
            self._on_crash(error)

    def _step_until_stopped(self) -> None:
        """Step the driven state machine for every event or due deadline; the driver's first thread.

        Blocking calls are queued for the threads that run `_make_calls`.
        """
        while True:
            wake_at_ms = self._machine.wake_at()
            wait_s = None if wake_at_ms is None else max(0.0, (wake_at_ms - now().mono_ms) / 1000)
            try:
                event = self._events.get(timeout=wait_s)
            except Empty:
                event = Tick()
            if event is None:
                return
            for action in self._machine.step(event, now()):
                call = self._perform(action)
                if call is not None:
                    self._calls.put(call)
            # After the actions: a snapshot must not show a step whose actions are still to come.
            self._after_step()

    def _make_calls(self) -> None:
        """Make the machine's blocking calls, on the driver's other threads; post the results."""
        while (call := self._calls.get()) is not None:
            self.post(call())
