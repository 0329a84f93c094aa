"""Client-side assignors of a consumer group: what members offer, and on which they agree (KIP-848).

A member offers the assignors that it can run, the preferred first, each with the versions of the
members' metadata that it understands. The group uses one that all members offer, in the highest
version that all of them understand. Where several are common to all, each member votes for the
first of its list, as the protocols of a classic group are chosen. A group in which a member offers
none uses the assignors of the broker, so members of other clients need not know about this.

Members of one application make the same offer, so offers are counted: the agreement costs time in
proportion to the different offers, which are bounded, and only after one is made or withdrawn.

A change of metadata without a reason is saved, and starts no rebalance. This is how the KIP is
read here: measured values, such as a lag, can be kept fresh for the next assignment.
"""

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, NamedTuple

from apportion.assign.by_name import Subscription, TopicShape
from apportion.coord.records import NO_ANSWER
from apportion.errors import Code, Refused
from apportion.topics import Topic, TopicId
from apportion.wire.fields import replaced
from apportion.wire.records.groups import RecordClientAssignor

if TYPE_CHECKING:
    from apportion.wire.messages.consumer_group_heartbeat import ClientAssignor

MAX_ASSIGNORS = 16  # of one member
MAX_NAME = 249  # characters, as in the name of a topic
MAX_METADATA_BYTES = 1 << 16  # of all assignors of one member together
MAX_GROUP_METADATA_BYTES = 1 << 26  # of all members of a group together
# Different ones in a group. Members of one application make the same offer.
MOST_OFFERS = 100

ClientOffer = tuple[tuple[str, int, int], ...]
"""Assignors that a member offers, the preferred first: name, minimum and maximum version."""


class AgreedAssignor(NamedTuple):
    """A client-side assignor that all members offer, and the version that all understand."""

    name: str
    version: int


class Agreement(NamedTuple):
    """Result of the search for a common assignor; None if there is none."""

    assignor: AgreedAssignor | None


class PreparedGroup(NamedTuple):
    """A group as its chosen member was told of it.

    topics: those that exist and have subscribers, by id. members: by member id, in the order for
    assignors, with instance ids.
    """

    epoch: int
    topics: Mapping[TopicId, Topic]
    members: Mapping[str, Subscription]

    def shapes(self) -> dict[str, TopicShape]:
        """Return the topics as `checks.check_given` takes them."""
        return {topic.name: TopicShape(topic.partitions) for topic in self.topics.values()}


class OfferingMember:
    """Live state of one member with client-side assignors.

    saved_ms, asked_ms: when assignors of a heartbeat were last saved, and when with a reason (both
    mono ms).
    early: the newest assignors of its heartbeats, as long as they wait to be saved. waiting_bytes:
    by how much their metadata are larger than what is saved; 0 if they are not.
    told: what came with the assignment that the member was told last for a target of its epoch.
    failed_with: the assignor by which it was last chosen and failed; None if it has not, or was
    forgiven.
    """

    __slots__ = ("asked_ms", "early", "failed_with", "saved_ms", "told", "waiting_bytes")

    def __init__(self) -> None:
        self.saved_ms: int | None = None
        self.asked_ms: int | None = None
        self.early: tuple[RecordClientAssignor, ...] | None = None
        self.waiting_bytes = 0
        self.told = NO_ANSWER
        self.failed_with: str | None = None


class ChosenMember(NamedTuple):
    """The member that computes its group's target, since when (mono ms), and how long it may.

    prepared: None until it has asked. prepared_ms: when it was last told of its group (mono ms).
    """

    member_id: str
    assignor: AgreedAssignor
    since_ms: int
    timeout_ms: int
    prepared: PreparedGroup | None = None
    prepared_ms: int | None = None


def check_assignors(assignors: tuple["ClientAssignor", ...]) -> None:
    """Refuse a wrong list of client-side assignors in a heartbeat.

    Errors: INVALID_REQUEST.
    """
    if len(assignors) > MAX_ASSIGNORS:
        raise _invalid(f"A member may offer {MAX_ASSIGNORS} client assignors, not more.")
    names: dict[str, None] = {}
    for assignor in assignors:
        name, lowest, highest = assignor.name, assignor.minimum_version, assignor.maximum_version
        if not name.strip():
            raise _invalid("The name of a client assignor is empty.")
        if len(name) > MAX_NAME:
            raise _invalid(
                f"The name of a client assignor may have {MAX_NAME} characters, not more."
            )
        if name in names:
            raise _invalid(f"Client assignor {name} is offered twice.")
        names[name] = None
        if lowest > highest:
            raise _invalid(
                f"Client assignor {name} has minimum version {lowest} above its maximum {highest}."
            )
        # KIP-848 keeps version -1 for the metadata of classic members, which come by JoinGroup.
        if not max(lowest, 0) <= assignor.version <= highest:
            raise _invalid(
                f"Client assignor {name} has metadata of version {assignor.version}, which is not "
                f"in {max(lowest, 0)} to {highest}."
            )
    if sum(len(assignor.metadata) for assignor in assignors) > MAX_METADATA_BYTES:
        raise _invalid(
            f"The metadata of a member's client assignors may have {MAX_METADATA_BYTES} bytes, "
            "not more."
        )


