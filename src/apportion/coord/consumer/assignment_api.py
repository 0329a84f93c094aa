"""The APIs ConsumerGroupPrepareAssignment and ConsumerGroupInstallAssignment (KIP-848).

By them the chosen member of a group computes its target (`client_targets.py`). Apache Kafka never
shipped them. Versions: 0 of both.
"""

from collections.abc import Mapping

from apportion.assign import checks
from apportion.assign.by_name import Given, TopicParts, by_topic
from apportion.coord.consumer import client_targets
from apportion.coord.consumer.client_assignors import (
    ChosenMember,
    PreparedGroup,
    metadata_for,
)
from apportion.coord.consumer.client_targets import InstalledTarget
from apportion.coord.consumer.state import ConsumerGroup, ConsumerGroupMember
from apportion.coord.consumer.targets import TopicLayout, in_assignor_order
from apportion.coord.records import TargetAnswer
from apportion.coord.turn import Turn
from apportion.errors import Code, Refused
from apportion.machine import Arrived
from apportion.topics import Topic
from apportion.wire.messages.consumer_group_install_assignment import (
    ConsumerGroupInstallAssignmentRequest,
    ConsumerGroupInstallAssignmentResponse,
    InstalledMember,
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
NO_TARGET = InstalledTarget(Given(), TargetAnswer())


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
    topics = TopicLayout.of(group, turn.topics).topics
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


def assignable_topics(topics: list[Topic]) -> tuple[AssignableTopic, ...]:
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

    An answer that is no assignment is refused, and the older target stays for everybody; then
    another member is chosen.
    Errors: those of `checked_caller`; STALE_MEMBER_EPOCH if the group epoch is not the one that the
    member was told last, and it is then told again to compute; INVALID_REQUEST.
    """
    request: ConsumerGroupInstallAssignmentRequest = arrived.request
    forget_prepared_if_behind(turn, request)
    group, chosen = checked_caller(turn, request)
    prepared = chosen.prepared
    if prepared is None or not client_targets.is_prepared_epoch(prepared, request.group_epoch):
        client_targets.forget_prepared(group, chosen.member_id)
        raise stale_epoch_error(group, request.group_epoch, prepared)
    try:
        targets = checked_targets(prepared, request)
    except Refused as refusal:
        # Live state and a line in the log, before the refusal: nothing is saved.
        client_targets.fail(turn, group, chosen, f": {refusal.why}")
        raise
    client_targets.save_installed(turn, group, prepared, targets)
    turn.reply(arrived.ticket, ConsumerGroupInstallAssignmentResponse())


def stale_epoch_error(
    group: ConsumerGroup, claimed: int, prepared: PreparedGroup | None
) -> Refused:
    """Return the refusal of a target for another group epoch than the one that was prepared."""
    told = "none was prepared" if prepared is None else f"epoch {prepared.epoch} was prepared"
    return Refused(
        Code.STALE_MEMBER_EPOCH,
        f"The target assignment is for epoch {claimed} of group {group.group_id}, and {told}.",
    )


def checked_targets(
    prepared: PreparedGroup, request: ConsumerGroupInstallAssignmentRequest
) -> dict[str, InstalledTarget]:
    """Return the installed target of every member that was told; refuse what is no assignment.

    Errors: INVALID_REQUEST.
    """
    answer: dict[str, Given] = {}
    for member in request.members:
        if member.member_id in answer:
            raise checks.invalid_assignment(f"answers for {member.member_id!r} twice")
        answer[member.member_id] = Given(
            tuple(
                TopicParts(topic_name(prepared, part.topic_id, member), part.partitions)
                for part in member.topic_partitions
            )
        )
    checks.check_metadata_sizes([len(member.metadata) for member in request.members])
    # Through the module: the simulator replaces the guard by a faulty one (docs/guards.md).
    checks.check_given(prepared.shapes(), prepared.members, answer)
    # An error is of the whole assignment, so every member is told.
    nothing = NO_TARGET._replace(answer=TargetAnswer(error=request.error))
    targets = dict.fromkeys(prepared.members, nothing)
    for member in request.members:
        targets[member.member_id] = InstalledTarget(
            Given(by_topic(pairs_of(answer[member.member_id]))),
            TargetAnswer(request.error, member.metadata_version, bytes(member.metadata)),
        )
    return targets


def topic_name(prepared: PreparedGroup, topic_id: bytes, member: InstalledMember) -> str:
    """Return the name of a topic in an installed assignment.

    Errors: INVALID_REQUEST for a topic of which the chosen member was not told.
    """
    topic = prepared.topics.get(topic_id)
    if topic is None:
        raise checks.invalid_assignment(
            f"gives partitions of topic {topic_id.hex()} to {member.member_id!r}, but the group "
            "has no such topic"
        )
    return topic.name


def pairs_of(given: Given) -> list[tuple[str, int]]:
    """Return the partitions of an assignment one by one."""
    return [(topic, number) for topic, numbers in given.partitions for number in numbers]
