"""The small protocol that every kind of group speaks, so that offsets and views need not know the kinds."""

from collections.abc import Iterator
from typing import NamedTuple, Protocol

from apportion.coord.records import CoordinatorRecord
from apportion.deadlines import Key
from apportion.topics import TopicId

CONSUMER_PROTOCOL_TYPE = "consumer"
"""The protocol type whose subscriptions can be read here, and so the one of members that can be in a consumer group."""
ALL_OPERATIONS = sum(1 << operation for operation in (3, 6, 8, 10, 11))
"""What may be done with a group where nobody is refused: read, describe, delete, describe and alter its configuration."""


class CommitClaim(NamedTuple):
    """Who wants to commit, as of which epoch (or generation), in which version of the API, and which partitions."""

    member_id: str
    instance_id: str | None
    epoch: int
    version: int
    partitions: tuple[tuple[TopicId, int], ...]


class FetchClaim(NamedTuple):
    """Who wants to read offsets, and as of which epoch; None and -1 for somebody who is no member."""

    member_id: str | None
    epoch: int


class Group(Protocol):
    """A group of any kind."""

    group_id: str

    @property
    def type_name(self) -> str:
        """The kind as ListGroups names it: consumer, classic..."""
        ...

    @property
    def protocol_type(self) -> str:
        """What the members are: consumer, connect..."""
        ...

    def is_empty(self) -> bool:
        """True where the group has no members."""
        ...

    def state_name(self) -> str:
        """The state as ListGroups names it."""
        ...

    def subscribes_to(self, topic: str) -> bool:
        """True where some member wants that topic."""
        ...

    def expirable_since_ms_or_none(self, topic: str, committed_ms: int) -> int | None:
        """The wall time since when an offset of that topic, committed at `committed_ms`, is of no use; None while it is."""
        ...

    def check_commit(self, claim: CommitClaim) -> None:
        """Refuses a commit that the claimant may not make."""
        ...

    def check_fetch(self, claim: FetchClaim) -> None:
        """Refuses to show offsets to a claimant of another epoch."""
        ...

    def check_offset_deletion(self) -> None:
        """Refuses to forget offsets of topics that the group may be reading."""
        ...

    def session_or_none(self, member_id: str) -> tuple[Key, int] | None:
        """The deadline that a commit of the member moves, and how many ms it is away then; None if a commit moves none."""
        ...

    def tombstones(self) -> Iterator[CoordinatorRecord]:
        """The records after which the group, which has no members, is forgotten."""
        ...
