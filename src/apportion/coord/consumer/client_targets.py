"""Target assignments by client-side assignors: a member of the group computes them (KIP-848).

The problem. The assignor runs in a member: it may be slow, vanish, or answer what is no assignment,
and the group changes meanwhile. At most one member computes at a time, and no other member may
suffer if it does so badly.

The method. The member whose heartbeat finds a new target due is chosen, and the response tells it
so: a member that sends nothing is never waited for. It asks for the group as it is
(ConsumerGroupPrepareAssignment) and sends the target back (ConsumerGroupInstallAssignment), both in
`assignment_api.py`. Until then all members follow the older target.

The result is for the group epoch that was prepared. If the group is ahead of it by then, the result
is saved for that epoch, and another computation follows when the assignment interval allows it. So
a group whose members come and go without a pause gets targets all the same. Who has gone meanwhile
is left out; who has come waits for the next one.

If the chosen member is removed, the next heartbeat chooses another. If it is late, or its answer is
no assignment, the log says so, and the member is passed over until all others have failed, too;
the pauses are those of custom assignors (`custom_targets.py`). It keeps its membership.

A restart forgets who was chosen, and the next heartbeat chooses anew.
"""

from collections.abc import Mapping
from typing import NamedTuple

from apportion.assign.by_name import Given, Subscription
from apportion.coord import records
from apportion.coord.consumer import custom_targets, fencing
from apportion.coord.consumer.beat import AWAY, JOINING, Beat
from apportion.coord.consumer.client_assignors import (
    AgreedAssignor,
    ChosenMember,
    OfferingMember,
    PreparedGroup,
    has_reason,
    is_other_offer,
    offer_of,
    with_reasons,
)
from apportion.coord.consumer.state import ConsumerGroup, ConsumerGroupMember
from apportion.coord.records import TargetAnswer
from apportion.coord.turn import Turn
from apportion.deadlines import Key
from apportion.topics import Topic
from apportion.wire.records.groups import RecordClientAssignor

# Where the assignment interval is shorter: metadata and reasons are saved no more often than this.
SHORTEST_INTERVAL_MS = 1_000
PREPARE_INTERVAL_MS = 1_000  # between two responses to the same chosen member
SHORTEST_TIMEOUT_MS = 100  # an answer takes two heartbeats at least
CLIENT_TARGET = "client target"
"""The deadline by which the chosen member has to install a target assignment."""


class InstalledTarget(NamedTuple):
    """The target of one member as a client-side assignor has computed it."""

    given: Given
    answer: TargetAnswer


class AssignorChange(NamedTuple):
    """The effect of a heartbeat on the client-side assignors of its member.

    due: what is to be saved now; None for nothing. early: what has to wait.
    """

    due: tuple[RecordClientAssignor, ...] | None
    early: tuple[RecordClientAssignor, ...] | None


def assignor_change_or_none(
    turn: Turn, group: ConsumerGroup, member: ConsumerGroupMember, beat: Beat
) -> AssignorChange | None:
    """Return what a heartbeat changes about the client-side assignors of its member.

    Metadata that has only changed is saved once in an assignment interval, and so are reasons,
    because no target is computed more often. So neither measured values nor reasons can write
    records, or begin epochs, with each heartbeat. The newest ones wait for the first heartbeat
    after the interval.
    """
    offering = group.live.offering_members.get(member.member_id)
    early = None if offering is None else offering.early
    sent, before = beat.client_assignors, member.metadata.client_assignors
    newest = early if sent is None else sent
    if newest is None:  # as in every steady heartbeat
        return None
    if early is None and newest == before and not has_reason(newest):
        return None
    if early is not None and offer_of(newest) == offer_of(early):
        # Also of a member that joins again, or has metadata of another version: the response to
        # the heartbeat that brought a reason has accepted it.
        newest = with_reasons(newest, early)
    if beat.epoch == JOINING or is_other_offer(before, newest):
        return AssignorChange(due=newest, early=None)
    last_ms = None
    if offering is not None:
        last_ms = offering.asked_ms if has_reason(newest) else offering.saved_ms
    interval_ms = max(
        turn.settings_of(group.group_id).group_consumer_assignment_interval_ms,
        SHORTEST_INTERVAL_MS,
    )
    if last_ms is None or turn.now.mono_ms >= last_ms + interval_ms:
        if sent is None and not fencing.has_room_for_metadata(group, member, newest):
            # The heartbeat that brought it has been answered: nobody can be told any more.
            newest = None
        return AssignorChange(due=newest, early=None)
    return AssignorChange(due=None, early=newest)


