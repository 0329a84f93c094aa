"""Target assignments by client-side assignors: a member of the group computes them (KIP-848).

The problem. The assignor runs in a member: it may be slow, vanish, or answer what is no assignment,
and the group changes meanwhile. At most one member computes at a time, and no other member may
suffer if it does so badly.

The method. The member whose heartbeat finds a new target due is chosen, and the response tells it
so: a member that sends nothing is never waited for. It asks for the group as it is
(ConsumerGroupPrepareAssignment) and sends the target back (ConsumerGroupInstallAssignment), both in
`assignment_api.py`. Until then all members follow the older target. It may ask again if a response
is lost, but once in a second at most, because the response takes time in proportion to the group.

A large result is checked beside the shard (`installed_check.py`); meanwhile nobody may prepare or
install another one of the group. The result is for the group epoch that was prepared. If the group
is ahead of it by then, the result is saved for that epoch, and another computation follows when the
assignment interval allows it. So a group whose members come and go without a pause gets targets all
the same. Who has gone meanwhile is left out; who has come waits for the next one.

If the chosen member is removed, the next heartbeat chooses another. If it is late, or its answer is
no assignment, the log says so, and the member is passed over until all others have failed, too;
the pauses are those of every assignor (`target_results.py`). It keeps its membership.

A restart forgets who was chosen, and the next heartbeat chooses anew. What is remembered of each
member, the failed ones included, is in `offering_members.py`.
"""

from apportion.assign.by_name import Subscription
from apportion.coord import records
from apportion.coord.consumer import offering_members, target_results
from apportion.coord.consumer.beat import AWAY
from apportion.coord.consumer.client_assignors import (
    AgreedAssignor,
    ChosenMember,
    OfferingMember,
    PreparedGroup,
)
from apportion.coord.consumer.installed_check import CheckInstalled, InstalledTargets
from apportion.coord.consumer.state import ConsumerGroup, ConsumerGroupMember
from apportion.coord.turn import Turn
from apportion.deadlines import Key
from apportion.topics import Topic

PREPARE_INTERVAL_MS = 1_000  # between two responses to the same chosen member
SHORTEST_TIMEOUT_MS = 100  # an answer takes two heartbeats at least
CLIENT_TARGET = "client target"
"""The deadline by which the chosen member has to install a target assignment."""


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
    turn: Turn,
    group: ConsumerGroup,
    topics: tuple[Topic, ...],
    members: list[ConsumerGroupMember],
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
    offering_members.forget(group, member_id)
    if is_chosen(group, member_id):
        forget(turn, group)


def save_installed(
    turn: Turn,
    group: ConsumerGroup,
    prepared: PreparedGroup,
    targets: InstalledTargets,
) -> None:
    """Save the target that the chosen member has installed; it must have been checked.

    Only members whose target or answer changes get a record. An error without metadata changes
    nothing about a target that stays: the older metadata still say what it means.
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
        member = target_results.current_member_or_none(group, told_id, subscription.instance_id)
        if member is None:
            continue
        given, answer = targets[told_id]
        after = {ids[topic]: numbers for topic, numbers in given.partitions}
        before = dict(
            group.saved.units.as_topics(() if member.target is None else member.target.tolist())
        )
        if member.target is not None and answer.error and not answer.metadata and after == before:
            answer = member.target_answer._replace(error=answer.error)
        if member.target is None or after != before or answer != member.target_answer:
            turn.emit(
                records.target_assignment(group.group_id, member.member_id, after.items(), answer)
            )
    # Behind the targets, as in Kafka: whoever reads this epoch in the log has read its targets.
    turn.emit(records.assignment_epoch(group.group_id, prepared.epoch, turn.now.wall_ms))
    group.live.target_computed_ms = turn.now.mono_ms
    group.live.failed_target = None
    target_results.note_left_out(
        turn,
        group,
        assignor,
        prepared.topics.values(),
        sum(len(numbers) for target in targets.values() for _, numbers in target.given.partitions),
    )


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
    member = group.saved.members[chosen.member_id]
    target_results.note_failure(
        turn,
        group,
        assignor=chosen.assignor.name,
        epoch=group.saved.epoch if chosen.prepared is None else chosen.prepared.epoch,
        what=f"member {member.name_in_log}{what}",
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
    if turn.under_way_or_none(CheckInstalled, group.group_id) is not None:
        # It has installed one, most likely this one: it is late only if that is refused.
        turn.deadlines.arm(key, turn.now.mono_ms + chosen.timeout_ms)
        return
    fail(
        turn,
        group,
        chosen,
        f" has not installed an assignment within {chosen.timeout_ms} ms",
    )
