"""ConsumerGroupDescribe, ListGroups and DeleteGroups, for the groups of one shard.

A request about groups of several shards is split by the node, which joins the responses
(`node/splits.py`).
Versions: ConsumerGroupDescribe 0-1 (1: the member type), ListGroups 0-5 (4: filter by state, 5: by
type), DeleteGroups 0-2.
"""

from collections.abc import Iterable

from apportion.coord.consumer.state import ConsumerGroup, ConsumerGroupMember
from apportion.coord.consumer.units import UnitNumbering
from apportion.coord.group import ALL_OPERATIONS, not_described
from apportion.coord.offsets import delete_group_offsets
from apportion.coord.turn import Turn
from apportion.errors import Code
from apportion.machine import Arrived
from apportion.topics import Topics
from apportion.wire.group_states import GroupState
from apportion.wire.messages import consumer_group_describe as described
from apportion.wire.messages.consumer_group_describe import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
    DescribedGroup,
)
from apportion.wire.messages.delete_groups import (
    DeletableGroupResult,
    DeleteGroupsRequest,
    DeleteGroupsResponse,
)
from apportion.wire.messages.describe_groups import NOT_ASKED
from apportion.wire.messages.list_groups import ListedGroup, ListGroupsRequest, ListGroupsResponse

CLASSIC, CONSUMER = 0, 1
"""Member types of ConsumerGroupDescribe, by protocol."""


def describe_consumer_groups(turn: Turn, arrived: Arrived) -> None:
    """Describe every consumer group that a ConsumerGroupDescribe request names.

    Errors for one group: INVALID_GROUP_ID, GROUP_ID_NOT_FOUND.
    """
    request: ConsumerGroupDescribeRequest = arrived.request
    operations = ALL_OPERATIONS if request.include_authorized_operations else NOT_ASKED
    groups = tuple(_described_group(turn, group_id, operations) for group_id in request.group_ids)
    turn.reply(arrived.ticket, ConsumerGroupDescribeResponse(groups=groups))


def _described_group(turn: Turn, group_id: str, operations: int) -> DescribedGroup:
    """Return one group's description for ConsumerGroupDescribe, or its error."""
    group = turn.ledger.consumer_group_or_none(group_id)
    if group is None:
        # A group of another type counts as missing, as in Kafka: there is another API to describe
        # it.
        code = Code.GROUP_ID_NOT_FOUND if group_id else Code.INVALID_GROUP_ID
        exists = turn.ledger.has_group(group_id)
        why = not_described(group_id, "consumer", exists=exists) if group_id else None
        return DescribedGroup(group_id=group_id, error_code=int(code), error_message=why)
    return DescribedGroup(
        group_id=group_id,
        group_state=group.state,
        group_epoch=group.saved.epoch,
        assignment_epoch=group.saved.assignment_epoch,
        assignor_name=group.assignor(turn.settings.group_consumer_assignors),
        members=tuple(
            _described_member(group, member, turn.topics)
            # Sorted, so the same group gives the same response after a restart, too.
            for _, member in sorted(group.saved.members.items())
        ),
        authorized_operations=operations,
    )


def _described_member(
    group: ConsumerGroup, member: ConsumerGroupMember, topics: Topics
) -> described.Member:
    """Return the description of a consumer group's member for ConsumerGroupDescribe."""
    metadata, units = member.metadata, group.saved.units
    target = () if member.target is None else member.target.tolist()
    return described.Member(
        member_id=member.member_id,
        instance_id=metadata.instance_id,
        rack_id=metadata.rack_id,
        member_epoch=member.epoch,
        client_id=metadata.client_id,
        client_host=metadata.client_host,
        subscribed_topic_names=metadata.subscribed_topic_names,
        subscribed_topic_regex=metadata.subscribed_topic_regex,
        assignment=_assignment(member.units(), units, topics),
        target_assignment=_assignment(target, units, topics),
        member_type=CLASSIC if member.is_classic else CONSUMER,
    )


def _assignment(
    assigned: Iterable[int], units: UnitNumbering, topics: Topics
) -> described.Assignment:
    """Return an assignment for ConsumerGroupDescribe: by topic, without deleted topics."""
    parts = (
        described.TopicPartitions(topic_id=topic_id, topic_name=topic.name, partitions=partitions)
        for topic_id, partitions in units.as_topics(assigned)
        if (topic := topics.with_id(topic_id)) is not None
    )
    return described.Assignment(topic_partitions=tuple(parts))


def list_groups(turn: Turn, arrived: Arrived) -> None:
    """List the groups that pass both filters of a ListGroups request, by group id.

    An empty filter passes all. States and types are compared without regard to case; only states
    are stripped, as in Kafka.
    """
    request: ListGroupsRequest = arrived.request
    states = [word.strip().lower() for word in request.states_filter]
    types = [word.lower() for word in request.types_filter]
    ledger = turn.ledger
    listed = [
        ListedGroup(
            group_id=group.group_id,
            protocol_type=group.protocol_type,
            group_state=group.state,
            group_type=group.type_name,
        )
        for group in ledger.groups.values()
    ]
    # A simple group, with offsets and without members, is listed as Kafka lists it.
    listed += [
        ListedGroup(
            group_id=group_id,
            protocol_type="",
            group_state=GroupState.EMPTY,
            group_type="classic",
        )
        for group_id in ledger.offsets
        if group_id not in ledger.groups
    ]
    passing = (
        group
        for group in sorted(listed, key=lambda group: group.group_id)
        if (not states or group.group_state.lower() in states)
        and (not types or group.group_type in types)
    )
    turn.reply(arrived.ticket, ListGroupsResponse(groups=tuple(passing)))


def delete_groups(turn: Turn, arrived: Arrived) -> None:
    """Delete those of the named groups that have no members, with their offsets (DeleteGroups).

    Errors for one group: GROUP_ID_NOT_FOUND, NON_EMPTY_GROUP.
    """
    request: DeleteGroupsRequest = arrived.request
    results = tuple(
        DeletableGroupResult(group_id=group_id, error_code=int(_delete_group(turn, group_id)))
        for group_id in request.groups_names
    )
    turn.reply(arrived.ticket, DeleteGroupsResponse(results=results))


def _delete_group(turn: Turn, group_id: str) -> Code:
    """Delete a group without members, and its offsets (DeleteGroups); return NONE or the error."""
    group = turn.ledger.groups.get(group_id)
    if group is None and group_id not in turn.ledger.offsets:
        return Code.GROUP_ID_NOT_FOUND
    if group is not None and not group.is_empty():
        return Code.NON_EMPTY_GROUP
    # The offsets first, as in Kafka: alone they would remain as a simple group of this id.
    delete_group_offsets(turn, group_id)
    if group is not None:
        turn.emit_all(group.tombstones())
    return Code.NONE
