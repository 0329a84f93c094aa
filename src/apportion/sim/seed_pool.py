"""Plays many seeds in parallel processes; a process that dies fails its seed and no other."""

import multiprocessing
import os
import signal
import threading
from collections.abc import Generator, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from itertools import islice
from multiprocessing.connection import Connection, wait
from time import monotonic
from typing import Any, NamedTuple, Protocol

from apportion.sim.kernel.outcome import Outcome, Violation
from apportion.sim.kernel.scenario import Scenario, draw_scenario
from apportion.sim.kernel.trace import Trace
from apportion.sim.play import play


class PlayScenario(Protocol):
    """The type of `apportion.sim.play.play`."""

    def __call__(self, scenario: Scenario, trace: Trace | None = None, /) -> Outcome:
        """Play that scenario."""


LAW_NO_DEFECT = "no-defect"  # the law that breaks where the simulator itself raises
LAW_PROCESS_LIVES = "process-lives"  # ... where the process that played the seed died
LAW_ENDS = "ends"  # ... and where it still played it after SEED_TIMEOUT_S
SEED_TIMEOUT_S = 300  # real seconds; a seed of the usual size takes a fraction of one
JOIN_TIMEOUT_S = 5


class NoProcess(RuntimeError):
    """No process could be started.

    The text is one sentence; stderr has what the process wrote.
    """


@dataclass(frozen=True)
class Draw:
    """Rules by which the scenario of a seed is drawn.

    kinds: the faults to choose from (None: all). sizes: fixed sizes.
    """

    kinds: tuple[str, ...] | None = None
    sizes: dict[str, Any] = field(default_factory=dict)

    def scenario(self, seed: int) -> Scenario:
        """Return the scenario of that seed. Raises ScenarioRefused if it is impossible."""
        return draw_scenario(seed, kinds=self.kinds, **self.sizes)


class RunTotals(NamedTuple):
    """Totals over several histories; of the two longest times, the maximum."""

    seeds: int = 0
    steps: int = 0
    simulated_ms: int = 0
    rebalances: int = 0
    slowest_convergence_ms: int = 0
    longest_unowned_ms: int = 0
    rows: int = 0
    commits: int = 0
    crashes: int = 0

    def plus(self, outcome: Outcome) -> "RunTotals":
        """Return the totals with the history of one more seed."""
        return RunTotals(
            self.seeds + 1,
            self.steps + outcome.steps,
            self.simulated_ms + outcome.simulated_ms,
            self.rebalances + outcome.rebalances,
            max(self.slowest_convergence_ms, outcome.slowest_convergence_ms),
            max(self.longest_unowned_ms, outcome.longest_unowned_ms),
            self.rows + outcome.rows,
            self.commits + outcome.commits,
            self.crashes + outcome.crashes,
        )

    def __str__(self) -> str:
        """Return the totals as one line: steps, rebalances, crashes, rows, slowest times."""
        return (
            f"{self.steps:,} steps, {self.simulated_ms // 60_000:,} simulated minutes, "
            f"{self.rebalances:,} rebalances, "
            f"{self.crashes:,} broker crashes, {self.rows:,} rows, slowest convergence "
            f"{self.slowest_convergence_ms / 1000:.1f} s, "
            f"longest unowned partition {self.longest_unowned_ms / 1000:.1f} s"
        )


def unplayed_outcome(seed: int, law: str, why: str) -> Outcome:
    """Return the outcome of a seed whose simulation was not played to its end, as a broken law."""
    return Outcome(seed, 0, 0, 0, 0, 0, 0, 0, 0, "", Violation(law, 0, why))


def play_seed(seed: int, draw: Draw, play: PlayScenario = play) -> Outcome:
    """Play the scenario that is drawn from one seed, and return its outcome.

    Called in a process of the pool, and by tasks of a Spark job (`spark/seeds.py`). An exception of
    the code under test or of the simulator itself breaks LAW_NO_DEFECT, so that other seeds go on.
    """
    try:
        return play(draw.scenario(seed))
    except Exception as error:
        return unplayed_outcome(seed, LAW_NO_DEFECT, f"{type(error).__name__}: {error}")


