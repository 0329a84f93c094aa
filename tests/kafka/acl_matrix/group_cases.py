"""Requests about groups and their offsets, in the versions where something changes."""

from collections.abc import Iterator

from apportion.security.acls import CLUSTER_NAME, AclOperation
from apportion.wire.messages.delete_groups import DeleteGroupsRequest
from apportion.wire.messages.find_coordinator import FindCoordinatorRequest
from apportion.wire.messages.list_groups import ListGroupsRequest
from tests.kafka.acl_matrix.group_requests import (
    beat,
    commit,
    committed,
    describe,
    describe_consumers,
    forget,
    join,
    leave,
    pulse,
    sync,
)
from tests.kafka.acl_matrix.values import (
    CLASSIC,
    CLUSTER,
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
    TOPIC,
    TOPICS,
    Case,
    Need,
    constant,
)

IDS = (HERE, OTHER, "of a strange id")
BEATS = "mine-beats"
"""The group that members join and leave."""


def of_group(group: str, operation: AclOperation) -> Need:
    """The operation on that group."""
    return Need(GROUP, group, operation)


def topics(operation: AclOperation, *names: str) -> tuple[Need, ...]:
    """The operation on these topics, by default on the user's own."""
    return tuple(Need(TOPIC, name, operation) for name in names or (HERE, GONE))


def coordinator_cases() -> Iterator[Case]:
    """FindCoordinator."""
    needs = (of_group(MINE, DESCRIBE),)
    for version in (0, 3, 4, 6):
        asked = (
            FindCoordinatorRequest(key=MINE)
            if version < 4
            else FindCoordinatorRequest(coordinator_keys=(MINE, OTHERS, ""))
        )
        yield Case("FindCoordinator", version, constant(asked), needs)


def classic_cases() -> Iterator[Case]:
    """The requests of classic members, of whom there are none."""
    needs = (of_group(CLASSIC, READ),)
    for version in (0, 4, 5, 9):
        yield Case("JoinGroup", version, join(CLASSIC), needs)
        short = join(CLASSIC, session_timeout_ms=1)
        yield Case("JoinGroup with a short session", version, short, needs)
        yield Case("JoinGroup of no group", version, join(""), needs)
    for version in (0, 3, 5):
        named = {"protocol_type": "consumer", "protocol_name": "range"} if version >= 5 else {}
        yield Case("SyncGroup", version, sync(CLASSIC, **named), needs)
        yield Case("LeaveGroup", version, leave(CLASSIC, version), needs)
    yield Case("SyncGroup without a protocol", 5, sync(CLASSIC), needs)
    for version in (0, 4):
        yield Case("Heartbeat", version, pulse(CLASSIC), needs)
        yield Case("Heartbeat to no group", version, pulse(""), needs)


def beat_cases() -> Iterator[Case]:
    """ConsumerGroupHeartbeat."""
    group, leaves = of_group(BEATS, READ), beat(BEATS, -1)
    for version in (0, 1):
        yield Case("ConsumerGroupHeartbeat of nobody", version, beat(BEATS, 5), (group,))
        yield Case(
            "ConsumerGroupHeartbeat that joins",
            version,
            beat(BEATS, 0, subscribed_topic_names=(HERE, GONE)),
            (group, *topics(DESCRIBE)),
            after=leaves,
        )
        yield Case(
            "ConsumerGroupHeartbeat that joins with topics of others",
            version,
            beat(BEATS, 0, subscribed_topic_names=TOPICS),
            (group, *topics(DESCRIBE)),
            after=leaves,
        )
    yield Case(
        "ConsumerGroupHeartbeat with an unknown assignor",
        1,
        beat(BEATS, 0, subscribed_topic_names=(HERE,), server_assignor="none such"),
        (group, *topics(DESCRIBE, HERE)),
        after=leaves,
    )
    yield Case("ConsumerGroupHeartbeat to no group", 1, beat("", 5), (group,))
    yield Case(
        "ConsumerGroupHeartbeat with names twice",
        1,
        beat(BEATS, 0, subscribed_topic_names=(HERE, HERE)),
        (group, *topics(DESCRIBE, HERE)),
        after=leaves,
    )
    yield Case(
        "ConsumerGroupHeartbeat with a bad expression",
        1,
        beat(BEATS, 0, subscribed_topic_regex="(["),
        (group,),
        after=leaves,
    )
    # What it matches comes when it likes, so each has a group of its own.
    own = "express-{token}"
    yield Case(
        "ConsumerGroupHeartbeat with an expression",
        1,
        beat(own, 0, subscribed_topic_regex="mine-.*|other-.*"),
        (of_group(own, READ), *topics(DESCRIBE)),
        after=beat(own, -1),
    )


