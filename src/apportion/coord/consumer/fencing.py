"""The guards of a consumer group: who may send a heartbeat, and which units may be assigned.

Each safety rule is one predicate. `admit` checks them in Kafka's order. Call them through this
module, so that a test can switch one off and see which law breaks.
"""

from typing import NamedTuple

from apportion.coord.consumer.beat import AWAY, JOINING, Beat
from apportion.coord.consumer.client_assignors import (
    MAX_GROUP_METADATA_BYTES,
    MOST_OFFERS,
    ClientOffer,
    agreed_or_none,
    metadata_bytes,
    offer_of,
)
from apportion.coord.consumer.reconcile import MemberState
from apportion.coord.consumer.state import ConsumerGroup, ConsumerGroupMember
from apportion.errors import Code, Refused
from apportion.wire.records.groups import RecordClientAssignor


class AdmittedMember(NamedTuple):
    """The sender of an admitted heartbeat.

    member: as it is saved; None for a new member. predecessor: the static member that it replaces;
        None for any other.
    """

    member: ConsumerGroupMember | None
    predecessor: ConsumerGroupMember | None


def is_blocked(group: ConsumerGroup, member_id: str, unit: int) -> bool:
    """Return whether a unit (a topic partition) is blocked: another member still has it."""
    # Owners are compared by member id. Kafka stores the owner's epoch, by which two members at one
    # epoch cannot be told apart.
    owner = group.saved.owners.owner_or_none(unit)
    return owner is not None and owner != member_id


def has_room(group: ConsumerGroup, member_id: str, limit: int) -> bool:
    """Return whether the group may accept the member (`group.consumer.max.size`)."""
    return len(group.saved.members) < limit or member_id in group.saved.members


def is_same_member(member: ConsumerGroupMember, member_id: str) -> bool:
    """Return whether a request comes from the member that has its group instance id now.

    A sender with another member id was replaced, and is fenced. For classic requests
    `group.checked_member` has the same rule.
    """
    return member.member_id == member_id


def uses_classic_protocol(member: ConsumerGroupMember, beat: Beat) -> bool:
    """Return whether a static member or its successor is classic: then the last to join wins.

    Source: KIP-345, whose rule it is.
    """
    # The classic client has no way to leave temporarily, so nobody could ever release the instance.
    return member.is_classic or beat.classic is not None


def has_released_instance(member: ConsumerGroupMember) -> bool:
    """Return whether a static member has left for now (epoch -2), so another may take its place."""
    return member.epoch == AWAY


def may_use_previous_epoch(
    member: ConsumerGroupMember, epoch: int, owned: frozenset[int] | None
) -> bool:
    """Return whether a heartbeat may name the member's previous epoch, after a missed response.

    It may if all that the member says it owns is still assigned to it, revocations not counted.
    owned: None where the heartbeat left it out; then it may not.
    """
    return (
        epoch == member.previous_epoch
        and owned is not None
        # As in Kafka, units pending revocation do not count: the member would go on using them
        # without knowing that it has to give them up.
        and owned.issubset(member.assigned.units.tolist())
    )


def is_epoch_valid(member: ConsumerGroupMember, epoch: int, owned: frozenset[int] | None) -> bool:
    """Return whether a heartbeat's epoch is JOINING, the member's own or a valid previous one.

    A previous epoch is valid as `may_use_previous_epoch` says.
    """
    # Kafka 4.2 and newer: a known member may join again at any time. Older brokers fence it,
    # although its only fault may be a lost response.
    if epoch in (JOINING, member.epoch):
        return True
    return epoch < member.epoch and may_use_previous_epoch(member, epoch, owned)


def is_state_known(member: ConsumerGroupMember, owned: frozenset[int] | None) -> bool:
    """Return whether the member's state is known here, or the member owns nothing.

    A newer coordinator may have written a state that this one does not know.
    """
    # A state that is not understood may mean that the member is giving units up. If it owns
    # nothing, nothing can be used twice.
    return member.state is not MemberState.UNKNOWN or (owned is not None and not owned)


