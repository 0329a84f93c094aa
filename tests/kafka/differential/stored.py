"""Committed offsets on one broker: stored, fetched and deleted, with names for the ids of
topics.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tests.kafka.differential.plain_values import Plain, gathered, offsets
from tests.messages import request

if TYPE_CHECKING:
    from tests.kafka.differential import steps
    from tests.kafka.differential.side import Side


def _member_id(side: Side, group: str, letter: str | None) -> str | None:
    view = side.views.get((group, letter or ""))
    return letter if view is None else view.member_id


def commit(side: Side, step: steps.Commit) -> Plain:
    """The code for each partition of an OffsetCommit."""
    by_topic: dict[str, list[dict[str, Any]]] = {}
    for each in step.offsets:
        by_topic.setdefault(each.topic, []).append(
            {
                "partition_index": each.partition,
                "committed_offset": each.offset,
                "committed_leader_epoch": each.leader_epoch,
                "committed_metadata": None if each.note is None else "x" * each.note,
            }
        )
    asked = request(
        "OffsetCommit",
        group_id=step.group,
        generation_id_or_member_epoch=step.epoch,
        member_id=_member_id(side, step.group, step.member) or "",
        group_instance_id=step.instance,
        retention_time_ms=step.retention_ms,
        topics=[
            {"name": name, "topic_id": side.topic_id(name), "partitions": wanted}
            for name, wanted in by_topic.items()
        ],
    )
    by_id = step.version >= 10
    return gathered(
        (
            f"{side.topic_name(topic.topic_id) if by_id else topic.name}-{each.partition_index}",
            each.error_code,
        )
        for topic in side.call(asked, step.version).topics
        for each in topic.partitions
    )


def fetch(side: Side, step: steps.Fetch) -> Plain:
    """What an OffsetFetch found."""
    topics = step.partitions and [
        {"name": name, "topic_id": side.topic_id(name), "partition_indexes": each}
        for name, each in step.partitions
    ]
    if step.version < 8:
        for each in topics or ():
            del each["topic_id"]
        asked = request(
            "OffsetFetch", group_id=step.group, topics=topics, require_stable=step.stable
        )
        fetched = side.call(asked, step.version)
    else:
        group = {
            "group_id": step.group,
            "member_id": _member_id(side, step.group, step.member),
            "member_epoch": step.epoch,
            "topics": topics,
        }
        asked = request("OffsetFetch", groups=[group], require_stable=step.stable)
        (fetched,) = side.call(asked, step.version).groups
    return {
        "code": fetched.error_code,
        "offsets": gathered(offsets(side, fetched.topics, step.version)),
    }


def forget(side: Side, step: steps.Forget) -> Plain:
    """The codes of an OffsetDelete."""
    topics = [
        {"name": name, "partitions": [{"partition_index": index} for index in indexes]}
        for name, indexes in step.partitions
    ]
    answer = side.call(request("OffsetDelete", group_id=step.group, topics=topics), 0)
    codes = gathered(
        (f"{topic.name}-{each.partition_index}", each.error_code)
        for topic in answer.topics
        for each in topic.partitions
    )
    return {"code": answer.error_code, "partitions": codes}
