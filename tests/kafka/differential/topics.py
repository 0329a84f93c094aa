"""Topics made, grown and dropped, so that the broker and the coordinator of one group know it
before the next step.

A real Kafka answers before its coordinators have heard of it. So a member of another group on the
same shard of the coordinator subscribes to the topic, and beats until its epoch is another one.
"""

from __future__ import annotations

import time
from itertools import count
from typing import TYPE_CHECKING, Any

from apportion.coord.placement import shard_of
from tests.messages import request

if TYPE_CHECKING:
    from tests.kafka.differential import steps
    from tests.kafka.differential.plain_values import Plain
    from tests.kafka.differential.side import Side

SHARDS = 50
KNOWN_WITHIN_S = 30
CHANGE_MS = 30_000


class Watch:
    """A member that waits for its group's coordinator to see a topic change."""

    def __init__(self, side: Side, topic: str, near: str) -> None:
        self.side = side
        shard = shard_of(near, SHARDS)
        self.group = next(
            name for n in count() if shard_of(name := f"watch-{n}-{near}", SHARDS) == shard
        )
        self.epoch = self.beat(
            0, rebalance_timeout_ms=CHANGE_MS, subscribed_topic_names=(topic,)
        ).member_epoch

    def beat(self, epoch: int, **said: Any) -> Any:
        """One heartbeat, which never claims to own anything."""
        facts = {"group_id": self.group, "member_id": "watch", "topic_partitions": ()} | said
        return self.side.call(request("ConsumerGroupHeartbeat", member_epoch=epoch, **facts), 1)

    def wait(self) -> None:
        """The coordinator has seen the change."""
        give_up = time.monotonic() + KNOWN_WITHIN_S
        while self.beat(self.epoch).member_epoch == self.epoch:
            assert time.monotonic() < give_up, f"{self.side.name} has not seen a change of topics"
            time.sleep(0.005)


def make(side: Side, step: steps.MakeTopic) -> Plain:
    """The topic is there; one that scripts share may have been there before."""
    if step.topic in side.partitions:
        return {"code": 0}
    topic = {"name": step.topic, "num_partitions": step.partitions, "replication_factor": 1}
    return changed(side, step, request("CreateTopics", topics=[topic]), 7, step.partitions)


def grow(side: Side, step: steps.Grow) -> Plain:
    """The topic has more partitions."""
    topic = {"name": step.topic, "count": step.partitions, "assignments": None}
    asked = request("CreatePartitions", topics=[topic], timeout_ms=CHANGE_MS)
    return changed(side, step, asked, 3, step.partitions)


def drop(side: Side, step: steps.DropTopic) -> Plain:
    """The topic is gone."""
    asked = request("DeleteTopics", topics=[{"name": step.topic}], timeout_ms=CHANGE_MS)
    return changed(side, step, asked, 6, 0)


def changed(side: Side, step: Any, asked: Any, version: int, partitions: int) -> Plain:
    """The request is done and known."""
    watch = None if step.near is None else Watch(side, step.topic, step.near)
    answer = side.call(asked, version)
    (result,) = getattr(answer, "topics", ()) or getattr(answer, "results", ()) or answer.responses
    side.refresh(step.topic, lambda count: count == partitions)
    if watch is not None:
        watch.wait()
    return {"code": result.error_code}
