"""Requests about groups and their offsets, in the versions where something changes."""

from typing import Any

from apportion.security.acls import AclOperation
from tests.kafka.acl_matrix.group_requests import (
    beat,
    commit,
    committed,
    describe_consumers,
    forget,
    join,
    leave,
    of_nobody,
)
from tests.kafka.acl_matrix.values import (
    CLASSIC,
    DELETE,
    DESCRIBE,
    GONE,
    GROUP,
    HERE,
    MINE,
    NOBODY,
    OTHER,
    OTHERS,
    READ,
    TOPICS,
    Case,
    Need,
    cases,
    made,
    on_cluster,
    topics,
)

IDS = (HERE, OTHER, "of a strange id")
BEATS, SIMPLE = "mine-beats", "mine-simple"
"""The group that members join and leave, and one that has no members."""


def of_group(group: str, operation: AclOperation) -> Need:
    """The operation on that group."""
    return Need(GROUP, group, operation)


def classic_cases() -> list[Case]:
    """FindCoordinator, and the requests of classic members, of whom there are none."""
    needs, finds = of_group(CLASSIC, READ), of_group(MINE, DESCRIBE)
    several = made("FindCoordinator", coordinator_keys=(MINE, OTHERS, ""))
    protocol = {"protocol_type": "consumer", "protocol_name": "range"}
    sync = of_nobody("SyncGroup", CLASSIC, assignments=())
    named = of_nobody("SyncGroup", CLASSIC, assignments=(), **protocol)
    joins = (0, 4, 5, 9)
    return [
        *cases("FindCoordinator", (0, 3), made("FindCoordinator", key=MINE), finds),
        *cases("FindCoordinator", (4, 6), several, finds),
        *cases("JoinGroup", joins, join(CLASSIC), needs),
        *cases("JoinGroup with a short session", joins, join(CLASSIC, session_timeout_ms=1), needs),
        *cases("JoinGroup of no group", joins, join(""), needs),
        *cases("SyncGroup", (0, 3), sync, needs),
        *cases("SyncGroup", 5, named, needs),
        *cases("SyncGroup without a protocol", 5, sync, needs),
        *(
            case
            for version in (0, 3, 5)
            for case in cases("LeaveGroup", version, leave(CLASSIC, version), needs)
        ),
        *cases("Heartbeat", (0, 4), of_nobody("Heartbeat", CLASSIC), needs),
        *cases("Heartbeat to no group", (0, 4), of_nobody("Heartbeat", ""), needs),
    ]


def beat_cases() -> list[Case]:
    """ConsumerGroupHeartbeat."""
    name, group, leaves = "ConsumerGroupHeartbeat", of_group(BEATS, READ), beat(BEATS, -1)
    # What it matches comes when it likes, so each has a group of its own.
    own, both = "express-{token}", (group, *topics(DESCRIBE))

    def joins(**facts: Any) -> Any:
        return beat(BEATS, 0, **facts)

    mine, unknown = joins(subscribed_topic_names=(HERE, GONE)), {"server_assignor": "none such"}
    return [
        *cases(f"{name} of nobody", (0, 1), beat(BEATS, 5), group),
        *cases(f"{name} that joins", (0, 1), mine, *both, after=leaves),
        *cases(
            *(f"{name} that joins with topics of others", (0, 1)),
            *(joins(subscribed_topic_names=TOPICS), *both),
            after=leaves,
        ),
        *cases(
            *(f"{name} with an unknown assignor", 1),
            *(joins(subscribed_topic_names=(HERE,), **unknown), group, *topics(DESCRIBE, HERE)),
            after=leaves,
        ),
        *cases(f"{name} to no group", 1, beat("", 5), group),
        *cases(
            *(f"{name} with names twice", 1, joins(subscribed_topic_names=(HERE, HERE))),
            *(group, *topics(DESCRIBE, HERE)),
            after=leaves,
        ),
        *cases(
            *(f"{name} with a bad expression", 1, joins(subscribed_topic_regex="([")),
            group,
            after=leaves,
        ),
        *cases(
            *(f"{name} with an expression", 1),
            beat(own, 0, subscribed_topic_regex="mine-.*|other-.*"),
            *(of_group(own, READ), *topics(DESCRIBE)),
            after=beat(own, -1),
        ),
    ]


def offset_cases() -> list[Case]:
    """OffsetCommit, OffsetFetch and OffsetDelete."""
    groups, reads = (MINE, OTHERS, NOBODY), topics(READ)
    needs = (of_group(MINE, DESCRIBE), of_group(NOBODY, DESCRIBE), *topics(DESCRIBE))
    stranger: Any = {"generation_id_or_member_epoch": 5, "member_id": "nobody"}
    found = []
    for version in (2, 7, 9, 10):
        names = IDS if version >= 10 else TOPICS
        asked = commit(SIMPLE, version, names)
        found += cases("OffsetCommit", version, asked, of_group(SIMPLE, READ), *reads)
        asked = commit(MINE, version, names, **stranger)
        found += cases("OffsetCommit of nobody", version, asked, of_group(MINE, READ), *reads)
    for version in (1, 2, 5, 7, 8, 9, 10):
        names = IDS if version >= 10 else TOPICS
        found += cases("OffsetFetch", version, committed(groups, version, names), *needs)
        if version > 1:
            found += cases("OffsetFetch of all", version, committed(groups, version, None), *needs)
    return [
        *found,
        *cases("OffsetCommit to no group", 9, commit("", 9), of_group(SIMPLE, READ), *reads),
        *cases("OffsetDelete", 0, forget(MINE), of_group(MINE, DELETE), *reads),
        *cases("OffsetDelete of no group", 0, forget(NOBODY), of_group(NOBODY, DELETE), *reads),
        *cases(
            *("OffsetDelete of an empty group", 0, forget(SIMPLE)),
            *(of_group(SIMPLE, DELETE), *reads),
            after=commit(SIMPLE, 10, (HERE, OTHER)),
        ),
    ]


def description_cases() -> list[Case]:
    """DescribeGroups, ConsumerGroupDescribe, ListGroups and DeleteGroups."""
    both = (of_group(MINE, DESCRIBE), of_group(NOBODY, DESCRIBE))
    classic = (of_group(CLASSIC, DESCRIBE), of_group(NOBODY, DESCRIBE))
    described, consumers = (CLASSIC, OTHERS, NOBODY), describe_consumers(MINE, OTHERS, NOBODY)
    shows = made("DescribeGroups", groups=described, include_authorized_operations=True)
    doomed = made("DeleteGroups", groups_names=(MINE, OTHERS, NOBODY))
    lists, listed = made("ListGroups"), (0, 3, 4, 5)
    few = (*both, *topics(DESCRIBE, HERE))
    return [
        *cases("DescribeGroups", 0, made("DescribeGroups", groups=described), *classic),
        *cases("DescribeGroups", (3, 5, 6), shows, *classic),
        *cases(
            *("ConsumerGroupDescribe", (0, 1), consumers),
            *(*both, *topics(DESCRIBE, HERE, OTHER)),
        ),
        *cases("ConsumerGroupDescribe with one topic alone", (0, 1), consumers, *few),
        *cases("ListGroups", listed, lists, of_group(MINE, DESCRIBE), of_group(CLASSIC, DESCRIBE)),
        *cases("ListGroups by the cluster", listed, lists, on_cluster(DESCRIBE)),
        *cases(
            *("DeleteGroups", (0, 2), doomed),
            *(of_group(MINE, DELETE), of_group(NOBODY, DELETE)),
        ),
    ]


GROUP_CASES = [*classic_cases(), *beat_cases(), *offset_cases(), *description_cases()]
