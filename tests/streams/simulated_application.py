"""A Streams application on several processes, played from one assignment to the next without any of
its consumers.
"""

from random import Random

import numpy as np

from apportion.streams.task_assignment.client_states import ClientStates, TaskAssignment, Tasks

ALL = 50_000


class SimulatedApplication:
    """Processes by name with consumers and tags, and what each has of each task: `lag`, and who
    runs it: `runs`.
    """

    def __init__(
        self, tasks: Tasks, consumers: dict[str, int], tags: dict[str, dict[str, str]] | None = None
    ) -> None:
        self.tasks = tasks
        self.consumers: dict[str, int] = dict(consumers)
        self.tags: dict[str, dict[str, str]] = dict(tags or {})
        self.lag: dict[tuple[str, int], int] = {}
        self.runs: dict[tuple[str, int], bool] = {}

    @property
    def names(self) -> list[str]:
        return sorted(self.consumers)

    def clients(self) -> ClientStates:
        """What the application would tell its leader."""
        number = {name: at for at, name in enumerate(self.names)}
        rows = sorted(
            (number[name], task, lag, self.runs.get((name, task), False))
            for (name, task), lag in self.lag.items()
        )
        process, task, lag, active = np.array(rows, np.int64).reshape(-1, 4).T
        return ClientStates(
            np.array([self.consumers[name] for name in self.names], np.int32),
            tuple(self.tags.get(name, {}) for name in self.names),
            process.astype(np.int32),
            task.astype(np.int32),
            lag,
            active.astype(np.bool_),
            active.astype(np.bool_),
        )

    def adopts(self, shares: TaskAssignment, *, lag: int = 7, forgets: bool = True) -> None:
        """Everybody has what it was given, restored up to `lag`. forgets: what it has no more, it
        cleans away.
        """
        names = self.names
        self.runs = {
            (names[process], task): True for task, process in enumerate(shares.active.tolist())
        }
        following = [
            (names[process], task)
            for process, task in (*shares.standby.tolist(), *shares.warmup.tolist())
        ]
        kept = {} if forgets else {key: ALL // 10 + each for key, each in self.lag.items()}
        self.lag = (
            kept
            | {key: min(lag, int(self.tasks.end_offset_sum[key[1]])) for key in following}
            | dict.fromkeys(self.runs, 0)
        )

    def leaves(self, name: str) -> None:
        """The process is gone with all that it has."""
        del self.consumers[name]
        self.lag = {key: lag for key, lag in self.lag.items() if key[0] != name}
        self.runs = {key: True for key in self.runs if key[0] != name}


def tasks_of(*subtopologies: tuple[int, bool]) -> Tasks:
    """The tasks of subtopologies with so many partitions each, with or without state."""
    rows = [
        (number, at, stateful)
        for number, (count, stateful) in enumerate(subtopologies)
        for at in range(count)
    ]
    subtopology, partition, stateful = np.array(rows, np.int64).reshape(-1, 3).T
    end = np.where(stateful > 0, ALL, 0)
    return Tasks(subtopology.astype(np.int32), partition.astype(np.int32), stateful > 0, end)


def any_company(
    random: Random, *, tags: tuple[str, ...] = (), alike: bool = False
) -> SimulatedApplication:
    """An application of up to eight processes with up to sixty tasks.

    alike: all have the same number of consumers.
    """
    tasks = tasks_of(
        *((random.randint(1, 15), random.random() < 0.8) for _ in range(random.randint(1, 4)))
    )
    names = random.sample("abcdefghijklmnop", random.randint(1, 8))
    consumers = random.randint(1, 4)
    zones = {tag: [f"{tag}-{number}" for number in range(random.randint(1, 4))] for tag in tags}
    return SimulatedApplication(
        tasks,
        {name: consumers if alike else random.randint(1, 4) for name in names},
        {name: {tag: random.choice(values) for tag, values in zones.items()} for name in names},
    )


def changed(application: SimulatedApplication, random: Random) -> None:
    """Somebody joins, leaves, or comes back with what it had."""
    names = application.names
    fresh = [name for name in "abcdefghijklmnopqrstuvwxyz" if name not in application.consumers]
    if random.random() < 0.5 and len(names) > 1:
        application.leaves(random.choice(names))
    else:
        name, like = random.choice(fresh), random.choice(names)
        application.consumers[name] = application.consumers[like]
        application.tags[name] = dict(application.tags.get(like, {}))