def note_assignor_change(
    turn: Turn, group: ConsumerGroup, member_id: str, change: AssignorChange
) -> None:
    """Remember what has to wait to be saved, and when something was saved."""
    offering = group.live.offering_members.setdefault(member_id, OfferingMember())
    offering.early = change.early
    if change.due is not None:
        offering.saved_ms = turn.now.mono_ms
        if has_reason(change.due):
            offering.asked_ms = turn.now.mono_ms


def should_compute(group: ConsumerGroup, member_id: str) -> bool:
    """Return whether the member has to compute the group's target, and has not prepared for it."""
    chosen = group.live.chosen
    return chosen is not None and chosen.prepared is None and chosen.member_id == member_id


def is_chosen(group: ConsumerGroup, member_id: str) -> bool:
    """Return whether the member is the one that computes the group's target."""
    chosen = group.live.chosen
    return chosen is not None and chosen.member_id == member_id


def uses_agreed_assignor(group: ConsumerGroup, chosen: ChosenMember) -> bool:
    """Return whether the chosen member computes by the assignor on which its group agrees now.

    The members may have agreed on another one since, or the broker assigns.
    """
    return chosen.assignor == group.saved.client_assignor


def is_prepared_epoch(prepared: PreparedGroup, epoch: int) -> bool:
    """Return whether a target for a group epoch is one for the group that the member was told."""
    return epoch == prepared.epoch


def choose_if_none(
    turn: Turn, group: ConsumerGroup, assignor: AgreedAssignor, member_id: str
) -> None:
    """Have the sender of a heartbeat compute the target that is due, unless a member does so."""
    live = group.live
    if live.chosen is not None and live.chosen.assignor == assignor:
        return
    forget(turn, group)
    if is_passed_over(group, assignor, member_id):
        return
    live.chosen = ChosenMember(
        member_id, assignor, turn.now.mono_ms, timeout_ms(turn, group, member_id)
    )
    turn.deadlines.arm((CLIENT_TARGET, group.group_id), turn.now.mono_ms + live.chosen.timeout_ms)


def is_passed_over(group: ConsumerGroup, assignor: AgreedAssignor, member_id: str) -> bool:
    """Return whether the member has failed, and another that has not can be chosen."""
    return has_failed(group, assignor, member_id) and any(
        # A member that left temporarily sends no heartbeats.
        not has_failed(group, assignor, member.member_id) and member.epoch != AWAY
        for member in group.saved.members.values()
    )


def has_failed(group: ConsumerGroup, assignor: AgreedAssignor, member_id: str) -> bool:
    """Return whether the member was chosen and failed, since it last succeeded or all failed."""
    offering = group.live.offering_members.get(member_id)
    return offering is not None and offering.failed_with == assignor.name


def timeout_ms(turn: Turn, group: ConsumerGroup, member_id: str) -> int:
    """Return how long the member may take for a target assignment."""
    rebalance_timeout_ms = group.saved.members[member_id].metadata.rebalance_timeout_ms
    # Kafka takes any timeout but -1, also one below 0.
    return min(
        max(rebalance_timeout_ms, SHORTEST_TIMEOUT_MS), turn.settings.apportion_assignor_timeout_ms
    )


def may_prepare(turn: Turn, chosen: ChosenMember) -> bool:
    """Return whether the chosen member may be told of its group (again)."""
    # The response takes time in proportion to the group.
    last_ms = chosen.prepared_ms
    return last_ms is None or turn.now.mono_ms >= last_ms + PREPARE_INTERVAL_MS


def prepare(
    turn: Turn, group: ConsumerGroup, topics: list[Topic], members: list[ConsumerGroupMember]
) -> None:
    """Remember what the chosen member is told of its group."""
    assert group.live.chosen is not None, "the caller has checked the sender"
    saved = group.saved
    prepared = PreparedGroup(
        epoch=saved.epoch,
        topics={topic.id: topic for topic in topics},
        members={
            member.member_id: Subscription(
                topics=saved.subscription(member.metadata),
                instance_id=member.metadata.instance_id,
            )
            for member in members
        },
    )
    group.live.chosen = group.live.chosen._replace(prepared=prepared, prepared_ms=turn.now.mono_ms)


def forget_prepared(group: ConsumerGroup, member_id: str) -> None:
    """Forget what a member was told of its group, if it is the chosen one: it is told again."""
    chosen = group.live.chosen
    if chosen is not None and chosen.member_id == member_id:
        group.live.chosen = chosen._replace(prepared=None)


