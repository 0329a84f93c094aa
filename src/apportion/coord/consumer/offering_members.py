"""Members that offer client-side assignors: what waits to be saved, what they are told (KIP-848).

The problem. A member may send other metadata, or a reason for a new assignment, with each
heartbeat. What is saved is a record, and a reason begins a group epoch besides; but a target is
computed once in an assignment interval at most, so most of it would be written for nothing. Yet the
response to a heartbeat accepts what it brought: that may be late, and must not be dropped.

The method. Metadata and reasons are saved once in an assignment interval, and once in a second
where that is shorter. What comes earlier waits here, and the member's first heartbeat after the
interval saves it, whatever it brings itself: the newest metadata, and the newest reason other than
none, since nobody has assigned for that reason yet. A join, another offer and metadata of another
version are saved at once, with the reasons that wait. A reason that was saved has begun an epoch,
and stays beside newer metadata until the group's target is of its newest epoch: whoever computes it
reads the reason. Where the broker assigns, nobody reads it: it begins no epoch, and stays until a
member has computed a target. If it did not, the member, which says it again as no epoch follows,
would have it written each time.

The metadata of a group is bounded, and what waits has its room from the heartbeat on that brought
it. A newcomer for which there is no room is refused, and so is another offer. A member that makes
the same offer has done nothing for which it had to end: its older metadata is kept, of its newer
assignors only the reasons count, and the log says so.

What members are told. With its assignment a member is told what the assignor said of it: an error,
and metadata. Both belong to a target, and so to an epoch. A member that has yet to give partitions
up is at its older epoch, while the group has the newer target already. So what each member was told
last is remembered here, and it is told the same until it reaches its target. An error is told at
once.

The member that was chosen to compute a target and failed (`client_targets.py`) is remembered here,
too.

All of this is live state. A restart forgets it: what waits is lost, and a member that is at an
older epoch is told nothing beside its partitions.

The cost. A steady heartbeat looks a member up in one table. What waits and what is saved have at
most the bound each.

Example. The interval is 5 s. At 0 s a member sends the lag 7 with a reason, which is saved and
begins epoch 4. At 1 s it sends 9 with another reason, at 2 s 8 without one: both are accepted, and
nothing is written. Its first heartbeat after 5 s need not bring anything: 8 is saved with the other
reason, and epoch 5 begins.
"""

from typing import NamedTuple

from apportion.coord import records
from apportion.coord.consumer import fencing
from apportion.coord.consumer.beat import JOINING, Beat
from apportion.coord.consumer.client_assignors import (
    MAX_GROUP_METADATA_BYTES,
    OfferingMember,
    has_reason,
    is_other_offer,
    metadata_bytes,
    offer_of,
    with_older_metadata,
    with_reasons,
)
from apportion.coord.consumer.state import ConsumerGroup, ConsumerGroupMember
from apportion.coord.records import TargetAnswer
from apportion.coord.turn import Turn
from apportion.wire.records.groups import RecordClientAssignor

# Where the assignment interval is shorter: metadata and reasons are saved no more often than this.
SHORTEST_INTERVAL_MS = 1_000
NO_ROOM_NOTE_INTERVAL_MS = 60_000  # between two lines in the log about a group that is full


class AssignorChange(NamedTuple):
    """The effect of a heartbeat on the client-side assignors of its member.

    due: what is to be saved now; None for nothing. early: what has to wait. dropped_bytes: the size
    of metadata for which there is no room; 0 for none.
    """

    due: tuple[RecordClientAssignor, ...] | None
    early: tuple[RecordClientAssignor, ...] | None
    dropped_bytes: int


def assignor_change_or_none(
    turn: Turn, group: ConsumerGroup, member: ConsumerGroupMember, beat: Beat
) -> AssignorChange | None:
    """Return what a heartbeat changes about the client-side assignors of its member."""
    offering = group.live.offering_members.get(member.member_id)
    early = None if offering is None else offering.early
    sent, before = beat.client_assignors, member.metadata.client_assignors
    newest = early if sent is None else sent
    if newest is None:  # as in every steady heartbeat
        return None
    dropped_bytes = 0
    if (
        sent is not None
        and offer_of(sent) == offer_of(before)
        and not fencing.has_room_for_metadata(group, member, sent)
    ):
        dropped_bytes = metadata_bytes(sent)
        newest = with_older_metadata(sent, early or before)
    if early is None and newest == before and not has_reason(newest):
        return AssignorChange(None, None, dropped_bytes) if dropped_bytes else None
    if early is not None and offer_of(newest) == offer_of(early):
        # Also of a member that joins again, or has metadata of another version: the response to
        # the heartbeat that brought a reason has accepted it.
        newest = with_reasons(newest, early)
    if beat.epoch == JOINING or is_other_offer(before, newest):
        return AssignorChange(newest, None, dropped_bytes)
    last_ms = None
    if offering is not None:
        last_ms = offering.asked_ms if has_reason(newest) else offering.saved_ms
    interval_ms = max(
        turn.settings_of(group.group_id).group_consumer_assignment_interval_ms,
        SHORTEST_INTERVAL_MS,
    )
    if last_ms is None or turn.now.mono_ms >= last_ms + interval_ms:
        return AssignorChange(newest, None, dropped_bytes)
    return AssignorChange(None, newest, dropped_bytes)


