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
from apportion.sim.kernel.trace import Chronicle, Line

EPOCH_MS = 1_700_000_000_000
"""What wall clocks say at the beginning, until one jumps."""
SAYINGS = 512  # so many go into the digest at once

Call = Callable[..., None]
Entry = list[Any]
"""One thing that will happen: when, in which order of those at that moment, what (None: it was called off), and with what."""


def call_off(entry: Entry) -> None:
    """What `entry` says does not happen."""
    entry[2] = None


class World:
    """What happens next, and the memory of what happened."""

    __slots__ = ("_digest", "_queue", "_queued", "_sayings", "chronicle", "now_us", "scenario", "steps")

    def __init__(self, scenario: Scenario, chronicle: Chronicle | None = None) -> None:
        self.scenario = scenario
        self.chronicle = chronicle
        self.now_us = 0
        self.steps = 0
        self._queue: list[Entry] = []
        self._queued = 0
        self._digest = blake2b(digest_size=16)
        self._sayings: list[str] = []

    @property
    def now_ms(self) -> int:
        """Milliseconds since the beginning."""
        return self.now_us // 1000

    def dice(self, purpose: str) -> Random:
        """Dice that nobody else throws."""
        return Random(f"{self.scenario.seed} {purpose}")

    def after(self, delay_us: int, call: Call, *what: Any) -> Entry:
        """`call(*what)` happens when `delay_us` has passed, unless the entry that this returns is called off."""
        self._queued += 1
        entry = [self.now_us + delay_us, self._queued, call, what]
        heappush(self._queue, entry)
        return entry

    def run(self, until_us: int) -> None:
        """Everything up to `until_us` has happened."""
        queue = self._queue
        while queue and queue[0][0] <= until_us:
            at_us, _, call, what = heappop(queue)
            if call is not None:
                self.now_us = at_us
                self.steps += 1
                call(*what)
        self.now_us = max(self.now_us, until_us)

    def say(self, who: str, what: str) -> None:
        """The history has this line."""
        self._sayings.append(f"{self.now_us} {who} {what}\n")
        if len(self._sayings) >= SAYINGS:
            self._settle()
        if self.chronicle is not None:
            self.chronicle.lines.append(Line(self.now_us, who, what))

    def digest(self, *rest: bytes) -> str:
        """One number for the history so far, and for `rest`."""
        self._settle()
        whole = self._digest.copy()
        for part in rest:
            whole.update(part)
        return whole.hexdigest()

    def _settle(self) -> None:
        self._digest.update("".join(self._sayings).encode())
        self._sayings.clear()


class Process:
    """A process with clocks of its own. What was meant for an earlier life of it, or while it is down, happens to nobody.

    life: grows by one with each start. The monotonic clock begins anywhere and runs a little fast or slow; the wall clock may jump.
    """

    def __init__(self, world: World, name: str) -> None:
        self.world = world
        self.name = name
        self.dice = world.dice(name)
        self.life = 0
        self.is_up = False
        self.is_paused = False
        self._missed: list[tuple[int, Call, tuple[Any, ...]]] = []
        self._speed = 1_000_000 + self.dice.randint(-2_000, 2_000)  # of the monotonic clock: picoseconds in a microsecond
        self._origin_ms = self.dice.randint(0, 1_000_000_000)
        self._wall_ms = EPOCH_MS + self.dice.randint(-500, 500)

    def now(self) -> Instant:
        """Both clocks of this process."""
        passed_ms = self.world.now_us * self._speed // 1_000_000_000
        return Instant(self._origin_ms + passed_ms, self._wall_ms + passed_ms)

    def mono_ms(self) -> int:
        """The monotonic clock of this process."""
        return self._origin_ms + self.world.now_us * self._speed // 1_000_000_000

    def starts(self) -> None:
        """The process lives a new life."""
        self.life += 1
        self.is_up = True
        self.is_paused = False
        self._missed.clear()

    def ends(self) -> None:
        """The process is gone, with all that waited for it."""
        self.is_up = False
        self._missed.clear()

    def hear(self, life: int, call: Call, *what: Any) -> None:
        """`call(*what)` happens in that life of the process: now, or when it goes on."""
        if life != self.life or not self.is_up:
            return
        if self.is_paused:
            self._missed.append((life, call, what))
        else:
            call(*what)

    def later(self, delay_us: int, call: Call, *what: Any) -> Entry:
        """`call(*what)` happens in this life when `delay_us` has passed, unless it is called off."""
        return self.world.after(delay_us, self.hear, self.life, call, *what)

    def pause(self, span_us: int) -> None:
        """The process stands still for so long; what reaches it meanwhile waits."""
        if self.is_up and not self.is_paused:
            self.is_paused = True
            self.world.say(self.name, f"stands still for {span_us // 1000} ms")
            self.world.after(span_us, self.resume, self.life)

    def resume(self, life: int) -> None:
        """The process goes on, if that life of it stands still."""
        if life == self.life and self.is_paused:
            self.is_paused = False
            missed, self._missed = self._missed, []
            for each_life, call, what in missed:
                self.hear(each_life, call, *what)

    def set_wall_clock(self, by_ms: int) -> None:
        """The wall clock is that much later."""
        self._wall_ms += by_ms

    def until_us(self, mono_ms: int) -> int:
        """Simulated microseconds from now until this process's monotonic clock says `mono_ms`; at least one."""
        return max(1, (mono_ms - self.mono_ms()) * 1_000_000_000 // self._speed)


class Alarm:
    """One timer of a process, set to the next moment at which something wants to be looked at."""

    __slots__ = ("_at_ms", "_process", "_ring")

    def __init__(self, process: Process, ring: Callable[[], None]) -> None:
        self._process = process
        self._ring = ring
        self._at_ms: int | None = None

    def set(self, mono_ms: int | None) -> None:
        """It rings not later than at `mono_ms` of the process's clock (None: it need not ring)."""
        if mono_ms is not None and (self._at_ms is None or mono_ms < self._at_ms):
            self._at_ms = mono_ms
            self._process.later(self._process.until_us(mono_ms), self._rings, mono_ms)

    def _rings(self, mono_ms: int) -> None:
        if mono_ms == self._at_ms:
            self._at_ms = None
            self._ring()


Story = Generator[Any, Any, Any]
"""What a process does, told in order: it yields what it waits for."""


class Telling:
    """A story that is being told in one life of a process: each answer takes it to its next question.

    answer: puts a question to whoever knows; it calls `goes_on` or `fails`, once.
    """

    __slots__ = ("_answer", "_story", "_turn")

    def __init__(self, story: Story, answer: Callable[["Telling", Any, int], None]) -> None:
        self._story: Story | None = story
        self._answer = answer
        self._turn = 0

    @property
    def is_over(self) -> bool:
        """The story has ended, or was broken off."""
        return self._story is None

    def goes_on(self, turn: int, answer: Any = None) -> None:
        """The question of that turn has this answer; nothing happens if it was answered before, or the story was broken off."""
        if turn == self._turn and self._story is not None:
            self._next(self._story.send, answer)

    def fails(self, turn: int, error: Exception) -> None:
        """The question of that turn is answered by an error."""
        if turn == self._turn and self._story is not None:
            self._next(self._story.throw, error)

    def breaks_off(self) -> None:
        """The story is not told any further."""
        story, self._story = self._story, None
        if story is not None:
            story.close()

    def _next(self, step: Callable[[Any], Any], what: Any) -> None:
        self._turn += 1
        try:
            question = step(what)
        except StopIteration:
            self._story = None
            return
        self._answer(self, question, self._turn)
