"""A thread that runs the computations of a machine, one after the other."""

import threading
from collections.abc import Callable
from queue import SimpleQueue

from apportion.machine import Computation, ComputationEnd, Computed, ComputeFailed


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
            self._ended(_run(computation))


def _run(computation: Computation) -> ComputationEnd:
    """Run the computation; an error of any kind is its end, too, and is the machine's to judge."""
    try:
        return Computed(computation, computation.run())
    except Exception as error:
        return ComputeFailed(computation, repr(error))