def with_unread_reasons(group: ConsumerGroup, member: ConsumerGroupMember, beat: Beat) -> Beat:
    """Return a heartbeat whose assignors have the saved reasons, too, unless a target knows them.

    A target that is older than the group's epoch may have been begun before they came, and one that
    the broker has computed knows none.
    """
    sent, saved = beat.client_assignors, member.metadata.client_assignors
    is_read = (
        group.saved.client_assignor is not None
        and group.saved.assignment_epoch == group.saved.epoch
    )
    if sent is None or is_read or offer_of(sent) != offer_of(saved):
        return beat
    return beat._replace(client_assignors=with_reasons(sent, saved))


def note_assignor_change(
    turn: Turn, group: ConsumerGroup, member_id: str, change: AssignorChange
) -> None:
    """Remember what has to wait to be saved, and when something was saved.

    Called after that was saved. Metadata for which there is no room is for the log.
    """
    member = group.saved.members[member_id]
    offering = group.live.offering_members.setdefault(member_id, OfferingMember())
    offering.early = change.early
    waiting_bytes = 0
    if change.early is not None:
        saved_bytes = metadata_bytes(member.metadata.client_assignors)
        waiting_bytes = max(0, metadata_bytes(change.early) - saved_bytes)
    _set_waiting_bytes(group, offering, waiting_bytes)
    if change.due is not None:
        offering.saved_ms = turn.now.mono_ms
        if has_reason(change.due):
            offering.asked_ms = turn.now.mono_ms
    if change.dropped_bytes:
        _note_no_room(turn, group, member, change.dropped_bytes)


def _set_waiting_bytes(group: ConsumerGroup, offering: OfferingMember, size_bytes: int) -> None:
    """Set by how much what a member has waiting is larger than what is saved, and count it."""
    group.live.waiting_metadata_bytes += size_bytes - offering.waiting_bytes
    offering.waiting_bytes = size_bytes


def _note_no_room(
    turn: Turn, group: ConsumerGroup, member: ConsumerGroupMember, size_bytes: int
) -> None:
    """Log that the metadata of a member has no room, unless the log has said so of its group."""
    noted_ms = group.live.no_room_noted_ms
    # A full group has many members, each of which may send again and again.
    if noted_ms is not None and turn.now.mono_ms < noted_ms + NO_ROOM_NOTE_INTERVAL_MS:
        return
    group.live.no_room_noted_ms = turn.now.mono_ms
    turn.note(
        "warning",
        f"group {group.group_id}: there is no room for the {size_bytes} bytes of metadata that "
        f"member {member.name_in_log} sends for its client-side assignors: those of all members "
        f"may have {MAX_GROUP_METADATA_BYTES}; its older metadata is kept; send less user data",
    )


def told_answer(group: ConsumerGroup, member: ConsumerGroupMember) -> TargetAnswer:
    """Return what comes with the assignment that a member is told now.

    A member that has yet to give up partitions for a newer target is at its older epoch, and is
    told the same as before; after a restart, nothing. But an error of the newer target it is told
    at once: another target may take its place before the member has given up what it must. A
    client that offers no assignors is told nothing, as it need not know how to read over it.
    """
    if not member.metadata.client_assignors:
        return records.NO_ANSWER
    newest = member.target_answer
    if member.epoch == group.saved.assignment_epoch:
        return newest
    offering = group.live.offering_members.get(member.member_id)
    told = records.NO_ANSWER if offering is None else offering.told
    return told._replace(error=newest.error) if newest.error else told


def note_told(group: ConsumerGroup, member: ConsumerGroupMember) -> None:
    """Remember what came with the assignment that a member is told now."""
    told, members = told_answer(group, member), group.live.offering_members
    if told != records.NO_ANSWER or member.member_id in members:
        members.setdefault(member.member_id, OfferingMember()).told = told


def forget(group: ConsumerGroup, member_id: str) -> None:
    """Forget what is known of a member that is removed or replaced."""
    offering = group.live.offering_members.pop(member_id, None)
    if offering is not None:
        _set_waiting_bytes(group, offering, 0)
