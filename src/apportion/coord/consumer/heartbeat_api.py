"""The API ConsumerGroupHeartbeat (KIP-848): its checks without the group, and its response.

The request becomes a `Beat`, which `heartbeat.py` applies to the group.
Versions: 0; 1 brings SubscribedTopicRegex and ids that the members make themselves (KIP-1082).
"""

from apportion.coord.config import GroupSettings
from apportion.coord.consumer import client_targets, offering_members
from apportion.coord.consumer.beat import AWAY, JOINING, LEAVING, Beat, is_blank
from apportion.coord.consumer.client_assignors import (
    AgreedAssignor,
    check_assignors,
    metadata_for,
    to_saved_assignors,
)
from apportion.coord.consumer.heartbeat import HeartbeatResult, heartbeat, leave
from apportion.coord.consumer.intervals import book_next_heartbeat
from apportion.coord.consumer.state import ConsumerGroup, ConsumerGroupMember
from apportion.coord.consumer.steady import steady_heartbeat_or_none
from apportion.coord.records import fits_in_key
from apportion.coord.turn import Turn
from apportion.errors import Code, Refused
from apportion.machine import Arrived
from apportion.wire.fields import replaced
from apportion.wire.messages.consumer_group_heartbeat import (
    Assignment,
    AssignorVersion,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)
from apportion.wire.records.groups import RecordClientAssignor
from apportion.wire.uuids import new_member_id


def consumer_group_heartbeat(turn: Turn, arrived: Arrived) -> None:
    """Handle ConsumerGroupHeartbeat: the member lives, joins or leaves.

    Errors: INVALID_REQUEST, UNSUPPORTED_ASSIGNOR, then those of `heartbeat.heartbeat` or
    `heartbeat.leave`.
    """
    result = steady_heartbeat_or_none(turn, arrived)
    if result is None:
        request: ConsumerGroupHeartbeatRequest = arrived.request
        check_request(request, arrived.version, turn.settings)
        if request.member_epoch in (LEAVING, AWAY):
            leave(turn, beat_of(arrived))
            # The response repeats the epoch of the leave and tells no heartbeat interval, as in
            # Kafka.
            turn.reply(
                arrived.ticket,
                ConsumerGroupHeartbeatResponse(
                    member_id=request.member_id, member_epoch=request.member_epoch
                ),
            )
            return
        result = heartbeat(turn, beat_of(arrived))
    turn.reply(arrived.ticket, _accept(turn, result))


def steady_response_or_none(turn: Turn, arrived: Arrived) -> ConsumerGroupHeartbeatResponse | None:
    """Handle a steady ConsumerGroupHeartbeat; return None if it is not found steady.

    Nothing is emitted: what it changes is not saved, and may be done twice.
    """
    result = steady_heartbeat_or_none(turn, arrived)
    return None if result is None else _accept(turn, result)


def _accept(turn: Turn, result: HeartbeatResult) -> ConsumerGroupHeartbeatResponse:
    """Count an accepted heartbeat, book the member's next one, and return the response."""
    result.group.live.counts.heartbeats += 1
    interval_ms = book_next_heartbeat(turn, result.group, result.member)
    if result.includes_assignment:
        offering_members.note_told(result.group, result.member)
    return heartbeat_response(result, interval_ms)


def beat_of(arrived: Arrived) -> Beat:
    """Return a ConsumerGroupHeartbeat as `heartbeat.py` takes it."""
    request: ConsumerGroupHeartbeatRequest = arrived.request
    return Beat(
        group_id=request.group_id,
        member_id=request.member_id or new_member_id(arrived.fresh),
        epoch=request.member_epoch,
        caller=arrived.caller,
        instance_id=request.instance_id,
        rack_id=request.rack_id,
        rebalance_timeout_ms=request.rebalance_timeout_ms,
        topics=request.subscribed_topic_names,
        regex=request.subscribed_topic_regex,
        assignor=request.server_assignor,
        owned=request.topic_partitions,
        client_assignors=offered_assignors(request),
        access=arrived.access,
    )


