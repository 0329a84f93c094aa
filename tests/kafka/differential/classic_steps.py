"""What a script of classic groups can say besides the steps that all groups share.

A member is a letter. Its ids are labels in the order in which the broker made them: `a1`, then
`a2`. Where a step may name an id, None is the member's newest one, a label stands for that id on
either broker, and anything else is sent as it is.
"""

from dataclasses import dataclass

from tests.kafka.differential.steps import Step

FOREVER_MS = 300_000
"""No session and no deadline ends within a script."""
RANGE, ROUND_ROBIN, STICKY = "range", "roundrobin", "sticky"


@dataclass(frozen=True, slots=True)
class Join(Step):
    """One JoinGroup; it may be answered many steps later."""

    group: str
    member: str
    protocols: tuple[tuple[str, bytes], ...]
    version: int = 9
    member_id: str | None = None
    instance: str | None = None
    kind: str = "consumer"
    session_ms: int = FOREVER_MS
    rebalance_ms: int = FOREVER_MS
    reason: str | None = None


@dataclass(frozen=True, slots=True)
class Sync(Step):
    """One SyncGroup; who does not lead waits for the leader's."""

    group: str
    member: str
    generation: int
    assignments: tuple[tuple[str, bytes], ...] = ()
    version: int = 5
    member_id: str | None = None
    instance: str | None = None
    kind: str | None = None
    protocol: str | None = None


@dataclass(frozen=True, slots=True)
class Pulse(Step):
    """One Heartbeat of a classic member."""

    group: str
    member: str
    generation: int
    version: int = 4
    member_id: str | None = None
    instance: str | None = None


@dataclass(frozen=True, slots=True)
class Leave(Step):
    """One LeaveGroup: pairs of an id and an instance. Before version 3 only the first id counts."""

    group: str
    members: tuple[tuple[str, str | None], ...]
    version: int = 5


@dataclass(frozen=True, slots=True)
class DescribeClassic(Step):
    """One DescribeGroups."""

    groups: tuple[str, ...]
    version: int = 6
    operations: bool = False


@dataclass(frozen=True, slots=True)
class Arrive(Step):
    """A classic client that minds its own business: nothing is asked yet, it joins with the next
    Rest.
    """

    group: str
    member: str
    version: int = 9
    instance: str | None = None
    topics: tuple[str, ...] = ("twelve",)
    is_eager: bool = True
    blob_version: int = 1
    member_id: str = ""
    """The letter of the member of the consumer protocol that it was, whose id it goes on with."""


@dataclass(frozen=True, slots=True)
class Knock(Step):
    """A classic client joins without being told to, because what it says has changed."""

    group: str
    member: str
    blob_version: int


@dataclass(frozen=True, slots=True)
class Rest(Step):
    """All members of the group do what their clients do, until nothing changes any more."""

    group: str