def to_saved_assignors(
    assignors: tuple["ClientAssignor", ...],
) -> tuple[RecordClientAssignor, ...]:
    """Return the assignors of a heartbeat as they are saved, with copies of their metadata."""
    return tuple(
        RecordClientAssignor(
            name=assignor.name,
            minimum_version=assignor.minimum_version,
            maximum_version=assignor.maximum_version,
            reason=assignor.reason,
            version=assignor.version,
            # The request's buffer is used again.
            metadata=bytes(assignor.metadata),
        )
        for assignor in assignors
    )


def offer_of(assignors: Iterable[RecordClientAssignor]) -> ClientOffer:
    """Return what a member offers, without its metadata."""
    return tuple(
        (assignor.name, assignor.minimum_version, assignor.maximum_version)
        for assignor in assignors
    )


def metadata_bytes(assignors: Iterable[RecordClientAssignor]) -> int:
    """Return the size of the metadata of a member's client-side assignors."""
    return sum(len(assignor.metadata) for assignor in assignors)


def agreed_or_none(offers: Mapping[ClientOffer, int], members: int) -> AgreedAssignor | None:
    """Return the client-side assignor of a group; None if its members agree on none.

    offers: how many of the `members` members make each offer; those that offer nothing are in none.
    """
    if not offers or sum(offers.values()) < members:
        return None
    # name -> the highest of the minimum versions, the lowest of the maximum ones
    common = {name: (lowest, highest) for name, lowest, highest in next(iter(offers))}
    for offer in offers:
        bounds = {name: (lowest, highest) for name, lowest, highest in offer}
        common = {
            name: (max(lowest, bounds[name][0]), min(highest, bounds[name][1]))
            for name, (lowest, highest) in common.items()
            if name in bounds
        }
        if not common:
            return None
    versions = {name: highest for name, (lowest, highest) in common.items() if lowest <= highest}
    if not versions:
        return None
    votes = dict.fromkeys(versions, 0)
    for offer, count in offers.items():
        votes[next(name for name, _, _ in offer if name in versions)] += count
    # By name where votes are equal, so one history gives one agreement.
    name = min(votes, key=lambda each: (-votes[each], each))
    return AgreedAssignor(name, versions[name])


def has_reason(assignors: tuple[RecordClientAssignor, ...]) -> bool:
    """Return whether a member asks for a new assignment by a reason."""
    return any(assignor.reason for assignor in assignors)


def is_other_offer(
    before: tuple[RecordClientAssignor, ...], assignors: tuple[RecordClientAssignor, ...]
) -> bool:
    """Return whether a member offers others than before, or has metadata of another version.

    The assignor could not read the metadata before.
    """
    return _versions(before) != _versions(assignors)


def asks_for_assignment(
    before: tuple[RecordClientAssignor, ...], assignors: tuple[RecordClientAssignor, ...]
) -> bool:
    """Return whether a member asks for a new assignment by the assignors in a heartbeat."""
    return has_reason(assignors) or is_other_offer(before, assignors)


def with_reasons(
    assignors: tuple[RecordClientAssignor, ...], early: tuple[RecordClientAssignor, ...]
) -> tuple[RecordClientAssignor, ...]:
    """Return assignors with the reasons of earlier ones that have not been saved.

    A newer reason counts. Both are the same offer.
    """
    return tuple(
        replaced(newer, reason=newer.reason or older.reason)
        for newer, older in zip(assignors, early, strict=True)
    )


def with_older_metadata(
    assignors: tuple[RecordClientAssignor, ...], older: tuple[RecordClientAssignor, ...]
) -> tuple[RecordClientAssignor, ...]:
    """Return older assignors, metadata and its version included, with the reasons of newer ones.

    Both are the same offer.
    """
    return tuple(
        replaced(before, reason=newer.reason)
        for newer, before in zip(assignors, older, strict=True)
    )


def metadata_for(
    assignors: tuple[RecordClientAssignor, ...], name: str
) -> RecordClientAssignor | None:
    """Return a member's metadata for the assignor of that name; None if it does not offer it."""
    return next((assignor for assignor in assignors if assignor.name == name), None)


def _versions(assignors: tuple[RecordClientAssignor, ...]) -> list[tuple[str, int, int, int]]:
    """Return what a member offers, with the versions of its metadata."""
    return [
        (each.name, each.minimum_version, each.maximum_version, each.version) for each in assignors
    ]


def _invalid(why: str) -> Refused:
    """Return the refusal of a wrong list of client assignors."""
    return Refused(Code.INVALID_REQUEST, why)
