"""Drives a Machine on a daemon thread, and its blocking errands on others.

`ThreadDriver.post` hands an event over from any thread. The first thread steps the machine and does
at once what need not wait; an action that waits for somebody else becomes an errand, whose outcome
is the next event. So a machine's own deadlines are kept while an errand blocks. Nothing here knows
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
    """A machine that lives on a thread.

    act: does one action on the machine's thread and returns None, or an errand that waits for
    somebody and returns an event.
    stepped: called on the machine's thread after every step, its actions done; the place to publish
    a snapshot.
    crashed: called once if a step, an action or an errand raised: that is a defect, and the threads
    have ended.
    errands: how many of them may wait at the same time.
    """

    def __init__(
        self,
        machine: Machine[E | Tick, A],
        act: Callable[[A], BlockingCall[E] | None],
        stepped: Callable[[], None],
        crashed: Callable[[BaseException], None],
        errands: int = 1,
    ) -> None:
        self._machine = machine
        self._act = act
        self._stepped = stepped
        self._crashed = crashed
        self._events: SimpleQueue[E | Tick | None] = SimpleQueue()
        self._errands: SimpleQueue[BlockingCall[E] | None] = SimpleQueue()
        self._threads: list[threading.Thread] = []
        self._runners = errands

    def start(self, name: str) -> None:
        """The threads run; they end with the process or with `stop`."""
        for role, loop in (
            ("", self._step_until_stopped),
            *(("-errands", self._run_errands),) * self._runners,
        ):
            thread = threading.Thread(
                target=self._guarded, args=(loop,), name=name + role, daemon=True
            )
            self._threads.append(thread)
            thread.start()

    def post(self, event: E) -> None:
        """The machine will be stepped with `event`, after what was posted before it."""
        self._events.put(event)

    def stop(self) -> None:
        """No further step begins. An errand under way ends by itself; its outcome is dropped."""
        self._events.put(None)
        for _ in range(self._runners):
            self._errands.put(None)

    def _guarded(self, loop: Callable[[], None]) -> None:
        try:
            loop()
        except BaseException as error:
            self.stop()
            self._crashed(error)

    def _step_until_stopped(self) -> None:
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
                errand = self._act(action)
                if errand is not None:
                    self._errands.put(errand)
            self._stepped()

    def _run_errands(self) -> None:
        while (errand := self._errands.get()) is not None:
            self.post(errand())