def offset_cases() -> Iterator[Case]:
    """OffsetCommit, OffsetFetch and OffsetDelete."""
    simple = "mine-simple"
    for version in (2, 7, 9, 10):
        names = IDS if version >= 10 else TOPICS
        needs = (of_group(simple, READ), *topics(READ))
        yield Case("OffsetCommit", version, commit(simple, version, names), needs)
        stranger = commit(MINE, version, names, generation_id_or_member_epoch=5, member_id="nobody")
        yield Case(
            "OffsetCommit of nobody", version, stranger, (of_group(MINE, READ), *topics(READ))
        )
    yield Case(
        "OffsetCommit to no group", 9, commit("", 9), (of_group(simple, READ), *topics(READ))
    )
    needs = (of_group(MINE, DESCRIBE), of_group(NOBODY, DESCRIBE), *topics(DESCRIBE))
    for version in (1, 2, 5, 7, 8, 9, 10):
        names = IDS if version >= 10 else TOPICS
        groups = (MINE, OTHERS, NOBODY)
        yield Case("OffsetFetch", version, committed(groups, version, names), needs)
        if version > 1:
            yield Case("OffsetFetch of all", version, committed(groups, version, None), needs)
    deletes = (of_group(MINE, DELETE), *topics(READ))
    yield Case("OffsetDelete", 0, forget(MINE), deletes)
    yield Case(
        "OffsetDelete of no group", 0, forget(NOBODY), (of_group(NOBODY, DELETE), *topics(READ))
    )
    yield Case(
        "OffsetDelete of an empty group",
        0,
        forget(simple),
        (of_group(simple, DELETE), *topics(READ)),
        after=commit(simple, 10, (HERE, OTHER)),
    )


def description_cases() -> Iterator[Case]:
    """DescribeGroups, ConsumerGroupDescribe, ListGroups and DeleteGroups."""
    for version in (0, 3, 5, 6):
        yield Case(
            "DescribeGroups",
            version,
            describe((CLASSIC, OTHERS, NOBODY), version),
            (of_group(CLASSIC, DESCRIBE), of_group(NOBODY, DESCRIBE)),
        )
    both = (of_group(MINE, DESCRIBE), of_group(NOBODY, DESCRIBE))
    for version in (0, 1):
        asked = describe_consumers((MINE, OTHERS, NOBODY))
        needs = (*both, *topics(DESCRIBE, HERE, OTHER))
        yield Case("ConsumerGroupDescribe", version, asked, needs)
        few = (*both, *topics(DESCRIBE, HERE))
        yield Case("ConsumerGroupDescribe with one topic alone", version, asked, few)
    for version in (0, 3, 4, 5):
        request = ListGroupsRequest()
        yield Case(
            "ListGroups",
            version,
            constant(request),
            (of_group(MINE, DESCRIBE), of_group(CLASSIC, DESCRIBE)),
        )
        yield Case(
            "ListGroups by the cluster",
            version,
            constant(request),
            (Need(CLUSTER, CLUSTER_NAME, DESCRIBE),),
        )
    for version in (0, 2):
        doomed = DeleteGroupsRequest(groups_names=(MINE, OTHERS, NOBODY))
        yield Case(
            "DeleteGroups",
            version,
            constant(doomed),
            (of_group(MINE, DELETE), of_group(NOBODY, DELETE)),
        )


GROUP_CASES = [
    *coordinator_cases(),
    *classic_cases(),
    *beat_cases(),
    *offset_cases(),
    *description_cases(),
]
