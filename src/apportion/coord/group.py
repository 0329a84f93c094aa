"""The interface of a group of any kind, so that `offsets.py` and `admin.py` know no kinds."""

from collections.abc import Iterator, Mapping
from typing import NamedTuple, Protocol, TypeAlias, TypeVar

from apportion.coord.records import CoordinatorRecord
from apportion.deadlines import Key
from apportion.errors import Code, Refused
from apportion.security.acls import ResourceType
from apportion.security.authorizer import every_operation
from apportion.topics import TopicId
from apportion.wire.group_states import GroupState

M = TypeVar("M")

CONSUMER_PROTOCOL_TYPE = "consumer"
"""The protocol type of consumers, the only one whose subscriptions can be decoded here."""
Protocols: TypeAlias = "tuple[tuple[str, bytes], ...]"
"""The protocols (assignors) that a member supports, best first: name and metadata of each."""
ALL_OPERATIONS = every_operation(ResourceType.GROUP)
"""Authorized operations without ACLs; the node's gate puts in what ACLs allow."""


class CommitClaim(NamedTuple):
    """The sender of an OffsetCommit, and the partitions that it commits.

    epoch: the member epoch or the generation; negative without a membership. version: of the API.
    """

    member_id: str
    instance_id: str | None
    epoch: int
    version: int
    partitions: tuple[tuple[TopicId, int], ...]


class FetchClaim(NamedTuple):
    """The sender of an OffsetFetch and its member epoch; None and -1 without a membership."""

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
        """The protocol type of the members: consumer, connect..."""
        ...

    @property
    def state(self) -> GroupState:
        """The state."""
        ...

    def is_empty(self) -> bool:
        """Return whether the group has no members."""
        ...

    def subscribes_to(self, topic: str) -> bool:
        """Return whether a member subscribes to `topic`."""
        ...

    def expirable_since_ms_or_none(self, topic: str, committed_ms: int) -> int | None:
        """Return since when an offset of `topic` may expire (wall ms); None while it is needed.

        committed_ms: when it was committed.
        """
        ...

    def check_commit(self, claim: CommitClaim) -> None:
        """Refuse an offset commit that the sender may not make."""
        ...

    def check_fetch(self, claim: FetchClaim) -> None:
        """Refuse to show offsets to a sender of another epoch."""
        ...

    def check_offset_deletion(self) -> None:
        """Refuse to delete offsets of topics that the group may be reading."""
        ...

    def session_or_none(self, member_id: str, /) -> tuple[Key, int] | None:
        """Return the deadline that a member's commit restarts, and its timeout (ms), or None.

        A commit restarts a session in classic groups alone.
        """
        ...

    def tombstones(self) -> Iterator[CoordinatorRecord]:
        """Yield the records that delete the group, which must be empty."""
        ...


def not_described(group_id: str, kind: str, *, exists: bool) -> str:
    """Return the error message for a group that cannot be described as one of that kind.

    exists: whether it is of another kind. Kafka's words, because its tools print them.
    """
    return f"Group {group_id} is not a {kind} group." if exists else f"Group {group_id} not found."


def checked_member(
    members: Mapping[str, M], instances: Mapping[str, str], member_id: str, instance_id: str | None
) -> M:
    """Return the member that a classic request names by member id and group instance id.

    members: by member id. instances: their member ids by instance id.
    Errors: UNKNOWN_MEMBER_ID, FENCED_INSTANCE_ID (another member has the instance id now).
    """
    # The instance id first, as in Kafka: FENCED_INSTANCE_ID ends a client, UNKNOWN_MEMBER_ID makes
    # it join again. Two processes with one instance id would otherwise replace each other for ever.
    if instance_id is not None:
        current_id = instances.get(instance_id)
        if current_id is None:
            raise Refused(Code.UNKNOWN_MEMBER_ID, f"The group has no instance {instance_id!r}.")
        if current_id != member_id:
            raise Refused(
                Code.FENCED_INSTANCE_ID,
                f"Instance {instance_id} is another member than {member_id!r} now.",
            )
    member = members.get(member_id)
    if member is None:
        raise Refused(Code.UNKNOWN_MEMBER_ID, f"The group has no member {member_id!r}.")
    return member