def usable_cores() -> int:
    """Return how many processors this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def outcomes(
    seeds: Iterable[int],
    jobs: int,
    draw: Draw,
    play: PlayScenario = play,
    *,
    seed_timeout_s: float = SEED_TIMEOUT_S,
) -> Generator[Outcome, None, None]:
    """Yield the outcome of each seed, as soon as it is known.

    Seeds begin in the order given. When the generator is closed, the processes are ended. A process
    that dies costs the one seed that it played, which breaks LAW_PROCESS_LIVES; one that plays a
    seed for longer than `seed_timeout_s` is ended, and the seed breaks LAW_ENDS. play: must be
    importable by name in another process. Raises NoProcess where none can start.
    """
    waiting = iter(seeds)
    processes: dict[Connection, _SeedProcess] = {}
    try:
        for seed in islice(waiting, jobs):
            player = _SeedProcess(draw, play, seed, seed_timeout_s)
            processes[player.pipe] = player
        while processes:
            ready = wait(
                list(processes),
                timeout=min(player.until_s for player in processes.values()) - monotonic(),
            )
            late = [
                pipe
                for pipe, player in processes.items()
                if player.until_s <= monotonic() and pipe not in ready
            ]
            for pipe in (*ready, *late):
                player = processes[pipe]  # type: ignore[index]
                outcome = player.give_up_seed() if pipe in late else player.receive_or_none()
                if outcome is None:
                    continue
                following = next(waiting, None)
                if following is not None and player.is_alive:
                    player.assign_seed(following)
                else:
                    player.end()
                    del processes[player.pipe]
                    if following is not None:
                        player = _SeedProcess(draw, play, following, seed_timeout_s)
                        processes[player.pipe] = player
                yield outcome
    finally:
        for player in processes.values():
            player.end()


class _SeedProcess:
    """A process that plays one seed after the other."""

    def __init__(self, draw: Draw, play: PlayScenario, seed: int, seed_timeout_s: float) -> None:
        """Start a process that plays seeds, and give it the first one."""
        spawn = multiprocessing.get_context("spawn")
        self.pipe, theirs = spawn.Pipe()
        self.is_alive = True
        self._started = False
        self._seed_timeout_s = seed_timeout_s
        self._process = spawn.Process(
            target=_play_seeds_from, args=(theirs, draw, play), daemon=True
        )
        # Ctrl-C goes to every process of a terminal; this one's parent ends it
        with _interrupts_ignored():
            self._process.start()
        theirs.close()
        self.assign_seed(seed)

    def assign_seed(self, seed: int) -> None:
        """Give the process a seed to simulate; a dead process shows in `receive_or_none`."""
        self._seed = seed
        self.until_s = monotonic() + (self._seed_timeout_s if self._started else SEED_TIMEOUT_S)
        with suppress(BrokenPipeError, ConnectionResetError):
            self.pipe.send(seed)

    def receive_or_none(self) -> Outcome | None:
        """Wait for the seed's outcome, or the process's death, and return it.

        Returns None for the first message, which says that the process has started.
        """
        try:
            outcome: Outcome | None = self.pipe.recv()
        except (EOFError, OSError):
            self._process.join(JOIN_TIMEOUT_S)
            if not self._started:
                raise NoProcess(
                    f"no process could be started to play in: it {self._end()}."
                ) from None
            self.is_alive = False
            return unplayed_outcome(
                self._seed, LAW_PROCESS_LIVES, f"the process that played it {self._end()}"
            )
        if not self._started:
            self._started = True
            self.until_s = monotonic() + self._seed_timeout_s
        return outcome

    def give_up_seed(self) -> Outcome:
        """Give up a seed that takes too long, and the process with it; return the outcome."""
        self.is_alive = False
        return unplayed_outcome(
            self._seed,
            LAW_ENDS,
            f"it was still being played after {self._seed_timeout_s:g} real seconds",
        )

    def end(self) -> None:
        """End the process of the pool, which has no seed left, or is dead or stuck."""
        self.pipe.close()
        self._process.terminate()
        self._process.join(JOIN_TIMEOUT_S)

    def _end(self) -> str:
        """Return in words how the process of the pool ended."""
        code = self._process.exitcode
        return (
            f"was killed by signal {-code}"
            if code is not None and code < 0
            else f"ended with exit code {code}"
        )


def _play_seeds_from(pipe: Connection, draw: Draw, play: PlayScenario) -> None:
    """Play every seed that comes through the pipe, in a process of the pool, until it is closed."""
    with suppress(EOFError, BrokenPipeError, ConnectionResetError):
        pipe.send(None)
        while True:
            pipe.send(play_seed(pipe.recv(), draw, play))


@contextmanager
def _interrupts_ignored() -> Iterator[None]:
    """Let a process of the pool that is started here ignore Ctrl-C from the first instruction."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
