"""A request of each API about the topic `t` and the group `g`, and what its caller needs."""

from typing import TYPE_CHECKING, Any, NamedTuple

from apportion.security.acls import CLUSTER_NAME, AclBinding, AclOperation, ResourceType
from tests.messages import request
from tests.node.acl_requests import describing
from tests.node.guarded import CLUSTER, GROUP, TOPIC, may

if TYPE_CHECKING:
    from tests.node.conftest import NodeDriver

READ, WRITE, DESCRIBE = AclOperation.READ, AclOperation.WRITE, AclOperation.DESCRIBE
CREATE, DELETE, ALTER = AclOperation.CREATE, AclOperation.DELETE, AclOperation.ALTER
DESCRIBE_CONFIGS, ALTER_CONFIGS = AclOperation.DESCRIBE_CONFIGS, AclOperation.ALTER_CONFIGS
TOPIC_CODE, GROUP_CODE, CLUSTER_CODE, TRANSACTION_CODE = 29, 30, 31, 53
REFUSALS = {TOPIC_CODE, GROUP_CODE, CLUSTER_CODE, TRANSACTION_CODE}
OWN = {
    TOPIC: ("t", TOPIC_CODE),
    GROUP: ("g", GROUP_CODE),
    CLUSTER: (CLUSTER_NAME, CLUSTER_CODE),
}
"""By type, the resource that requests are about, and the code of a refusal for want of it."""
Need = tuple[AclBinding, int]
"""An ACL, and the code of a refusal for want of it."""


class Case(NamedTuple):
    """A request, and what it needs. what: which of the requests of its API."""

    request: Any
    needs: tuple[Need, ...]
    version: int | None = None
    what: str = ""

    @property
    def name(self) -> str:
        return type(self.request).__name__.removesuffix("Request") + self.what


def need(operation: AclOperation, resource: ResourceType, name: str = "") -> Need:
    own, code = OWN[resource]
    return may(operation, resource, name or own), code


def fetched(**facts: Any) -> Any:
    partition = {"partition": 0, "fetch_offset": 0, "partition_max_bytes": 1 << 20}
    topics = [{"topic": "t", "partitions": [partition]}]
    return request("Fetch", **{"max_wait_ms": 0, "min_bytes": 1, "topics": topics} | facts)


def joined(**facts: Any) -> Any:
    """A member joins a consumer group."""
    fields: dict[str, Any] = {
        "group_id": "g",
        "member_id": "m",
        "rebalance_timeout_ms": 10_000,
        "subscribed_topic_names": ("t",),
        "topic_partitions": (),
    }
    return request("ConsumerGroupHeartbeat", **fields | facts)


def committed(*names: str, group: str = "g", offset: int = 1) -> Any:
    """Offsets of topics are committed by nobody's member."""
    partitions = [{"partition_index": 0, "committed_offset": offset}]
    topics = [{"name": name, "partitions": partitions} for name in names]
    return request("OffsetCommit", group_id=group, topics=topics)


COMMIT = committed("t")
OFFSETS = [{"name": "t", "partition_indexes": (0,)}]
A_TOPIC, A_BROKER, A_GROUP = 2, 4, 32
"""Kinds of resources with settings."""


def records() -> list[Case]:
    """Requests about records."""
    produced = {"index": 0, "records": b""}
    ends = {"partition_index": 0, "timestamp": -1}
    epochs = {"partition": 0, "leader_epoch": 0}
    return [
        Case(
            request(
                "Produce",
                acks=-1,
                timeout_ms=1,
                topic_data=[{"name": "t", "partition_data": [produced]}],
            ),
            (need(WRITE, TOPIC),),
            9,
        ),
        Case(
            request("InitProducerId", transactional_id=None, transaction_timeout_ms=1),
            (need(AclOperation.IDEMPOTENT_WRITE, CLUSTER),),
        ),
        Case(fetched(), (need(READ, TOPIC),), 12),
        Case(
            request("ListOffsets", replica_id=-1, topics=[{"name": "t", "partitions": [ends]}]),
            (need(DESCRIBE, TOPIC),),
        ),
        Case(
            request("OffsetForLeaderEpoch", topics=[{"topic": "t", "partitions": [epochs]}]),
            (need(DESCRIBE, TOPIC),),
        ),
        Case(
            request("DeleteRecords", topics=[{"name": "t", "partitions": [{"offset": 0}]}]),
            (need(DELETE, TOPIC),),
        ),
    ]


