"""The work of the Delta writers in this process, for which the interpreter waits before it ends.

`query.stop()` may return while foreachBatch's function still runs, on a daemon thread of Py4J. If
the interpreter ends then, the thread is stopped within native code (Arrow's or Delta's), which
aborts the process: exit code 134 from a program whose work was done. The same holds for the daily
cleaning of a table.
"""

import atexit
import logging
import threading
from collections.abc import Iterator
from contextlib import contextmanager

EXIT_WAIT_S = 60.0  # a batch that takes longer is given up, and its records are read again

log = logging.getLogger("apportion.spark")


class WriterWork:
    """Count of the batches and cleanings that are running, on any thread.

    is_closing: the interpreter ends, and waits for what runs. is_closed: it waits no longer, so
    nothing may begin any more.
    """

    def __init__(self) -> None:
        self.is_closing = self.is_closed = False
        self._count = 0
        self._changed = threading.Condition()

    @contextmanager
    def running(self) -> Iterator[None]:
        """Count one more while the block runs; once closed, wait in it for ever."""
        with self._changed:
            # The thread of a batch that Spark has not committed: it is stopped here, and not in
            # native code. A query that goes on replays the batch.
            while self.is_closed:
                self._changed.wait()
            self._count += 1
        try:
            yield
        finally:
            with self._changed:
                self._count -= 1
                self._changed.notify_all()

    def close(self, timeout_s: float) -> bool:
        """Let nothing begin any more, once what runs has ended; return False after `timeout_s`."""
        with self._changed:
            self.is_closing = True
            if self._count:
                log.warning("a Delta writer is still at work: waiting up to %.0f s", timeout_s)
            has_ended = self._changed.wait_for(lambda: not self._count, timeout_s)
            self.is_closed = True
        if not has_ended:
            log.warning("a Delta writer did not end within %.0f s", timeout_s)
        return has_ended


WRITER_WORK = WriterWork()
"""That of all writers of this process."""

atexit.register(WRITER_WORK.close, EXIT_WAIT_S)
