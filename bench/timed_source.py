"""The source of `spark_first_batch.py`: apportion's, and a line on each thing it does and when.

Spark's processes import this module, each for itself, and with it the source. The lines go to the
file that FILE names: nanoseconds of the monotonic clock, which all processes share, the
process, the processor time that it has used so far, and what has happened.
"""

import os
import time
from collections.abc import Iterator
from typing import Any

FILE = "APPORTION_BENCH_TIMELINE"


def stamp(what: str) -> None:
    """Append a line to the timeline."""
    path = os.environ.get(FILE)
    if path:
        line = f"{time.monotonic_ns()} {os.getpid()} {time.process_time_ns()} {what}\n"
        # In one write, which no other process's comes into.
        with open(path, "a") as file:
            file.write(line)


stamp("import: begin")
from apportion.spark.reading.slices import TaskReader  # noqa: E402
from apportion.spark.source import GroupSource, GroupStreamReader  # noqa: E402

stamp("import: end")
CALLS = ("initialOffset", "prepareForTriggerAvailableNow", "latestOffset", "partitions", "stop")


class TimedReader(GroupStreamReader):
    """The stream reader, with a line before and after each call."""

    def __getattribute__(self, name: str) -> Any:
        """Return the method, timed if it is one that Spark calls."""
        found = super().__getattribute__(name)
        return _timed(found, name) if name in CALLS else found

    def __reduce__(self) -> Any:
        """Have an executor read with the class below."""
        return TimedTaskReader, (self._reading_options,)


class TimedTaskReader(TaskReader):
    """What an executor reads with."""

    def read(self, partition: Any) -> Iterator[Any]:
        """Read the rows of one task, with lines at its first and at its last rows."""
        stamp("read: begin")
        name = "read: first rows"
        for batch in super().read(partition):
            if name:
                stamp(name)
                name = ""
            yield batch
        stamp(f"read: end, {_peak_mb()} MB at the most")


class TimedSource(GroupSource):
    """The source `apportion_timed`."""

    @classmethod
    def name(cls) -> str:
        """Return the name for `format(...)`."""
        return "apportion_timed"

    def schema(self) -> Any:
        """Return the columns, after the first look at the cluster."""
        return _timed(super().schema, "schema")()

    def streamReader(self, schema: Any) -> Any:
        """Return the reader, whose calls are timed."""
        stamp("streamReader")
        reader = super().streamReader(schema)
        reader.__class__ = TimedReader
        return reader


def _timed(call: Any, name: str) -> Any:
    # Not functools.wraps: Spark looks at the parameters of latestOffset.
    if name == "latestOffset":

        def latest(start: Any, limit: Any) -> Any:
            stamp(f"{name}: begin")
            end = call(start, limit)
            stamp(f"{name}: end{', unchanged' if end is start else ''}")
            return end

        return latest

    def timed(*arguments: Any) -> Any:
        stamp(f"{name}: begin")
        result = call(*arguments)
        stamp(f"{name}: end")
        return result

    return timed


def _peak_mb() -> int:
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) for line in status if line.startswith("VmHWM")) // 1024
