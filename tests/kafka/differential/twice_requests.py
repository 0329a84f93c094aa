"""Every API that has a list, as a request with something in each list; `wrong_twice.py` repeats a
part of it.

A request is a function of the id of the topic `twice`, which has two batches of two records in its
first partition, and of a group that no other case has.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

from apportion.security.acls import AclFilter
from tests.kafka.differential.wrong import NO_TOPIC, STRANGE_ID, WAIT_MS, ZERO_ID, batch
from tests.messages import request
from tests.node.acl_requests import acl, creating, deleting

Make = Callable[[bytes, str], Any]
Said = tuple[int, Make]
TWICE = "twice"
SESSION_MS = 10_000
HERE = [{"partition_index": index, "broker_ids": [1]} for index in (0, 1)]
CHANGES = [
    {"name": name, "value": value}
    for name, value in (("segment.ms", "5000"), ("retention.ms", "60000"))
]
STATES = {"states_filter": ("Assigning", "Dead")}
"""Of groups: none of these is in one."""


class Whole(NamedTuple):
    """One request in some versions, and (version, request) of what is asked before and after it."""

    name: str
    versions: tuple[int, ...]
    request: Make
    before: tuple[Said, ...] = ()
    after: tuple[Said, ...] = ()


def fixed(api: str, **fields: Any) -> Make:
    """The same request, whatever the topic's id and the group."""
    return lambda twice, group: request(api, **fields)


def topics(twice: bytes, of_twice: dict[str, Any], of_other: dict[str, Any] | None = None) -> Any:
    """What is said of the topic, and of one that is not there: the same, or less."""
    return [
        {"name": TWICE, "topic_id": twice, **of_twice},
        {"name": NO_TOPIC, "topic_id": STRANGE_ID, **(of_twice if of_other is None else of_other)},
    ]


def fetch(start: int, min_bytes: int = 1, **facts: Any) -> Make:
    """Two partitions from their start, or (far behind it) from their end."""
    wanted = [
        {"partition": index, "fetch_offset": start, "partition_max_bytes": 1_000_000}
        for index in (0, 1)
    ]
    return lambda twice, group: request(
        "Fetch",
        **{"max_wait_ms": 300, "min_bytes": min_bytes} | facts,
        topics=[{"topic": TWICE, "topic_id": twice, "partitions": wanted}],
    )


def commit(twice: bytes, group: str, offset: int = 5) -> Any:
    """Offsets of two partitions, and of a topic that is not there."""
    wanted = [
        {"partition_index": index, "committed_offset": offset + index, "committed_metadata": "note"}
        for index in (0, 1)
    ]
    named = topics(twice, {"partitions": wanted}, {"partitions": wanted[:1]})
    return request("OffsetCommit", group_id=group, topics=named)


def committed(twice: bytes, group: str) -> Any:
    """All offsets of the group."""
    return request("OffsetFetch", groups=[{"group_id": group, "topics": None}])


def fetch_offsets(twice: bytes, group: str) -> Any:
    """Offsets of two groups."""
    wanted = topics(twice, {"partition_indexes": (0, 1)})
    groups = [{"group_id": each, "topics": wanted} for each in (group, group + " not here")]
    return request("OffsetFetch", groups=groups)


def join(twice: bytes, group: str) -> Any:
    """A static member, so that it can be named by what we know."""
    names = ("range",) if group.startswith("leave") else ("range", "roundrobin")
    return request(
        "JoinGroup",
        group_id=group,
        member_id="",
        group_instance_id="one",
        session_timeout_ms=SESSION_MS,
        rebalance_timeout_ms=SESSION_MS,
        protocol_type="consumer",
        protocols=[{"name": name, "metadata": b""} for name in names],
    )


def sync(twice: bytes, group: str) -> Any:
    """Assignments of a group that is not there."""
    return request(
        "SyncGroup",
        group_id=group,
        generation_id=1,
        member_id="me",
        protocol_type="consumer",
        protocol_name="range",
        assignments=[{"member_id": each, "assignment": b"x"} for each in ("me", "you")],
    )


def beat(epoch: int) -> Make:
    """A member that joins, or goes on with all partitions."""
    joins: dict[str, Any] = {
        "rebalance_timeout_ms": SESSION_MS,
        "subscribed_topic_names": (TWICE, NO_TOPIC),
        "server_assignor": "range",
        "topic_partitions": (),
    }
    return lambda twice, group: request(
        "ConsumerGroupHeartbeat",
        group_id=group,
        member_id="m",
        member_epoch=epoch,
        **{"topic_partitions": [{"topic_id": twice, "partitions": (0, 1, 2)}]} if epoch else joins,
    )


