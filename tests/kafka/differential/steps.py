"""What a script of the differential test can say. A step names members and topics by letters and
words, never by a broker's ids.

The epoch of a step is a number, because the brokers have to agree on it; what a member owns is a
word, because each broker may give it other partitions. `Side` makes a step the request for one
broker.
"""

from dataclasses import dataclass, fields

# exactly what the broker said last: everything was adopted, and revocations are acknowledged
TOLD = "told"
TWICE = "twice"  # the same, every topic twice and every partition twice in each
HELD = "held"  # what the member had before: nothing is acknowledged
PART = "part"  # less than it was told
EMPTY = "empty"  # nothing
GREEDY = "greedy"  # what it was told, and a partition of another member
STRANGE = "strange"  # a partition of a topic that does not exist

NOWHERE = "nowhere"
"""A topic that does not exist."""

LONELY = "lonely"
"""How the groups begin whose members are refused on our broker: nothing else is done with them."""


class Step:
    """One thing that is done on both brokers."""

    def line(self) -> str:
        """The step for a reader: its kind and what is not a default."""
        parts = [
            f"{field.name}={getattr(self, field.name)!r}"
            for field in fields(self)  # type: ignore[arg-type]
            if getattr(self, field.name) != field.default
        ]
        return f"{type(self).__name__}({', '.join(parts)})"


@dataclass(frozen=True, slots=True)
class Beat(Step):
    """One ConsumerGroupHeartbeat of a member. `member_id` None: its own; a text is sent as it
    is.
    """

    group: str
    member: str
    epoch: int
    version: int = 1
    owned: str | None = None
    topics: tuple[str, ...] | None = None
    regex: str | None = None
    assignor: str | None = None
    rebalance_ms: int = -1
    instance: str | None = None
    rack: str | None = None
    member_id: str | None = None


@dataclass(frozen=True, slots=True)
class Offset:
    """One partition of a commit, and the topic that it is of. The note has that many letters; None:
    there is none.
    """

    topic: str
    partition: int
    offset: int
    note: int | None = 0
    leader_epoch: int = -1


@dataclass(frozen=True, slots=True)
class Commit(Step):
    """One OffsetCommit, by a member or (None) by nobody."""

    group: str
    member: str | None
    epoch: int
    offsets: tuple[Offset, ...]
    version: int = 9
    instance: str | None = None
    retention_ms: int = -1


@dataclass(frozen=True, slots=True)
class Fetch(Step):
    """One OffsetFetch of one group: of some partitions, or (None) of all."""

    group: str
    member: str | None = None
    epoch: int = -1
    partitions: tuple[tuple[str, tuple[int, ...]], ...] | None = None
    version: int = 9
    stable: bool = False


@dataclass(frozen=True, slots=True)
class Forget(Step):
    """One OffsetDelete."""

    group: str
    partitions: tuple[tuple[str, tuple[int, ...]], ...]


@dataclass(frozen=True, slots=True)
class Describe(Step):
    """One ConsumerGroupDescribe."""

    groups: tuple[str, ...]
    version: int = 1
    operations: bool = False


@dataclass(frozen=True, slots=True)
class ListGroups(Step):
    """One ListGroups; groups of other scripts are left out of the answer."""

    version: int = 5
    states: tuple[str, ...] = ()
    types: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class DeleteGroups(Step):
    """One DeleteGroups."""

    groups: tuple[str, ...]
    version: int = 2


@dataclass(frozen=True, slots=True)
class MakeTopic(Step):
    """A topic is made, and both brokers know it before the next step, the coordinator of `near`
    included.
    """

    topic: str
    partitions: int
    near: str | None = None


@dataclass(frozen=True, slots=True)
class Grow(Step):
    """A topic gets more partitions, and both brokers know it before the next step, the coordinator
    of `near` included.
    """

    topic: str
    partitions: int
    near: str


@dataclass(frozen=True, slots=True)
class DropTopic(Step):
    """A topic is deleted, and both brokers know it before the next step, the coordinator of `near`
    included.
    """

    topic: str
    near: str | None = None


@dataclass(frozen=True, slots=True)
class Settle(Step):
    """Members beat in turn and adopt what they are told, until a whole round changes nothing; what
    counts is where that leads.

    votes: since the last time; "" if all are for one assignor, "mixed" if the same one wins,
    "changed" if another one does, "tied" if nobody can say which.
    """

    group: str
    wants_differ: bool = False
    votes: str = ""
    racks_changed: bool = False
