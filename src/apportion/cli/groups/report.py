"""The report on one group: its members with their partitions, its offsets and its lag.

A report is a dict with the keys of docs/cli.md, which stay; `--json` prints it as it is.
"""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from typing import Any

from apportion.cli.asked import Report
from apportion.cli.failures import GroupHasMembers, NoSuchGroup
from apportion.cli.groups.partitions import EVERYTHING, PartitionChoice, chosen
from apportion.cli.tables import Column, Kind
from apportion.client.cluster import Cluster
from apportion.client.group_positions import GroupPosition, all_group_positions
from apportion.errors import DecodeError, Refused
from apportion.log_bounds import LogBounds, OutOfRange
from apportion.member.assignors.serde import decode_assignment, decode_subscription
from apportion.member.cluster_queries.retries import send_until_accepted
from apportion.member.cluster_queries.topics import MetadataQuery
from apportion.member.group_claims import sinks_of
from apportion.member.group_protocols import describe_by_protocol
from apportion.rules import run_rule
from apportion.topics import Topic, TopicPartition
from apportion.wire.codec import Buffer
from apportion.wire.group_states import GroupState
from apportion.wire.messages.consumer_group_describe import Assignment
from apportion.wire.messages.consumer_group_describe import DescribedGroup as ConsumerGroup
from apportion.wire.messages.describe_groups import DescribedGroup as ClassicGroup
from apportion.wire.messages.list_groups import ListedGroup

EMPTY_STATES = (GroupState.EMPTY, GroupState.DEAD)
REBALANCING_STATES = (GroupState.PREPARING_REBALANCE, GroupState.COMPLETING_REBALANCE)
"""The states in which a classic group has no assignment."""
OUT_OF_RANGE = Column("OUT-OF-RANGE", Kind.NUMBER, is_rare=True)
"""The number of a group's offsets that are outside of their logs."""
SESSION_TIMEOUT = "consumer.session.timeout.ms"
"""The setting of a group by which its members' sessions end."""
# by MemberType of ConsumerGroupDescribe; brokers before version 1 of it do not send it
PROTOCOLS = {0: "classic", 1: "consumer"}


def read_group(
    cluster: Cluster, group_id: str, at: str, choice: PartitionChoice = EVERYTHING
) -> Report:
    """Return the report on a group of any type, with the offsets of the chosen partitions.

    That on a share or Streams group has the offsets alone. at: as Asked.at, for the text of
    NoSuchGroup, and of Impossible for a chosen partition in which the group has nothing.
    """
    group = read_members(cluster, group_id, at)
    owners = dict(_owners(group["members"]))
    # Partitions without a commit are listed, too: they may be the ones that nobody reads.
    positions = all_group_positions(
        cluster, group_id, [*owners, *_read_partitions(cluster, group["members"])]
    )
    shown = {each: positions[each] for each in chosen(group_id, positions, choice, at)}
    rows = [
        {
            "topic": partition.topic,
            "partition": partition.partition,
            **position_cells(position),
            "owner": owners.get(partition),
        }
        for partition, position in shown.items()
    ]
    sinks = {name for each in positions.values() for name in sinks_of(each.metadata) or ()}
    return group | {"sinks": sorted(sinks), **totals(rows), "offsets": rows}


def read_members(cluster: Cluster, group_id: str, at: str) -> Report:
    """Return the report on a group without its offsets, which need more requests."""
    # The consumer protocol first: it is what most new groups speak.
    group = run_rule(
        describe_by_protocol(group_id, classic_first=False),
        lambda asked: cluster.ask_coordinator(asked.query),
    )
    if group is None:
        raise NoSuchGroup(group_id, at)
    if isinstance(group, ConsumerGroup):
        return _consumer_group(group)
    if isinstance(group, ClassicGroup):
        return _classic_group(group)
    return listed_group(group) | {"members": []}


def group_has_members(cluster: Cluster, group: Report, at: str) -> GroupHasMembers:
    """Return the error that a group must be empty first, with its members and their session."""
    members = group["members"]
    session_ms = None
    # Classic members chose their own, which no API tells.
    if members and all(each["protocol"] == "consumer" for each in members):
        with suppress(Refused):
            told = cluster.group_setting(group["group"], SESSION_TIMEOUT)
            session_ms = None if told is None else int(told)
    return GroupHasMembers(group["group"], members, at, session_ms)


def listed_group(group: ListedGroup) -> Report:
    """Return a listed group's part of a report; brokers before KIP-848 do not tell its type."""
    return {
        "group": group.group_id,
        "type": group.group_type.lower() or "?",
        "state": group.group_state or "?",
    }


def _consumer_group(group: ConsumerGroup) -> Report:
    """Return the report on a group of the consumer protocol (KIP-848)."""
    return {
        "group": group.group_id,
        "type": "consumer",
        "state": group.group_state,
        "epoch": group.group_epoch,
        "assignment_epoch": group.assignment_epoch,
        "assignor": group.assignor_name,
        "members": [
            {
                "member": member.member_id,
                "instance": member.instance_id,
                "client": member.client_id,
                "host": member.client_host,
                "protocol": PROTOCOLS.get(member.member_type),
                "rack": member.rack_id,
                "epoch": member.member_epoch,
                "owns": _assigned(member.assignment),
                "target": _assigned(member.target_assignment),
                "topics": [*member.subscribed_topic_names],
                "regex": member.subscribed_topic_regex or None,
            }
            for member in sorted(group.members, key=lambda member: member.member_id)
        ],
    }