def check_request(
    body: ConsumerGroupHeartbeatRequest, version: int, settings: GroupSettings
) -> None:
    """Refuse a ConsumerGroupHeartbeat that is wrong for any group.

    Errors: INVALID_REQUEST, UNSUPPORTED_ASSIGNOR.
    """
    # Kafka 4.1's order. The two lengths are checked only here: Kafka fails at the record's key,
    # with UNKNOWN_SERVER_ERROR.
    for is_wrong, why in (
        (
            # KIP-1082: the client makes its id; in version 0 the coordinator makes it at the first
            # heartbeat.
            (version >= 1 or body.member_epoch > 0 or body.member_epoch == LEAVING)
            and is_blank(body.member_id),
            "MemberId is empty.",
        ),
        (is_blank(body.group_id), "GroupId is empty."),
        (body.instance_id is not None and is_blank(body.instance_id), "InstanceId is empty."),
        (body.rack_id is not None and is_blank(body.rack_id), "RackId is empty."),
        (not fits_in_key(body.group_id), "GroupId is too long."),
        (not fits_in_key(body.member_id), "MemberId is too long."),
    ):
        if is_wrong:
            raise Refused(Code.INVALID_REQUEST, why)
    if body.member_epoch == JOINING:
        check_join(body)
    # Without an instance id no successor could take the membership over.
    elif body.member_epoch == AWAY and body.instance_id is None:
        raise Refused(
            Code.INVALID_REQUEST, "Only a member with an InstanceId can leave temporarily."
        )
    elif body.member_epoch < AWAY:
        raise Refused(Code.INVALID_REQUEST, f"MemberEpoch {body.member_epoch} is not valid.")
    if body.client_assignors:
        check_assignors(body.client_assignors)
    assignor = body.server_assignor
    # As in Kafka after all INVALID_REQUEST: the request is right, only the broker lacks the
    # assignor.
    if assignor is not None and assignor not in settings.group_consumer_assignors:
        offered = ", ".join(settings.group_consumer_assignors)
        raise Refused(
            Code.UNSUPPORTED_ASSIGNOR,
            f"ServerAssignor {assignor} is not offered here; there is {offered}: ask for one of "
            f"these (group.remote.assignor), or add {assignor} to the broker's "
            "group.consumer.assignors.",
        )


def check_join(body: ConsumerGroupHeartbeatRequest) -> None:
    """Refuse a ConsumerGroupHeartbeat that joins and lacks a required field.

    Errors: INVALID_REQUEST.
    """
    if body.rebalance_timeout_ms == -1:
        raise Refused(Code.INVALID_REQUEST, "A member that joins must send a RebalanceTimeoutMs.")
    # KIP-848: a member that joins owns nothing. Others may have its partitions by now.
    if body.topic_partitions is None or body.topic_partitions:
        raise Refused(Code.INVALID_REQUEST, "A member that joins must send empty TopicPartitions.")
    if body.subscribed_topic_names is None and body.subscribed_topic_regex is None:
        raise Refused(Code.INVALID_REQUEST, "A member that joins must send a subscription.")


def offered_assignors(
    body: ConsumerGroupHeartbeatRequest,
) -> tuple[RecordClientAssignor, ...] | None:
    """Return the client-side assignors of a heartbeat; None where it leaves them as they are."""
    if body.client_assignors is None:
        # The successor of a static member may be of a client that knows no client-side assignors.
        return () if body.member_epoch == JOINING else None
    return to_saved_assignors(body.client_assignors)


def heartbeat_response(result: HeartbeatResult, interval_ms: int) -> ConsumerGroupHeartbeatResponse:
    """Return the ConsumerGroupHeartbeat response, without an assignment that the member has."""
    group, member, includes_assignment = result
    response = ConsumerGroupHeartbeatResponse(
        member_id=member.member_id,
        member_epoch=member.epoch,
        heartbeat_interval_ms=interval_ms,
        assignment=told_assignment(group, member) if includes_assignment else None,
    )
    agreed = group.saved.client_assignor
    if agreed is None:
        return response
    return replaced(
        response,
        should_compute_assignment=client_targets.should_compute(group, member.member_id),
        requested_version=requested_version(member, agreed),
    )


def told_assignment(group: ConsumerGroup, member: ConsumerGroupMember) -> Assignment:
    """Return the partitions of a member, and what its client-side assignor said."""
    return Assignment(
        topic_partitions=tuple(
            TopicPartitions(topic_id=topic_id, partitions=partitions)
            # Only `assigned`: a client revokes by not finding a partition here, so those pending
            # revocation are left out.
            for topic_id, partitions in group.saved.units.as_topics(member.assigned.units.tolist())
        ),
        **offering_members.told_answer(group, member)._asdict(),
    )


def requested_version(member: ConsumerGroupMember, agreed: AgreedAssignor) -> AssignorVersion:
    """Return the version in which the member has to send its metadata again.

    Without a name if it need not.
    """
    sent = metadata_for(member.metadata.client_assignors, agreed.name)
    if sent is None or sent.version == agreed.version:
        return AssignorVersion()
    return AssignorVersion(name=agreed.name, version=agreed.version)