def admit(
    group: ConsumerGroup | None, beat: Beat, owned: frozenset[int] | None, limit: int
) -> AdmittedMember:
    """Return the member that sent a heartbeat or JoinGroup, or refuse it; change nothing.

    Errors, in this order: GROUP_ID_NOT_FOUND, GROUP_MAX_SIZE_REACHED, UNKNOWN_MEMBER_ID,
    UNRELEASED_INSTANCE_ID, FENCED_INSTANCE_ID, FENCED_MEMBER_EPOCH.
    """
    if group is None:
        # Only a join makes a group: any other heartbeat is of a member that the group has lost.
        if beat.epoch != JOINING:
            raise Refused(Code.GROUP_ID_NOT_FOUND, f"There is no consumer group {beat.group_id}.")
        return AdmittedMember(None, None)
    # Kafka's order: before the instance id is looked up, so a full group refuses a static member
    # that returns under a new member id.
    if not has_room(group, beat.member_id, limit):
        raise group_full_error(beat.group_id, limit)
    admission = (
        _dynamic(group, beat)
        if beat.instance_id is None
        else _static(group, beat, beat.instance_id)
    )
    member = admission.member
    if member is None:
        return admission
    if not is_epoch_valid(member, beat.epoch, owned):
        raise Refused(
            Code.FENCED_MEMBER_EPOCH,
            f"Member {beat.member_id} is at epoch {member.epoch}, not {beat.epoch}: it "
            "has to give up everything and join again.",
        )
    if not is_state_known(member, owned):
        raise Refused(
            Code.FENCED_MEMBER_EPOCH,
            f"Member {beat.member_id} is in a state of a newer coordinator: it has to "
            "give up everything and join again.",
        )
    return admission


def _dynamic(group: ConsumerGroup, beat: Beat) -> AdmittedMember:
    """Return the sender of a ConsumerGroupHeartbeat without a group instance id."""
    member = group.saved.members.get(beat.member_id)
    if member is None and beat.epoch != JOINING:
        raise unknown_member_error(beat)
    return AdmittedMember(member, None)


def _static(group: ConsumerGroup, beat: Beat, instance_id: str) -> AdmittedMember:
    """Return the sender of a ConsumerGroupHeartbeat with a group instance id (KIP-345)."""
    static_member = group.static_member_or_none(instance_id)
    if static_member is None:
        if beat.epoch != JOINING:
            raise unknown_member_error(beat)
        # A known member may take an instance id when it joins again.
        return AdmittedMember(group.saved.members.get(beat.member_id), None)
    if beat.epoch != JOINING:
        if not is_same_member(static_member, beat.member_id):
            raise fenced_instance_error(beat)
        return AdmittedMember(static_member, None)
    # KIP-848 refuses the newcomer, the reverse of KIP-345: the running process still uses its
    # partitions, and does not have to join for a new generation in which it would learn that it is
    # fenced.
    if not uses_classic_protocol(static_member, beat) and not has_released_instance(static_member):
        raise Refused(
            Code.UNRELEASED_INSTANCE_ID,
            f"Group instance id {instance_id} is held by member {static_member.name_in_log}, which "
            "releases it when it leaves or its session ends: stop that member, or give this one "
            "another group instance id.",
        )
    return (
        AdmittedMember(static_member, None)
        # A successor has no epoch of its own to check, and so is returned apart.
        if static_member.member_id == beat.member_id
        else AdmittedMember(None, static_member)
    )


def has_room_for_metadata(
    group: ConsumerGroup,
    known: ConsumerGroupMember | None,
    assignors: tuple[RecordClientAssignor, ...],
) -> bool:
    """Return whether a group may save the metadata of a member's client-side assignors.

    known: as in `check_offer`.
    """
    more_bytes = more_metadata_bytes(group, known, assignors)
    # What waits has its room from the heartbeat on that brought it: nobody is refused later.
    taken_bytes = group.saved.client_metadata_bytes + group.live.waiting_metadata_bytes
    return more_bytes <= 0 or taken_bytes + more_bytes <= MAX_GROUP_METADATA_BYTES


def more_metadata_bytes(
    group: ConsumerGroup,
    known: ConsumerGroupMember | None,
    assignors: tuple[RecordClientAssignor, ...],
) -> int:
    """Return by how many bytes the metadata of these assignors are more than a member's before.

    Those before are what is saved, or what waits to be saved if that is larger.
    known: as in `check_offer`.
    """
    if known is None:
        return metadata_bytes(assignors)
    offering = group.live.offering_members.get(known.member_id)
    waiting_bytes = 0 if offering is None else offering.waiting_bytes
    before_bytes = metadata_bytes(known.metadata.client_assignors) + waiting_bytes
    return metadata_bytes(assignors) - before_bytes