def forget(turn: Turn, group: ConsumerGroup) -> None:
    """Wait no longer for a target of the chosen member, if there is one."""
    if group.live.chosen is not None:
        group.live.chosen = None
        turn.deadlines.disarm((CLIENT_TARGET, group.group_id))


def forget_member(turn: Turn, group: ConsumerGroup, member_id: str) -> None:
    """Wait no longer for a member that is removed or replaced, and forget what it did."""
    group.live.offering_members.pop(member_id, None)
    if is_chosen(group, member_id):
        forget(turn, group)


def save_installed(
    turn: Turn,
    group: ConsumerGroup,
    prepared: PreparedGroup,
    targets: Mapping[str, InstalledTarget],
) -> None:
    """Save the target that the chosen member has installed; it must have been checked.

    Only members whose target or answer changes get a record. targets: members that are not in it
    are assigned nothing.
    """
    assert group.live.chosen is not None, "the caller has checked the sender"
    assignor = group.live.chosen.assignor.name
    # It alone is forgiven: others that have failed would keep the group waiting again.
    if (offering := group.live.offering_members.get(group.live.chosen.member_id)) is not None:
        offering.failed_with = None
    forget(turn, group)
    ids = {topic.name: topic.id for topic in prepared.topics.values()}
    for told_id, subscription in prepared.members.items():
        # A static member may have been replaced meanwhile: the successor gets its part.
        member = custom_targets.current_member_or_none(group, told_id, subscription.instance_id)
        if member is None:
            continue
        given, answer = targets[told_id]
        after = {ids[topic]: numbers for topic, numbers in given.partitions}
        before = group.saved.units.as_topics(
            () if member.target is None else member.target.tolist()
        )
        if member.target is None or after != dict(before) or answer != member.target_answer:
            turn.emit(
                records.target_assignment(group.group_id, member.member_id, after.items(), answer)
            )
    # Behind the targets, as in Kafka: whoever reads this epoch in the log has read its targets.
    turn.emit(records.assignment_epoch(group.group_id, prepared.epoch, turn.now.wall_ms))
    group.live.target_computed_ms = turn.now.mono_ms
    group.live.failed_target = None
    custom_targets.note_left_out(
        turn,
        group,
        assignor,
        prepared.topics.values(),
        sum(len(numbers) for target in targets.values() for _, numbers in target.given.partitions),
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


def fail(turn: Turn, group: ConsumerGroup, chosen: ChosenMember, what: str) -> None:
    """Keep the older targets of a group whose chosen member has failed, and pass it over.

    what: the rest of the sentence about the member, for the log.
    """
    forget(turn, group)
    if group.live.renewing_member_id == chosen.member_id:
        # Its heartbeat makes no target: that of another is awaited.
        group.live.renewing_member_id = None
    is_new_round = has_failed(group, chosen.assignor, chosen.member_id)
    if is_new_round:
        # All had failed, or it would have been passed over.
        for each in group.live.offering_members.values():
            each.failed_with = None
    offering = group.live.offering_members.setdefault(chosen.member_id, OfferingMember())
    offering.failed_with = chosen.assignor.name
    metadata = group.saved.members[chosen.member_id].metadata
    custom_targets.note_failure(
        turn,
        group,
        assignor=chosen.assignor.name,
        epoch=group.saved.epoch if chosen.prepared is None else chosen.prepared.epoch,
        what=f"member {chosen.member_id} (client {metadata.client_id}, "
        # Brokers keep Java's form of an address, with a slash before it.
        f"host {metadata.client_host.removeprefix('/')}){what}",
        then=f"; {who_is_next(group, chosen)}",
        is_new_round=is_new_round,
    )


def who_is_next(group: ConsumerGroup, failed: ChosenMember) -> str:
    """Return who is asked for a target after a member has failed, for the log."""
    if is_passed_over(group, failed.assignor, failed.member_id):
        return "another member is asked next"
    others = (
        " but those that left for now"
        if any(
            not has_failed(group, failed.assignor, member_id) for member_id in group.saved.members
        )
        else ""
    )
    return f"all members{others} have failed, and may be asked again"


def expire_client_target(turn: Turn, key: Key) -> None:
    """Pass over the chosen member, which has not installed a target assignment in time."""
    group = turn.ledger.consumer_group_or_none(key[1])
    chosen = None if group is None else group.live.chosen
    if group is None or chosen is None:
        return
    if not uses_agreed_assignor(group, chosen):
        # No heartbeat has come since. It could not install any more, so it is not late.
        forget(turn, group)
        return
    fail(
        turn,
        group,
        chosen,
        f" has not installed an assignment within {chosen.timeout_ms} ms",
    )