def both(api: str, field: str) -> Make:
    """A request about a group that is there, and about one that is not."""
    return lambda twice, group: request(api, **{field: (group, group + " not here")})


def metadata(*named: Any) -> Make:
    """Topics by their names, or (None) the topic by its id."""
    return lambda twice, group: request(
        "Metadata",
        topics=[{"name": each} if each else {"name": None, "topic_id": twice} for each in named],
        allow_auto_topic_creation=False,
    )


def create(*named: str, **facts: Any) -> Make:
    """Topics, only tried."""
    made = [{"name": name, "num_partitions": 1, "replication_factor": 1} | facts for name in named]
    return fixed("CreateTopics", topics=made, timeout_ms=WAIT_MS, validate_only=True)


OTHERWISE: dict[str, dict[str, Any]] = {
    "PartitionProduceData": {"records": batch(3)},
    "FetchPartition": {"fetch_offset": 2},
    "ListOffsetsPartition": {"timestamp": -2},
    "OffsetForLeaderPartition": {"leader_epoch": 9},
    "OffsetCommitRequestPartition": {
        "committed_offset": 77,
        "committed_metadata": "x" * 5000,
        "partition_index": 99,
    },
    "OffsetFetchRequestGroup": {"topics": None},
    "JoinGroupRequestProtocol": {"metadata": b"\0\1\0\0\0\0\xff\xff\xff\xff"},
    "MemberIdentity": {"group_instance_id": None, "member_id": "ghost"},
    "SyncGroupRequestAssignment": {"assignment": b"other"},
    "CreatableTopic": {"num_partitions": 2},
    "CreatableTopicConfig": {"value": "delete,compact"},
    "CreatableReplicaAssignment": {"broker_ids": (9,)},
    "DeleteRecordsPartition": {"offset": 1},
    "CreatePartitionsTopic": {"count": 9},
    "DescribeConfigsResource": {"configuration_keys": ("segment.bytes",)},
}
"""What the second mention may say that the first does not."""
COMMITTED: tuple[Said, ...] = ((9, commit),)
OFFSETS: tuple[Said, ...] = ((9, committed),)
DESCRIBE, DESCRIBE_CONSUMER = (
    both("DescribeGroups", "groups"),
    both("ConsumerGroupDescribe", "group_ids"),
)
ENDS = fixed(
    "ListOffsets",
    replica_id=-1,
    topics=[
        {
            "name": TWICE,
            "partitions": [{"partition_index": index, "timestamp": -1} for index in range(3)],
        }
    ],
)
CONFIGS_OF_TWO = [{"resource_type": 2, "resource_name": name} for name in (TWICE, NO_TOPIC)]

