"""Simulated time: one queue of what happens next, dice for everyone, and processes that live, stand still and die.

The only order is the queue's: time first, then the order in which things were put there. Every random choice comes from dice that
the seed and a purpose name, so that who throws more often does not change what others throw.
"""

from collections.abc import Callable, Generator
from hashlib import blake2b
from heapq import heappop, heappush
from random import Random
from typing import Any

from apportion.machine import Instant
from apportion.sim.kernel.scenario import Scenario
from apportion.sim.kernel.trace import Trace, TraceLine

EPOCH_MS = 1_700_000_000_000
"""What wall clocks say at the beginning, until one jumps."""
LINES_PER_HASH = 512  # so many go into the digest at once

Callback = Callable[..., None]
ScheduledCall = list[Any]
"""One thing that will happen: when, in which order of those at that moment, what (None: it was called off), and with what."""


def cancel(entry: ScheduledCall) -> None:
    """What `entry` says does not happen."""
    entry[2] = None


class Simulation:
    """What happens next, and the memory of what happened."""

    __slots__ = ("_digest", "_queue", "_queued", "_unhashed_lines", "now_us", "scenario", "steps", "trace")

    def __init__(self, scenario: Scenario, trace: Trace | None = None) -> None:
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
        """Milliseconds since the beginning."""
        return self.now_us // 1000

    def random_stream(self, purpose: str) -> Random:
        """Dice that nobody else throws."""
        return Random(f"{self.scenario.seed} {purpose}")

    def call_later(self, delay_us: int, callback: Callback, *args: Any) -> ScheduledCall:
        """`call(*what)` happens when `delay_us` has passed, unless the entry that this returns is called off."""
        self._queued += 1
        entry = [self.now_us + delay_us, self._queued, callback, args]
        heappush(self._queue, entry)
        return entry

    def run(self, until_us: int) -> None:
        """Everything up to `until_us` has happened."""
        queue = self._queue
        while queue and queue[0][0] <= until_us:
            at_us, _, callback, args = heappop(queue)
            if callback is not None:
                self.now_us = at_us
                self.steps += 1
                callback(*args)
        self.now_us = max(self.now_us, until_us)

    def write_trace(self, who: str, args: str) -> None:
        """The history has this line."""
        self._unhashed_lines.append(f"{self.now_us} {who} {args}\n")
        if len(self._unhashed_lines) >= LINES_PER_HASH:
            self._settle()
        if self.trace is not None:
            self.trace.lines.append(TraceLine(self.now_us, who, args))

    def digest(self, *rest: bytes) -> str:
        """One number for the history so far, and for `rest`."""
        self._settle()
        whole = self._digest.copy()
        for part in rest:
            whole.update(part)
        return whole.hexdigest()

    def _settle(self) -> None:
        self._digest.update("".join(self._unhashed_lines).encode())
        self._unhashed_lines.clear()


