"""The APIs ConsumerGroupPrepareAssignment and ConsumerGroupInstallAssignment (KIP-848).

By them the chosen member of a group computes its target (`client_targets.py`). Apache Kafka never
shipped them. Versions: 0 of both.
"""

from collections.abc import Mapping

from apportion.coord.consumer import client_targets
from apportion.coord.consumer.asked_members import in_assignor_order
from apportion.coord.consumer.client_assignors import (
    ChosenMember,
    PreparedGroup,
    metadata_for,
)
from apportion.coord.consumer.installed_check import (
    CheckInstalled,
    InstalledTargets,
    WrongInstall,
    checked_targets,
    is_large,
    kept,
)
from apportion.coord.consumer.state import ConsumerGroup, ConsumerGroupMember
from apportion.coord.consumer.topic_layout import subscribed_topics
from apportion.coord.error_responses import GROUP_ERROR_RESPONSES
from apportion.coord.turn import Turn
from apportion.errors import Code, Refused
from apportion.machine import Arrived
from apportion.topics import Topic
from apportion.wire.messages.consumer_group_install_assignment import (
    ConsumerGroupInstallAssignmentRequest,
    ConsumerGroupInstallAssignmentResponse,
)
from apportion.wire.messages.consumer_group_prepare_assignment import (
    AssignableMember,
    AssignablePartition,
    AssignableTopic,
    AssignorMetadata,
    ConsumerGroupPrepareAssignmentRequest,
    ConsumerGroupPrepareAssignmentResponse,
    TargetPartitions,
)

AssignmentRequest = ConsumerGroupPrepareAssignmentRequest | ConsumerGroupInstallAssignmentRequest
# More are not begun at a time, so that groups which come and go cannot pile computations up.
MOST_AT_ONCE = 100


def prepare_assignment(turn: Turn, arrived: Arrived) -> None:
    """Return the group to the member that computes its target.

    The member may ask again, once a second, after a response that was lost: the newest counts.
    Errors: those of `checked_caller`; COORDINATOR_LOAD_IN_PROGRESS, after which clients ask again.
    """
    request: ConsumerGroupPrepareAssignmentRequest = arrived.request
    forget_prepared_if_behind(turn, request)
    group, chosen = checked_caller(turn, request)
    if not client_targets.may_prepare(turn, chosen):
        raise Refused(
            Code.COORDINATOR_LOAD_IN_PROGRESS,
            f"Member {chosen.member_id} was told of group {group.group_id} less than "
            f"{client_targets.PREPARE_INTERVAL_MS} ms ago.",
        )
    refuse_during_check(turn, group.group_id)
    topics = subscribed_topics(group, turn.topics)
    members = in_assignor_order(group.saved.members)
    client_targets.prepare(turn, group, topics, members)
    ids = {topic.name: topic.id for topic in topics}
    turn.reply(
        arrived.ticket,
        ConsumerGroupPrepareAssignmentResponse(
            group_epoch=group.saved.epoch,
            assignor_name=chosen.assignor.name,
            assignor_version=chosen.assignor.version,
            members=tuple(
                assignable_member(group, member, chosen.assignor.name, ids) for member in members
            ),
            topics=assignable_topics(topics),
        ),
    )


def forget_prepared_if_behind(turn: Turn, request: AssignmentRequest) -> None:
    """Forget what the chosen member was told if it sends a request with another epoch than its own.

    It has missed a response, and gives its computation up when the request is refused: its next
    heartbeat has to tell it again.
    """
    member = turn.ledger.consumer_member_or_none(request.group_id, request.member_id)
    if member is not None and member.epoch != request.member_epoch:
        group = turn.ledger.consumer_group(request.group_id)
        client_targets.forget_prepared(group, member.member_id)


def checked_caller(turn: Turn, request: AssignmentRequest) -> tuple[ConsumerGroup, ChosenMember]:
    """Return the group of the member that computes its target, or refuse the sender.

    Errors, in this order: GROUP_ID_NOT_FOUND, UNKNOWN_MEMBER_ID, STALE_MEMBER_EPOCH,
    UNKNOWN_MEMBER_ID for a member that was not chosen.
    """
    group, member_id = turn.ledger.consumer_group_or_none(request.group_id), request.member_id
    if group is None:
        raise Refused(Code.GROUP_ID_NOT_FOUND, f"There is no consumer group {request.group_id}.")
    member = group.saved.members.get(member_id)
    if member is None:
        raise Refused(
            Code.UNKNOWN_MEMBER_ID, f"Group {group.group_id} has no member {member_id!r}."
        )
    if member.epoch != request.member_epoch:
        raise Refused(
            Code.STALE_MEMBER_EPOCH,
            f"Member {member_id} is at epoch {member.epoch}, not {request.member_epoch}.",
        )
    chosen = group.live.chosen
    # Through the module: the simulator replaces the guard by a faulty one (docs/guards.md).
    if (
        chosen is None
        or not client_targets.is_chosen(group, member_id)
        or not client_targets.uses_agreed_assignor(group, chosen)
    ):
        raise Refused(
            Code.UNKNOWN_MEMBER_ID,
            f"Member {member_id} is not chosen to compute the target assignment of group "
            f"{group.group_id}.",
        )
    return group, chosen


