"""Requests about groups and their offsets, as functions of a scene."""

from typing import Any

from apportion.assign.by_name import Subscription
from apportion.member.assignors.serde import encode_subscription
from tests.kafka.acl_matrix.values import HERE, TOPICS, Id, Make, made

SESSION_MS = 600_000
WORDS = encode_subscription(Subscription(topics=(HERE,)))


def named(name: str, by_id: bool) -> dict[str, Any]:
    """A topic by its name, or by its id."""
    return {"topic_id": Id(name)} if by_id else {"name": name}


def commit(group: str, version: int, names: tuple[str, ...] = TOPICS, **facts: Any) -> Make:
    """An offset of a partition of each topic."""
    wanted = {"partition_index": 0, "committed_offset": 1, "committed_metadata": "note"}
    topics = [named(name, version >= 10) | {"partitions": [wanted]} for name in names]
    return made("OffsetCommit", group_id=group, topics=topics, **facts)


def committed(groups: tuple[str, ...], version: int, names: tuple[str, ...] | None) -> Make:
    """The offsets of a partition of each topic; of all with None."""
    topics = names and [named(name, version >= 10) | {"partition_indexes": [0]} for name in names]
    if version < 8:
        return made("OffsetFetch", group_id=groups[0], topics=topics)
    return made("OffsetFetch", groups=[{"group_id": each, "topics": topics} for each in groups])


def forget(group: str) -> Make:
    """The offsets of each topic forgotten."""
    topics = [{"name": name, "partitions": [{"partition_index": 0}]} for name in TOPICS]
    return made("OffsetDelete", group_id=group, topics=topics)


def join(group: str, member_id: str = "nobody", **facts: Any) -> Make:
    """A classic member, by default one that there is not."""
    fields: dict[str, Any] = {
        "group_id": group,
        "session_timeout_ms": SESSION_MS,
        "rebalance_timeout_ms": SESSION_MS,
        "member_id": member_id,
        "protocol_type": "consumer",
        "protocols": [{"name": "range", "metadata": WORDS}],
    }
    return made("JoinGroup", **fields | facts)


def of_nobody(api: str, group: str, **facts: Any) -> Make:
    """A request of a classic member that there is not."""
    return made(api, group_id=group, generation_id=1, member_id="nobody", **facts)


def leave(group: str, version: int) -> Make:
    """Likewise."""
    who: Any = {"member_id": "nobody"}
    return made("LeaveGroup", group_id=group, **(who if version < 3 else {"members": [who]}))


def beat(group: str, epoch: int, **facts: Any) -> Make:
    """A member of KIP-848 with the scene's own id, which joins with epoch 0."""
    joins: Any = {"rebalance_timeout_ms": SESSION_MS, "topic_partitions": ()}
    fields = (joins if epoch == 0 else {}) | facts
    who: Any = {"group_id": group, "member_id": "m-{token}", "member_epoch": epoch}
    return made("ConsumerGroupHeartbeat", **who | fields)


def describe_consumers(*groups: str) -> Make:
    """With operations."""
    return made("ConsumerGroupDescribe", group_ids=groups, include_authorized_operations=True)