def topics() -> list[Case]:
    """Requests about topics."""
    new = {"name": "new", "num_partitions": 1, "replication_factor": 1}
    grown = {"name": "t", "count": 9, "assignments": None}
    return [
        Case(request("Metadata", topics=[{"name": "t"}]), (need(DESCRIBE, TOPIC),)),
        Case(
            request("CreateTopics", topics=[new]),
            (need(CREATE, TOPIC, "new"), need(DESCRIBE_CONFIGS, TOPIC, "new")),
        ),
        Case(request("CreatePartitions", topics=[grown]), (need(ALTER, TOPIC),)),
        Case(request("DeleteTopics", topics=[{"name": "t"}]), (need(DELETE, TOPIC),)),
    ]


def members() -> list[Case]:
    """Requests of members, and about offsets."""
    reads, describes = (need(READ, GROUP),), (need(DESCRIBE, GROUP),)
    both = (need(DESCRIBE, GROUP), need(DESCRIBE, TOPIC))
    classic = {"group_id": "g", "protocol_type": "consumer"}
    return [
        Case(request("FindCoordinator", key_type=0, coordinator_keys=("g",)), describes),
        Case(request("FindCoordinator", key_type=0, key="g"), describes, 3, " of one key"),
        Case(request("JoinGroup", session_timeout_ms=10_000, **classic), reads),
        Case(request("SyncGroup", protocol_name="range", **classic), reads),
        *(
            Case(request(api, group_id="g"), reads)
            for api in (
                *("Heartbeat", "LeaveGroup"),
                *("ConsumerGroupPrepareAssignment", "ConsumerGroupInstallAssignment"),
            )
        ),
        Case(joined(), (*reads, need(DESCRIBE, TOPIC))),
        Case(COMMIT, (*reads, need(READ, TOPIC)), 9),
        Case(request("OffsetFetch", groups=[{"group_id": "g", "topics": OFFSETS}]), both, 9),
        Case(request("OffsetFetch", group_id="g", topics=OFFSETS), both, 7, " of one group"),
        Case(
            request(
                "OffsetDelete",
                group_id="g",
                topics=[{"name": "t", "partitions": [{"partition_index": 0}]}],
            ),
            (need(DELETE, GROUP), need(READ, TOPIC)),
        ),
    ]


def settings() -> Any:
    """Requests about the settings of a topic, of a group and of a broker."""
    config = {"name": "retention.ms", "config_operation": 0, "value": "1000"}
    for kind, name, resource, what in (
        (A_TOPIC, "t", TOPIC, " of a topic"),
        (A_GROUP, "g", GROUP, " of a group"),
        (A_BROKER, "", CLUSTER, " of a broker"),
    ):
        named = {"resource_type": kind, "resource_name": name}
        described = request("DescribeConfigs", resources=[named | {"configuration_keys": ()}])
        yield Case(described, (need(DESCRIBE_CONFIGS, resource),), what=what)
        altered = request("IncrementalAlterConfigs", resources=[named | {"configs": [config]}])
        yield Case(altered, (need(ALTER_CONFIGS, resource),), what=what)
    topic = {"resource_type": A_TOPIC, "resource_name": "t"}
    yield Case(request("AlterConfigs", resources=[topic]), (need(ALTER_CONFIGS, TOPIC),))
    yield Case(request("ListConfigResources"), (need(DESCRIBE_CONFIGS, CLUSTER),))


def administration() -> list[Case]:
    """Requests about groups, ACLs and users."""
    describes, alters = (need(DESCRIBE, CLUSTER),), (need(ALTER, CLUSTER),)
    user = {"name": "carol", "mechanism": 1}
    return [
        Case(request("DescribeGroups", groups=("g",)), (need(DESCRIBE, GROUP),)),
        Case(request("ConsumerGroupDescribe", group_ids=("g",)), (need(DESCRIBE, GROUP),)),
        Case(request("DeleteGroups", groups_names=("g",)), (need(DELETE, GROUP),)),
        *settings(),
        Case(describing(), describes),
        Case(request("CreateAcls", creations=[{}]), alters),
        Case(request("DeleteAcls", filters=[{}]), alters),
        Case(request("DescribeUserScramCredentials", users=None), describes),
        Case(request("AlterUserScramCredentials", deletions=[user]), alters),
    ]


CASES = [*records(), *topics(), *members(), *administration()]


def begin(driver: "NodeDriver") -> None:
    """The topic is there, and the group with an offset."""
    driver.create("t")
    driver.call(request("FindCoordinator", key_type=0, coordinator_keys=("any",)))
    answer = driver.call(COMMIT, 9).topics[0].partitions[0]
    assert answer.error_code == 0, answer