class SimulatedProcess:
    """A process with clocks of its own. What was meant for an earlier life of it, or while it is down, happens to nobody.

    life: grows by one with each start. The monotonic clock begins anywhere and runs a little fast or slow; the wall clock may jump.
    """

    def __init__(self, simulation: Simulation, name: str) -> None:
        self.simulation = simulation
        self.name = name
        self.rng = simulation.random_stream(name)
        self.incarnation = 0
        self.is_up = False
        self.is_paused = False
        self._deferred: list[tuple[int, Callback, tuple[Any, ...]]] = []
        self._speed = 1_000_000 + self.rng.randint(-2_000, 2_000)  # of the monotonic clock: picoseconds in a microsecond
        self._origin_ms = self.rng.randint(0, 1_000_000_000)
        self._wall_ms = EPOCH_MS + self.rng.randint(-500, 500)

    def now(self) -> Instant:
        """Both clocks of this process."""
        passed_ms = self.simulation.now_us * self._speed // 1_000_000_000
        return Instant(self._origin_ms + passed_ms, self._wall_ms + passed_ms)

    def mono_ms(self) -> int:
        """The monotonic clock of this process."""
        return self._origin_ms + self.simulation.now_us * self._speed // 1_000_000_000

    def start_incarnation(self) -> None:
        """The process lives a new life."""
        self.incarnation += 1
        self.is_up = True
        self.is_paused = False
        self._deferred.clear()

    def end_incarnation(self) -> None:
        """The process is gone, with all that waited for it."""
        self.is_up = False
        self._deferred.clear()

    def deliver(self, incarnation: int, callback: Callback, *args: Any) -> None:
        """`call(*what)` happens in that life of the process: now, or when it goes on."""
        if incarnation != self.incarnation or not self.is_up:
            return
        if self.is_paused:
            self._deferred.append((incarnation, callback, args))
        else:
            callback(*args)

    def call_later(self, delay_us: int, callback: Callback, *args: Any) -> ScheduledCall:
        """`call(*what)` happens in this life when `delay_us` has passed, unless it is called off."""
        return self.simulation.call_later(delay_us, self.deliver, self.incarnation, callback, *args)

    def pause(self, span_us: int) -> None:
        """The process stands still for so long; what reaches it meanwhile waits."""
        if self.is_up and not self.is_paused:
            self.is_paused = True
            self.simulation.write_trace(self.name, f"stands still for {span_us // 1000} ms")
            self.simulation.call_later(span_us, self.resume, self.incarnation)

    def resume(self, incarnation: int) -> None:
        """The process goes on, if that life of it stands still."""
        if incarnation == self.incarnation and self.is_paused:
            self.is_paused = False
            deferred, self._deferred = self._deferred, []
            for of_incarnation, callback, args in deferred:
                self.deliver(of_incarnation, callback, *args)

    def shift_wall_clock(self, by_ms: int) -> None:
        """The wall clock is that much later."""
        self._wall_ms += by_ms

    def microseconds_until(self, mono_ms: int) -> int:
        """Simulated microseconds from now until this process's monotonic clock says `mono_ms`; at least one."""
        return max(1, (mono_ms - self.mono_ms()) * 1_000_000_000 // self._speed)


class Timer:
    """One timer of a process, set to the next moment at which something wants to be looked at."""

    __slots__ = ("_at_ms", "_callback", "_process")

    def __init__(self, process: SimulatedProcess, callback: Callable[[], None]) -> None:
        self._process = process
        self._callback = callback
        self._at_ms: int | None = None

    def set(self, mono_ms: int | None) -> None:
        """It rings not later than at `mono_ms` of the process's clock (None: it need not ring)."""
        if mono_ms is not None and (self._at_ms is None or mono_ms < self._at_ms):
            self._at_ms = mono_ms
            self._process.call_later(self._process.microseconds_until(mono_ms), self._on_timer, mono_ms)

    def _on_timer(self, mono_ms: int) -> None:
        if mono_ms == self._at_ms:
            self._at_ms = None
            self._callback()


Script = Generator[Any, Any, Any]
"""What a process does, told in order: it yields what it waits for."""


class ScriptRunner:
    """A story that is being told in one life of a process: each answer takes it to its next question.

    answer: puts a question to whoever knows; it calls `resume` or `fails`, once.
    """

    __slots__ = ("_perform", "_script", "_turn")

    def __init__(self, script: Script, perform: Callable[["ScriptRunner", Any, int], None]) -> None:
        self._script: Script | None = script
        self._perform = perform
        self._turn = 0

    @property
    def is_finished(self) -> bool:
        """The story has ended, or was broken off."""
        return self._script is None

    def resume(self, turn: int, answer: Any = None) -> None:
        """The question of that turn has this answer; nothing happens if it was answered before, or the story was broken off."""
        if turn == self._turn and self._script is not None:
            self._next(self._script.send, answer)

    def fails(self, turn: int, error: Exception) -> None:
        """The question of that turn is answered by an error."""
        if turn == self._turn and self._script is not None:
            self._next(self._script.throw, error)

    def cancel(self) -> None:
        """The story is not told any further."""
        script, self._script = self._script, None
        if script is not None:
            script.close()

    def _next(self, step: Callable[[Any], Any], args: Any) -> None:
        self._turn += 1
        try:
            effect = step(args)
        except StopIteration:
            self._script = None
            return
        self._perform(self, effect, self._turn)
