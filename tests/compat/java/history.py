"""The events of a group's members in one order: who owned what when, what was read, what was
committed.

Members tell JSON lines into a file: {"name", "at" (ms of the wall clock), "event", ...}. The events
are those of `Members.java`.
"""

import json
import time
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any, Self

DEADLINE_SECONDS = 40
GIVING = ("revoked", "lost", "crashed")


class Actor:
    """A member or a producer, as its lines in `path` tell it; `leave` asks it to end."""

    def __init__(self, name: str, path: Path, leave: Callable[[], object]) -> None:
        self.name = name
        self._path = path
        self._ask_to_leave = leave
        self._read_to = 0
        self._events: list[dict[str, Any]] = []
        self._crash: list[dict[str, Any]] = []
        self._may_fail = False

    @property
    def events(self) -> list[dict[str, Any]]:
        """Everything told so far, in order."""
        with self._path.open("rb") as lines:
            lines.seek(self._read_to)
            for line in lines:
                if not line.endswith(b"\n"):
                    break
                self._read_to += len(line)
                event = json.loads(line)
                if event["name"] == self.name:
                    self._events.append(event)
        failures = [each["why"] for each in self._events if each["event"] == "failed"]
        assert failures == [] or self._may_fail, f"{self.name} failed: {failures}"
        return self._events + self._crash

    def events_of(self, *kinds: str) -> list[dict[str, Any]]:
        """The events of these kinds."""
        return [each for each in self.events if each["event"] in kinds]

    @property
    def owned(self) -> list[str]:
        """The partitions that the member owns, as it told last."""
        return next((each["owned"] for each in reversed(self.events) if "owned" in each), [])

    @property
    def generation(self) -> int:
        """The generation (or epoch) that it told last; -1 before the first."""
        return next(
            (each["generation"] for each in reversed(self.events) if "generation" in each), -1
        )

    @property
    def records(self) -> list[tuple[str, int, int]]:
        """What it has read or produced, in order."""
        return [
            tuple(record)
            for each in self.events_of("read", "produced")
            for record in each["records"]
        ]

    def leave(self) -> Self:
        """It has closed itself in order, if it had not before."""
        self._ask_to_leave()
        until(lambda: self.events_of("closed"), f"{self.name} has closed")
        return self

    def fails(self) -> Any:
        """It has ended with an error, which is given."""
        self._may_fail = True
        until(lambda: self.events_of("failed"), f"{self.name} has failed")
        return self.events_of("failed")[0]["why"]

    def crashed(self) -> None:
        """Its process was killed just now."""
        self._crash = [
            {
                "name": self.name,
                "at": time.time() * 1000,
                "event": "crashed",
                "partitions": self.owned,
                "owned": [],
            }
        ]


def until(
    condition: Callable[..., object],
    what: str | Callable[[], str],
    within_s: int = DEADLINE_SECONDS,
) -> float:
    """`condition` has come true; how many seconds that took."""
    start = time.monotonic()
    while not condition():
        assert time.monotonic() - start < within_s, (
            f"still not: {what() if callable(what) else what}"
        )
        time.sleep(0.02)
    return time.monotonic() - start


def shared_by(partitions: list[str], *actors: Actor) -> bool:
    """True when these own all partitions, each of them once and nobody more than one above
    another.
    """
    owned = [actor.owned for actor in actors]
    sizes = [len(each) for each in owned]
    return (
        sorted(name for each in owned for name in each) == sorted(partitions)
        and max(sizes) - min(sizes) <= 1
    )


def settled(partitions: list[str], *actors: Actor) -> float:
    """These have come to share all partitions; how many seconds that took."""
    return until(
        lambda: shared_by(partitions, *actors),
        lambda: (
            f"{len(actors)} share {len(partitions)}: "
            f"{[(actor.name, actor.generation, actor.owned) for actor in actors]}"
        ),
    )


def timeline(actors: list[Actor]) -> list[dict[str, Any]]:
    """Every event of everybody in order of time; within one millisecond what gives a partition up
    stands first.
    """
    return sorted(
        (each for actor in actors for each in actor.events),
        key=lambda each: (each["at"], each["event"] not in GIVING),
    )


def quarrels(actors: list[Actor]) -> list[tuple[str, str, str]]:
    """The moments at which two owned the same partition: (partition, who had it, who got it).

    Who is told later that it has lost the partition did not own it any more: the group had put it
    out, and may not wait for it.
    """
    owner: dict[str, str]
    conflicts: dict[tuple[str, str], str]
    owner, conflicts = {}, {}
    for each in timeline(actors):
        for name in each.get("partitions", ()):
            mine = owner.get(name) == each["name"]
            if each["event"] in GIVING and mine:
                del owner[name]
            elif each["event"] == "lost":
                conflicts.pop((name, each["name"]), None)
            elif each["event"] == "assigned":
                if name in owner and not mine:
                    conflicts[name, owner[name]] = each["name"]
                owner[name] = each["name"]
    return [(*key, other) for key, other in conflicts.items()]


def vacancies_ms(actors: list[Actor], since: float = 0, to: float = float("inf")) -> dict[str, int]:
    """For each partition that was owned once, the longest time between `since` and `to` (ms) that
    nobody owned it.
    """
    left: dict[str, float]
    longest: defaultdict[str, int]
    left, longest = {}, defaultdict(int)
    for each in timeline(actors):
        if each["event"] in GIVING:
            left |= dict.fromkeys(each["partitions"], each["at"])
        elif each["event"] == "assigned":
            for name in each["partitions"]:
                start = left.pop(name, None)
                if start is not None and each["at"] >= since and start <= to:
                    longest[name] = max(longest[name], each["at"] - start)
    return dict(longest)


def committed_by(actors: list[Actor]) -> dict[tuple[str, int], int]:
    """The newest offset that one of them told to have committed, for each (topic, partition)."""
    newest: dict[tuple[str, int], int] = {}
    for each in timeline(actors):
        if each["event"] == "committed":
            newest |= {(topic, partition): offset for topic, partition, offset in each["offsets"]}
    return newest


def unexplained_repeats(actors: list[Actor]) -> list[tuple[tuple[Any, ...], str]]:
    """Records that somebody read after a member had told that it committed past them: (record, who
    read it).
    """
    committed: defaultdict[tuple[str, int], int]
    repeats: list[tuple[tuple[Any, ...], str]]
    committed, repeats = defaultdict(int), []
    for each in timeline(actors):
        if each["event"] == "committed":
            for topic, partition, offset in each["offsets"]:
                committed[topic, partition] = max(committed[topic, partition], offset)
        elif each["event"] == "read":
            repeats += [
                (record, each["name"])
                for record in map(tuple, each["records"])
                if record[2] < committed[record[:2]]
            ]
    return repeats


def all_read(records: list[tuple[str, int, int]], actors: list[Actor]) -> float:
    """Each of `records` has been read by one of them; how many seconds that took."""
    wanted = set(records)

    def missing() -> set[tuple[str, int, int]]:
        return wanted - {record for actor in actors for record in actor.records}

    return until(
        lambda: not missing(),
        lambda: f"{len(missing())} records are not read, such as {sorted(missing())[:5]}",
    )
