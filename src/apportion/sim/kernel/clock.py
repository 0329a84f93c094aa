"""Discrete-event simulation: one queue of scheduled calls, random streams, and processes.

The queue alone decides the order: by time, then in the order in which calls were scheduled. Every
random choice comes from a stream that the seed and a purpose name, so that a component which draws
more often does not change what others draw. Therefore one seed is one history, on every machine
with the same Python and C library.
"""

from collections.abc import Callable
from hashlib import blake2b
from heapq import heappop, heappush
from random import Random
from typing import Any

from apportion.machine import Instant
from apportion.rules import Rule, RunningRule
from apportion.sim.kernel.outcome import Violation, violation_of
from apportion.sim.kernel.scenario import Scenario
from apportion.sim.kernel.trace import Trace, TraceLine

EPOCH_MS = 1_700_000_000_000
"""The wall clocks' first reading, until one jumps."""
LINES_PER_HASH = 512  # lines of the trace that are hashed at once

Callback = Callable[..., None]
ScheduledCall = list[Any]
"""`[at_us, number, callback, arguments]`: the number orders calls of one time.

A cancelled call has None as callback.
"""


def cancel_call(entry: ScheduledCall) -> None:
    """Cancel a scheduled call. It stays in the queue and does nothing."""
    entry[2] = None


class Simulation:
    """The simulated time, the calls that are scheduled, and the digest of the trace so far."""

    __slots__ = (
        "_digest",
        "_queue",
        "_queued",
        "_unhashed_lines",
        "now_us",
        "scenario",
        "steps",
        "trace",
    )

    def __init__(self, scenario: Scenario, trace: Trace | None = None) -> None:
        """Begin at time 0 with nothing scheduled.

        trace: gets every line; None keeps their digest alone.
        """
        self.scenario = scenario
        self.trace = trace
        self.now_us = 0
        self.steps = 0
        self._queue: list[ScheduledCall] = []
        self._queued = 0
        self._digest = blake2b(digest_size=16)
        self._unhashed_lines: list[str] = []

    @property
    def now_ms(self) -> int:
        """Simulated milliseconds since the beginning."""
        return self.now_us // 1000

    def random_stream(self, purpose: str) -> Random:
        """Return the random stream of that purpose.

        The same seed and purpose give the same stream.
        """
        return Random(f"{self.scenario.seed} {purpose}")

    def call_later(self, delay_us: int, callback: Callback, *args: Any) -> ScheduledCall:
        """Schedule `callback(*args)` after `delay_us` of simulated time.

        `cancel_call` takes the returned value.
        """
        self._queued += 1
        # A list, so that `cancel_call` can change it in place: removing it from the heap would cost
        # a search.
        entry = [self.now_us + delay_us, self._queued, callback, args]
        heappush(self._queue, entry)
        return entry

    def run(self, until_us: int) -> None:
        """Run every call that is scheduled up to `until_us` of simulated time."""
        queue = self._queue
        while queue and queue[0][0] <= until_us:
            at_us, _, callback, args = heappop(queue)
            if callback is not None:
                self.now_us = at_us
                self.steps += 1
                callback(*args)
        self.now_us = max(self.now_us, until_us)

    def violation_or_none(self, play: Callable[[], None]) -> Violation | None:
        """Play a history; return the first law that broke, or None.

        A machine that raises breaks the law no-defect.
        """
        try:
            play()
        except Exception as error:
            broken = violation_of(error, self.now_ms)
            self.write_trace("world", f"law broken: {broken}")
            return broken
        return None

    def write_trace(self, process: str, text: str, key: str | None = None) -> None:
        """Add a line to the simulation's trace.

        The digest covers its text, so the wording of lines is fixed.
        key: stands for the process in the digest; None: its name.
        """
        # Integers and fixed words only: a float or an object's repr would tie the digest to a
        # machine or to a class name.
        self._unhashed_lines.append(f"{self.now_us} {key or process} {text}\n")
        if len(self._unhashed_lines) >= LINES_PER_HASH:
            self._settle()
        if self.trace is not None:
            self.trace.lines.append(TraceLine(self.now_us, process, text))

    def digest(self, *rest: bytes) -> str:
        """Return the hash of the simulation's trace so far, followed by `rest`, as hex digits."""
        self._settle()
        whole = self._digest.copy()
        for part in rest:
            whole.update(part)
        return whole.hexdigest()

    def _settle(self) -> None:
        self._digest.update("".join(self._unhashed_lines).encode())
        self._unhashed_lines.clear()