def _assigned(assignment: Assignment) -> dict[str, list[int]]:
    """Return the partitions of an assignment by topic."""
    return {each.topic_name: sorted(each.partitions) for each in assignment.topic_partitions}


def _classic_group(group: ClassicGroup) -> Report:
    """Return the report on a group of the classic protocol.

    In it, members own nothing and subscribe to nothing if they are no consumers, or if that cannot
    be decoded: only consumers' assignments and subscriptions have a known format.
    """
    members: list[dict[str, Any]] = [
        {
            "member": member.member_id,
            "instance": member.group_instance_id,
            "client": member.client_id,
            "host": member.client_host,
            "protocol": "classic",
            "owns": _decode_assignment(member.member_assignment)
            if group.protocol_type == "consumer"
            else {},
            "topics": _decode_topics(member.member_metadata)
            if group.protocol_type == "consumer"
            else [],
        }
        for member in sorted(group.members, key=lambda member: member.member_id)
    ]
    return {
        "group": group.group_id,
        "type": "classic",
        "state": group.group_state,
        **({"assignor": group.protocol_data} if group.protocol_data else {}),
        "members": members,
    }


def _decode_assignment(assignment_bytes: Buffer) -> dict[str, list[int]]:
    """Return the partitions of a classic consumer's assignment by topic; {} if undecodable."""
    try:
        assignment = decode_assignment(assignment_bytes)
    except DecodeError:
        return {}
    return {topic: [*numbers] for topic, numbers in assignment.partitions}


def _decode_topics(subscription_bytes: Buffer) -> list[str]:
    """Return the topics of a classic consumer's subscription; [] if undecodable."""
    try:
        return [*decode_subscription(subscription_bytes).topics]
    except DecodeError:
        return []


def _owners(members: Iterable[Report]) -> Iterator[tuple[TopicPartition, str]]:
    """Yield each partition that is assigned, with the id of the member that owns it."""
    for member in members:
        for name, partitions in member["owns"].items():
            for partition in partitions:
                yield TopicPartition(name, partition), member["member"]


def _read_partitions(cluster: Cluster, members: Iterable[Report]) -> Iterator[TopicPartition]:
    """Yield the partitions of all topics that members read, whether they have an owner or not.

    What a regular expression matches is not told, but topics of which members own partitions are.
    """
    names = {
        name
        for member in members
        for name in (*member["topics"], *member["owns"], *member.get("target", ()))
    }
    for topic in _existing_topics(cluster, sorted(names)) if names else ():
        yield from (TopicPartition(topic.name, number) for number in range(topic.partitions))


def _existing_topics(cluster: Cluster, names: Sequence[str]) -> Iterable[Topic]:
    """Return those of the named topics that exist, without those that the broker refuses to show.

    A member may subscribe to what cannot exist, or to what the caller may not describe.
    """
    with suppress(Refused):
        # Fresh, as a watch has to see that a topic has grown.
        return cluster.topics(names, fresh=True)
    with suppress(Refused):
        # The same response is enough here: it shows the other topics beside the error of one.
        return cluster.run(send_until_accepted(MetadataQuery(tuple(names)))).topics
    return ()


def without_owner(group: Report) -> list[Report]:
    """Return the rows of partitions that no member owns; none if the group has no members.

    Brokers do not tell who owns what while a classic group rebalances: none then, either.
    """
    if not group["members"] or group["state"] in REBALANCING_STATES:
        return []
    return [row for row in group.get("offsets", ()) if row["owner"] is None]


def position_cells(position: GroupPosition | None) -> Report:
    """Return the part of a partition's row that says where the group is in its log, if known."""
    if position is None:
        return dict.fromkeys(("committed", "start", "end", "lag", "out_of_range"))
    committed, log, _ = position
    side = log.out_of_range(committed)
    return {
        "committed": committed,
        "start": log.start,
        "end": log.end,
        "lag": log.lag(committed),
        "out_of_range": side and side.value,
    }


NOTES = {
    OutOfRange.BEFORE_START: "out of range: the log begins at {start}",
    OutOfRange.AFTER_END: "out of range: the log ends at {end}",
}


def out_of_range_note(row: Report) -> str:
    """Return what is to be said of a committed offset that is not in the log; "" if it is."""
    side = row["out_of_range"]
    return "" if side is None else NOTES[OutOfRange(side)].format(**row)


def totals(rows: Iterable[Report]) -> Report:
    """Return the total lag of these partitions of a group, and how many are out of range.

    rows: with `position_cells`, none of None. The lag is None if that of a partition is not known,
    or without partitions: a sum without one that nobody reads would look like good news.
    """
    every = [*rows]
    unread = [
        LogBounds(row["start"], row["end"]).unread(None) if row["committed"] is None else row["lag"]
        for row in every
    ]
    known = [each for each in unread if each is not None]
    return {
        "lag": sum(known) if known and len(known) == len(unread) else None,
        "out_of_range": sum(row["out_of_range"] is not None for row in every),
    }