def assignable_member(
    group: ConsumerGroup, member: ConsumerGroupMember, assignor: str, ids: Mapping[str, bytes]
) -> AssignableMember:
    """Return a member as its group's client-side assignor is told of it."""
    metadata = member.metadata
    sent = metadata_for(metadata.client_assignors, assignor)
    assert sent is not None, "all members offer the assignor on which they have agreed"
    target = () if member.target is None else member.target.tolist()
    return AssignableMember(
        member_id=member.member_id,
        member_epoch=member.epoch,
        instance_id=metadata.instance_id,
        rack_id=metadata.rack_id,
        subscribed_topic_ids=tuple(
            ids[name] for name in group.saved.subscription(metadata) if name in ids
        ),
        assignor=AssignorMetadata(version=sent.version, reason=sent.reason, metadata=sent.metadata),
        topic_partitions=tuple(
            TargetPartitions(topic_id=topic_id, partitions=partitions)
            for topic_id, partitions in group.saved.units.as_topics(target)
        ),
    )


def assignable_topics(topics: tuple[Topic, ...]) -> tuple[AssignableTopic, ...]:
    """Return topics as a client-side assignor is told of them, with the racks that are known."""
    most = max((topic.partitions for topic in topics), default=0)
    # Shared by all topics without racks, and by the next request: a group may have a million
    # partitions, most often of small topics.
    partitions = RACKLESS if most <= len(RACKLESS) else rackless(most)
    return tuple(
        AssignableTopic(
            topic_id=topic.id,
            topic_name=topic.name,
            partitions=tuple(
                AssignablePartition(partition=number, racks=racks)
                for number, racks in enumerate(topic.racks)
            )
            or partitions[: topic.partitions],
        )
        for topic in topics
    )


def rackless(count: int) -> tuple[AssignablePartition, ...]:
    """Return the first partitions of a topic of which no rack is known."""
    return tuple(AssignablePartition(partition=number) for number in range(count))


RACKLESS = rackless(1_000)


def install_assignment(turn: Turn, arrived: Arrived) -> None:
    """Save the target assignment that the chosen member has computed.

    A large one is checked beside the shard before, and its request waits for that. An answer that
    is no assignment is refused, and the older target stays for everybody; then another member is
    chosen.
    Errors: those of `checked_install`; COORDINATOR_LOAD_IN_PROGRESS while another one of the group
    is checked, after which clients ask again; INVALID_REQUEST.
    """
    request: ConsumerGroupInstallAssignmentRequest = arrived.request
    _, prepared = checked_install(turn, request)
    refuse_during_check(turn, request.group_id)
    if not is_large(request):
        end_install(turn, arrived, checked_targets(prepared, request))
        return
    if len(turn.computing[CheckInstalled]) >= MOST_AT_ONCE:
        raise Refused(
            Code.COORDINATOR_LOAD_IN_PROGRESS, f"{MOST_AT_ONCE} target assignments are checked."
        )
    turn.compute(CheckInstalled(request.group_id, kept(arrived), prepared))


def end_check(
    turn: Turn, computation: CheckInstalled, result: InstalledTargets | WrongInstall
) -> None:
    """Answer the request whose target has been checked beside the shard.

    The group may be another by now, or have chosen another member: then it is refused.
    """
    arrived = computation.arrived
    try:
        end_install(turn, arrived, result)
    except Refused as refusal:
        turn.reply(arrived.ticket, GROUP_ERROR_RESPONSES[type(arrived.request)](arrived, refusal))


def fail_check(turn: Turn, computation: CheckInstalled, why: str) -> None:
    """Refuse a target that could not be checked."""
    end_check(turn, computation, WrongInstall(f"the assignment could not be checked: {why}"))


def end_install(turn: Turn, arrived: Arrived, result: InstalledTargets | WrongInstall) -> None:
    """Save a target that has been checked, and answer its request.

    Errors: those of `checked_install`, INVALID_REQUEST.
    """
    chosen, prepared = checked_install(turn, arrived.request)
    group = turn.ledger.consumer_group(arrived.request.group_id)
    if isinstance(result, WrongInstall):
        # Live state and a line in the log, before the refusal: nothing is saved.
        client_targets.fail(turn, group, chosen, f": {result.why}")
        raise Refused(Code.INVALID_REQUEST, result.why)
    client_targets.save_installed(turn, group, prepared, result)
    turn.reply(arrived.ticket, ConsumerGroupInstallAssignmentResponse())


def checked_install(
    turn: Turn, request: ConsumerGroupInstallAssignmentRequest
) -> tuple[ChosenMember, PreparedGroup]:
    """Return the chosen member, and the group that it was told; or refuse the sender.

    Errors: those of `checked_caller`; STALE_MEMBER_EPOCH if the group epoch is not the one that the
    member was told last, and it is then told again to compute.
    """
    forget_prepared_if_behind(turn, request)
    group, chosen = checked_caller(turn, request)
    prepared = chosen.prepared
    if prepared is None or not client_targets.is_prepared_epoch(prepared, request.group_epoch):
        client_targets.forget_prepared(group, chosen.member_id)
        raise stale_epoch_error(group, request.group_epoch, prepared)
    return chosen, prepared


def refuse_during_check(turn: Turn, group_id: str) -> None:
    """Refuse a request while a target of its group is checked beside the shard.

    So what is checked is the newest that a member was told of the group.
    Errors: COORDINATOR_LOAD_IN_PROGRESS.
    """
    if turn.under_way_or_none(CheckInstalled, group_id) is not None:
        raise Refused(
            Code.COORDINATOR_LOAD_IN_PROGRESS,
            f"A target assignment of group {group_id} is being checked.",
        )


def stale_epoch_error(
    group: ConsumerGroup, claimed: int, prepared: PreparedGroup | None
) -> Refused:
    """Return the refusal of a target for another group epoch than the one that was prepared."""
    told = "none was prepared" if prepared is None else f"epoch {prepared.epoch} was prepared"
    return Refused(
        Code.STALE_MEMBER_EPOCH,
        f"The target assignment is for epoch {claimed} of group {group.group_id}, and {told}.",
    )
