"""Topics that the coordinator shards are told of, where steps and flushes fail meanwhile."""

from typing import Any

import pytest

from apportion.errors import Code
from apportion.node.coordinators import Coordinators
from apportion.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from tests.node import group_requests
from tests.node.fault_histories import Fault, begun

GROUPS = ("g", "h", "i")


def beat(history: Any, group_id: str, epoch: int) -> tuple[int, Any]:
    """The epoch of the member of a group that reads x, and its partitions by topic id."""
    wishes = "subscribed_topic_names=[x]"
    answer = history.call(group_requests.beat(group_id, "m", epoch, wishes))
    assert answer.error_code == Code.NONE
    return answer.member_epoch, answer.assignment and answer.assignment.topic_partitions


def test_a_topic_that_never_reached_the_disk_is_unknown_to_every_shard() -> None:
    history = begun(**{"group.consumer.assignment.interval.ms": 0})
    history.create("t")
    assert [beat(history, group_id, 0) for group_id in GROUPS] == [(2, ())] * 3
    wanted = CreatableTopic(name="x", num_partitions=1, replication_factor=1)
    with pytest.MonkeyPatch.context() as patch:
        # The first shard is told, the second one fails.
        fault = Fault(patch, (Coordinators, "update"), 2, False, RuntimeError("planted"))
        history.faults = (fault,)
        ticket = history.ask(CreateTopicsRequest(topics=(wanted,)))
        history.faults = ()
    history.sleep(0)  # what is left of the step
    history.fail_flush()
    assert history.answers[ticket].topics[0].error_code == Code.KAFKA_STORAGE_ERROR
    history.sleep(1_000)
    history.flush()
    # The topics equal those of before, but the shards know others.
    assert [beat(history, group_id, 2) for group_id in GROUPS] == [(2, None)] * 3