REQUESTS = (
    Whole("fetch", (4, 12, 13, 18), fetch(0)),
    Whole("fetch and wait", (4, 12, 13, 18), fetch(0, 10**9)),
    Whole("fetch in parts", (12,), fetch(0, max_bytes=100)),
    # of a session that there never was
    Whole(
        "forget partitions",
        (12, 13),
        lambda twice, group: request(
            "Fetch",
            max_wait_ms=10,
            min_bytes=1,
            forgotten_topics_data=[{"topic": TWICE, "topic_id": twice, "partitions": (0, 1)}],
        ),
    ),
    Whole("offsets", (1, 10), ENDS),
    Whole(
        "end of the epoch",
        (2, 4),
        fixed(
            "OffsetForLeaderEpoch",
            replica_id=-1,
            topics=[
                {
                    "topic": name,
                    "partitions": [{"partition": index, "leader_epoch": 0} for index in (0, 1)],
                }
                for name in (TWICE, NO_TOPIC)
            ],
        ),
    ),
    Whole("metadata", (4, 9, 12), metadata(TWICE, NO_TOPIC)),
    Whole("metadata by id", (12,), metadata(None)),
    Whole("metadata by both", (12,), metadata(TWICE, None)),
    Whole("commit", (2, 8, 9, 10), commit, after=OFFSETS),
    Whole("fetch offsets", (8, 9, 10), fetch_offsets, before=COMMITTED),
    Whole("fetch all offsets", (8, 10), committed, before=COMMITTED),
    Whole(
        "fetch offsets of one",
        (1, 7),
        lambda twice, group: request(
            "OffsetFetch",
            group_id=group,
            topics=[{"name": name, "partition_indexes": (0, 1)} for name in (TWICE, NO_TOPIC)],
        ),
        before=COMMITTED,
    ),
    Whole(
        "forget offsets",
        (0,),
        lambda twice, group: request(
            "OffsetDelete",
            group_id=group,
            topics=[
                {"name": name, "partitions": [{"partition_index": index} for index in (0, 99)]}
                for name in (TWICE, NO_TOPIC)
            ],
        ),
        before=COMMITTED,
        after=OFFSETS,
    ),
    Whole(
        "coordinators", (4, 6), fixed("FindCoordinator", key_type=0, coordinator_keys=("a", "b"))
    ),
    Whole("join", (5, 9), join, after=((6, DESCRIBE),)),
    Whole(
        "leave",
        (3, 5),
        lambda twice, group: request(
            "LeaveGroup",
            group_id=group,
            members=[{"member_id": "", "group_instance_id": each} for each in ("one", "two")],
        ),
        before=((5, join),),
        after=((6, DESCRIBE),),
    ),
    Whole("sync", (0, 5), sync),
    Whole("describe", (0, 6), DESCRIBE, before=COMMITTED),
    Whole("list", (5,), fixed("ListGroups", **STATES, types_filter=("share", "streams"))),
    Whole("list states", (4,), fixed("ListGroups", **STATES)),
    Whole("delete", (0, 2), both("DeleteGroups", "groups_names"), before=COMMITTED, after=OFFSETS),
    Whole("beat", (0, 1), beat(0), after=((1, DESCRIBE_CONSUMER),)),
    Whole("beat and own", (1,), beat(2), before=((1, beat(0)),), after=((1, DESCRIBE_CONSUMER),)),
    Whole("describe consumers", (0, 1), DESCRIBE_CONSUMER, before=((1, beat(0)),)),
    Whole(
        "create",
        (2, 7),
        create(
            *("x1", "x2"),
            configs=[
                {"name": "cleanup.policy", "value": "delete"},
                {"name": "retention.ms", "value": "1"},
            ],
        ),
    ),
    Whole(
        "create by assignment",
        (2, 7),
        create("x1", num_partitions=-1, replication_factor=-1, assignments=HERE),
    ),
    Whole(
        "delete topics",
        (6,),
        fixed(
            "DeleteTopics",
            topics=[
                *({"name": name, "topic_id": ZERO_ID} for name in (NO_TOPIC, "x2")),
                *({"name": None, "topic_id": each} for each in (STRANGE_ID, ZERO_ID)),
            ],
            timeout_ms=WAIT_MS,
        ),
    ),
    Whole(
        "delete named topics",
        (1, 5),
        fixed("DeleteTopics", topic_names=(NO_TOPIC, "x2"), timeout_ms=WAIT_MS),
    ),
    Whole(
        "grow",
        (0, 3),
        fixed(
            "CreatePartitions",
            topics=[
                {"name": name, "count": 5, "assignments": [{"broker_ids": (1,)}] * 2}
                for name in (TWICE, NO_TOPIC)
            ],
            timeout_ms=WAIT_MS,
            validate_only=True,
        ),
    ),
    Whole(
        "trim",
        (0, 2),
        fixed(
            "DeleteRecords",
            topics=[
                {
                    "name": name,
                    "partitions": [{"partition_index": index, "offset": 0} for index in (0, 1)],
                }
                for name in (TWICE, NO_TOPIC)
            ],
            timeout_ms=WAIT_MS,
        ),
    ),
    Whole(
        "configs",
        (1, 4),
        fixed(
            "DescribeConfigs",
            resources=[
                each | {"configuration_keys": ("cleanup.policy", "retention.ms")}
                for each in CONFIGS_OF_TWO
            ],
        ),
    ),
    Whole(
        "altered configs",
        (1,),
        fixed(
            "IncrementalAlterConfigs",
            resources=[
                each | {"configs": [{"config_operation": 0, **change} for change in CHANGES]}
                for each in CONFIGS_OF_TWO
            ],
            validate_only=True,
        ),
    ),
    Whole(
        "replaced configs",
        (2,),
        fixed(
            "AlterConfigs",
            resources=[each | {"configs": CHANGES} for each in CONFIGS_OF_TWO],
            validate_only=True,
        ),
    ),
    Whole("config resources", (1,), fixed("ListConfigResources", resource_types=(16, 4))),
    Whole("created acls", (1, 3), lambda twice, group: creating(acl("a"), acl("b"))),
    Whole(
        "deleted acls",
        (1, 3),
        lambda twice, group: deleting(AclFilter(name="a"), AclFilter(name="b")),
    ),
    # last: the logs are not alike after it
    Whole(
        "produce",
        (9, 12, 13),
        lambda twice, group: request(
            "Produce",
            acks=-1,
            timeout_ms=WAIT_MS,
            topic_data=[
                {
                    "name": TWICE,
                    "topic_id": twice,
                    "partition_data": [
                        {"index": index, "records": batch(index + 1)} for index in (0, 1)
                    ],
                }
            ],
        ),
        after=((10, ENDS),),
    ),
)
"""Every API that has a list, and what about it may depend on the version."""
