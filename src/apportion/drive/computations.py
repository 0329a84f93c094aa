"""The threads that run the computations of a machine.

Our own computations end by themselves, so they run one after the other on one thread. A foreign one
calls code that may never return, and a thread cannot be ended from outside. So each has a thread of
its own, of a small number. One that is abandoned keeps its thread until it returns; once all
threads are lost so, further computations fail at once, until one of them returns.
"""

import threading
from collections import deque
from collections.abc import Callable
from queue import SimpleQueue

from apportion.drive.interrupts import interrupt_program
from apportion.errors import with_foreign_line
from apportion.machine import Computation, ComputationEnd, Computed, ComputeFailed
from apportion.readable import foreign_text, shortened

FOREIGN_THREADS = 8
MOST_CHARACTERS = 400
"""How much of an exception is told, so that no log line cuts off where it was raised."""


class ComputationThread:
    """Runs computations in the order in which they were begun, on a daemon thread.

    ended: gets the event that a computation ends with; called on that thread. The thread starts
    with the first computation. The end of the process does not wait for it, as it changes nothing.
    """

    def __init__(self, ended: Callable[[ComputationEnd], None]) -> None:
        """Keep the callback; no thread is started yet."""
        self._ended = ended
        self._computations: SimpleQueue[Computation | None] = SimpleQueue()  # None: stop
        self._is_started = self._is_stopped = False

    def begin(self, computation: Computation) -> None:
        """Run the computation when those before it have ended."""
        self._computations.put(computation)
        if not self._is_started:
            self._is_started = True
            threading.Thread(target=self._run_all, name="apportion-compute", daemon=True).start()

    def stop(self) -> None:
        """Begin no further computation; the one that runs ends by itself."""
        self._is_stopped = True
        self._computations.put(None)

    def _run_all(self) -> None:
        while (computation := self._computations.get()) is not None and not self._is_stopped:
            if (end := _run(computation)) is not None:
                self._ended(end)


class ForeignComputations:
    """Runs foreign computations, each on a daemon thread of its own.

    ended: as of `ComputationThread`. The other methods are called on one thread.
    """

    def __init__(self, ended: Callable[[ComputationEnd], None]) -> None:
        """Keep the callback; no thread is started yet."""
        self._ended = ended
        self._lock = threading.Lock()
        self._waiting: deque[Computation] = deque()
        self._running: list[Computation] = []
        self._lost: list[Computation] = []  # abandoned, and not returned yet
        self._is_stopped = False

    def begin(self, computation: Computation) -> None:
        """Run the computation now, or as soon as one of the threads is free."""
        with self._lock:
            is_refused = len(self._lost) >= FOREIGN_THREADS
            if not is_refused:
                self._waiting.append(computation)
                self._start_threads()
        if is_refused:
            why = f"all {FOREIGN_THREADS} threads are kept by calls that have not returned"
            self._ended(ComputeFailed(computation, why))

    def abandon(self, computation: Computation) -> None:
        """Forget the computation if it has not begun; otherwise its thread counts as lost."""
        with self._lock:
            if computation in self._waiting:
                self._waiting.remove(computation)
            elif computation in self._running:
                self._running.remove(computation)
                self._lost.append(computation)

    def stop(self) -> None:
        """Begin no further computation; those that run end by themselves, or never."""
        with self._lock:
            self._is_stopped = True
            self._waiting.clear()

    def _start_threads(self) -> None:
        """Give each waiting computation a thread while there are any. The lock is held."""
        while self._waiting and len(self._running) + len(self._lost) < FOREIGN_THREADS:
            computation = self._waiting.popleft()
            self._running.append(computation)
            threading.Thread(
                target=self._run_one, args=(computation,), name="apportion-foreign", daemon=True
            ).start()

    def _run_one(self, computation: Computation) -> None:
        end = _run(computation)
        with self._lock:
            is_lost = computation in self._lost
            (self._lost if is_lost else self._running).remove(computation)
            if not self._is_stopped:
                self._start_threads()
        # Nobody waits for what was abandoned.
        if not is_lost and end is not None:
            self._ended(end)


def _run(computation: Computation) -> ComputationEnd | None:
    """Run the computation; an error of any kind is its end, too, and is the machine's to judge.

    None if it ends the program.
    """
    try:
        return Computed(computation, computation.run())
    except KeyboardInterrupt:
        interrupt_program()
        return None
    # Any: foreign code may also raise SystemExit, which would end the thread in silence.
    except BaseException as error:
        why = shortened(foreign_text(error), MOST_CHARACTERS)
        return ComputeFailed(computation, with_foreign_line(why, error))