class SimulatedProcess:
    """A process with its own clocks. It may be paused, may die, and may be started again.

    Calls that were scheduled for an earlier incarnation, or that come due while the process is
    down, are dropped. Calls that come due while it is paused run when it resumes.

    incarnation: 1 after the first start, and one more with each. The monotonic clock starts
    anywhere and runs up to 0.2 % fast or slow, so no test passes because two processes share a
    clock. The wall clock may jump.
    """

    def __init__(self, simulation: Simulation, name: str, key: str | None = None) -> None:
        """Create a process that does not run yet, with clocks of its own.

        The speed and the origin of the clocks are drawn from the process's random stream.
        key: the name by which seeds know the process, in random streams and in the digest; None:
        `name`. A process that gets another name keeps it, so that every seed keeps its history.
        """
        self.simulation = simulation
        self.name = name
        self.key = key or name
        self.rng = simulation.random_stream(self.key)
        self.incarnation = 0
        self.is_up = False
        self.is_paused = False
        self._deferred: list[tuple[int, Callback, tuple[Any, ...]]] = []
        # of the monotonic clock, in millionths of real speed
        self._speed = 1_000_000 + self.rng.randint(-2_000, 2_000)
        self._origin_ms = self.rng.randint(0, 1_000_000_000)
        self._wall_ms = EPOCH_MS + self.rng.randint(-500, 500)

    def now(self) -> Instant:
        """Return both clocks of this process."""
        # Integer arithmetic: a float would round differently at large times.
        passed_ms = self.simulation.now_us * self._speed // 1_000_000_000
        return Instant(self._origin_ms + passed_ms, self._wall_ms + passed_ms)

    def mono_ms(self) -> int:
        """Return the monotonic clock of this process."""
        return self._origin_ms + self.simulation.now_us * self._speed // 1_000_000_000

    def start_incarnation(self) -> None:
        """Start the process: begin an incarnation of it, not of a group membership."""
        self.incarnation += 1
        self.is_up = True
        self.is_paused = False
        self._deferred.clear()

    def end_incarnation(self) -> None:
        """End this incarnation of the process; calls that waited for it are dropped."""
        self.is_up = False
        self._deferred.clear()

    def deliver(self, incarnation: int, callback: Callback, *args: Any) -> None:
        """Run `callback(*args)` now, or when the process resumes; never after that incarnation."""
        if incarnation != self.incarnation or not self.is_up:
            return
        if self.is_paused:
            # As a stopped process finds its sockets and timers when it continues: everything at
            # once, in order.
            self._deferred.append((incarnation, callback, args))
        else:
            callback(*args)

    def call_later(self, delay_us: int, callback: Callback, *args: Any) -> ScheduledCall:
        """Schedule `callback(*args)` in this incarnation of the process, for `cancel_call`."""
        return self.simulation.call_later(delay_us, self.deliver, self.incarnation, callback, *args)

    def pause(self, duration_us: int) -> None:
        """Stop the process for `duration_us`, as SIGSTOP or a long garbage collection."""
        if self.is_up and not self.is_paused:
            self.is_paused = True
            self.simulation.write_trace(self.name, f"stands still for {duration_us // 1000} ms")
            self.simulation.call_later(duration_us, self.resume, self.incarnation)

    def resume(self, incarnation: int) -> None:
        """Resume a paused process and run the calls that waited; ignore another incarnation."""
        if incarnation == self.incarnation and self.is_paused:
            self.is_paused = False
            deferred, self._deferred = self._deferred, []
            # Through `deliver` again: one of these calls may pause or end the process.
            for of_incarnation, callback, args in deferred:
                self.deliver(of_incarnation, callback, *args)

    def shift_wall_clock(self, by_ms: int) -> None:
        """Set the process's wall clock forward; backward where `by_ms` is negative."""
        self._wall_ms += by_ms

    def microseconds_until(self, mono_ms: int) -> int:
        """Return the simulated time until the process's clock reads `mono_ms`, at least 1 µs."""
        return max(1, (mono_ms - self.mono_ms()) * 1_000_000_000 // self._speed)


class Timer:
    """One timer of a process. It never fires later than the earliest moment it was set to."""

    __slots__ = ("_at_ms", "_callback", "_process")

    def __init__(self, process: SimulatedProcess, callback: Callable[[], None]) -> None:
        self._process = process
        self._callback = callback
        self._at_ms: int | None = None

    def set(self, mono_ms: int | None) -> None:
        """Fire at `mono_ms` of the process's clock, unless set earlier; None changes nothing."""
        if mono_ms is not None and (self._at_ms is None or mono_ms < self._at_ms):
            self._at_ms = mono_ms
            self._process.call_later(
                self._process.microseconds_until(mono_ms), self._on_timer, mono_ms
            )

    def _on_timer(self, mono_ms: int) -> None:
        # Set to an earlier time since: that call has fired or will, and this one is out of date.
        if mono_ms == self._at_ms:
            self._at_ms = None
            self._callback()


Script = Rule[Any]
"""The work of a process as a generator that yields effects: a request, a sleep."""


class ScriptRunner:
    """Runs one script within one incarnation of its process.

    perform: starts an effect and calls `resume` once, with the turn that it was given. A result of
    an earlier turn is ignored, so a timeout and a late answer cannot both resume the script.
    """

    __slots__ = ("_is_cancelled", "_perform", "_running", "_script", "_turn")

    def __init__(self, script: Script, perform: Callable[["ScriptRunner", Any, int], None]) -> None:
        self._script = script
        self._running: RunningRule[Any] | None = None
        self._perform = perform
        self._turn = 0
        self._is_cancelled = False

    @property
    def is_finished(self) -> bool:
        """Return whether the script has ended or was cancelled."""
        return self._is_cancelled or (self._running is not None and self._running.is_finished)

    def resume(self, turn: int, answer: Any = None) -> None:
        """Send the result of that turn's effect to the script; ignore it if the turn is over."""
        if turn != self._turn or self.is_finished:
            return
        # Before the effect starts, which may resume the script at once.
        self._turn += 1
        if self._running is None:
            self._running = RunningRule(self._script)
        else:
            self._running.resume(answer)
        if not self._running.is_finished:
            self._perform(self, self._running.query, self._turn)

    def cancel(self) -> None:
        """Close the script where it is."""
        if not self._is_cancelled:
            self._is_cancelled = True
            self._script.close()