def check_offer(group: ConsumerGroup | None, beat: Beat, known: ConsumerGroupMember | None) -> None:
    """Refuse a heartbeat that offers client-side assignors which its group cannot take.

    known: the sender as it is saved, or the member that it replaces; None for a new member.
    Errors: GROUP_MAX_SIZE_REACHED if metadata has no room, INVALID_REQUEST for one more of many
    different offers, UNSUPPORTED_ASSIGNOR as `check_agreement` says.
    """
    if not beat.client_assignors or group is None:
        return
    # Not for a member that makes the same offer as before: it keeps its older metadata
    # (`offering_members.py`).
    if not has_room_for_metadata(group, known, beat.client_assignors):
        raise Refused(
            Code.GROUP_MAX_SIZE_REACHED,
            f"The client assignors of group {group.group_id} may have {MAX_GROUP_METADATA_BYTES} "
            "bytes of metadata together, and there is no room for "
            f"{more_metadata_bytes(group, known, beat.client_assignors)} more: send less user "
            "data.",
        )
    offer = offer_of(beat.client_assignors)
    if known is not None and offer_of(known.metadata.client_assignors) == offer:
        return
    # A member that replaces a static one gives up the membership that it may have.
    given_up = {} if known is None else {known.member_id: known}
    if (own := group.saved.members.get(beat.member_id)) is not None:
        given_up[own.member_id] = own
    others = dict(group.saved.client_offers)
    for member in given_up.values():
        before = offer_of(member.metadata.client_assignors)
        others[before] = others.get(before, 0) - 1
    others = {each: members for each, members in others.items() if members > 0}
    if offer in others:
        return
    if len(others) >= MOST_OFFERS:
        raise Refused(
            Code.INVALID_REQUEST,
            f"The members of group {group.group_id} make {len(others)} different offers of client "
            "assignors, and more are not allowed: use one that another member makes.",
        )
    if not (beat.assignor or (known and known.metadata.server_assignor)):
        check_agreement(group, offer, others, len(group.saved.members) - len(given_up))


def check_agreement(
    group: ConsumerGroup, offer: ClientOffer, others: dict[ClientOffer, int], count: int
) -> None:
    """Refuse an offer of client-side assignors on which the group cannot agree.

    Only members that have agreed on one are protected: if one of them offers none, the broker
    assigns in any case. A sender that offers none, or names a server-side assignor as well, can be
    assigned by the broker, and so is not checked.
    others: those of the `count` other members; none of them is the same.
    Errors: UNSUPPORTED_ASSIGNOR.
    """
    agreed = agreed_or_none(others, count)
    if agreed is not None and agreed_or_none({**others, offer: 1}, count + 1) is None:
        offered = ", ".join(map(_offered_words, offer))
        raise Refused(
            Code.UNSUPPORTED_ASSIGNOR,
            f"The members of group {group.group_id} use the client assignor {agreed.name} in "
            f"version {agreed.version}, and have none in common with a member that offers "
            f"{offered}: offer {agreed.name} in that version as well. A group moves to another "
            "assignor once all its members offer both.",
        )


def _offered_words(offered: tuple[str, int, int]) -> str:
    """Return an offered client assignor for people, with the versions that the member understands.

    Most have version 0 alone, which is not worth a word.
    """
    name, minimum, maximum = offered
    if maximum == 0:
        return name
    if minimum == maximum:
        return f"{name} in version {minimum}"
    return f"{name} in versions {minimum} to {maximum}"


def group_full_error(group_id: str, limit: int) -> Refused:
    """Return GROUP_MAX_SIZE_REACHED for a member that joins a full consumer group."""
    return Refused(
        Code.GROUP_MAX_SIZE_REACHED, f"Group {group_id} has its {limit} members already."
    )


def unknown_member_error(beat: Beat) -> Refused:
    """Return UNKNOWN_MEMBER_ID for a heartbeat to a consumer group."""
    return Refused(
        Code.UNKNOWN_MEMBER_ID, f"Group {beat.group_id} has no member {beat.member_id!r}."
    )


def fenced_instance_error(beat: Beat) -> Refused:
    """Return FENCED_INSTANCE_ID for a heartbeat to a consumer group."""
    return Refused(
        Code.FENCED_INSTANCE_ID,
        f"Instance {beat.instance_id} is another member than {beat.member_id} now.",
    )
