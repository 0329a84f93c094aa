"""A member of the consumer protocol that does as it is told."""

from typing import Any

from apportion.errors import Code
from apportion.machine import Caller
from apportion.wire.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)
from tests.coord.shard_driver import HERE, ShardDriver

REBALANCE_MS = 20_000
FENCING = (
    Code.FENCED_MEMBER_EPOCH,
    Code.FENCED_INSTANCE_ID,
    Code.UNKNOWN_MEMBER_ID,
    Code.GROUP_ID_NOT_FOUND,
)


class Client:
    """It gives up at once what it is told to, and says so in its next heartbeat.

    held: (topic id, partition) of all that it works on. is_news: the coordinator has not heard all
    of it yet.
    """

    def __init__(
        self,
        driver: ShardDriver,
        name: str,
        topic_names: tuple[str, ...],
        instance_id: str | None = None,
    ) -> None:
        self.driver = driver
        self.name = self.member_id = name
        self.caller = Caller(name, HERE.host)
        self.topic_names, self.expression = topic_names, ""
        self.instance_id = instance_id
        self.lose()

    def lose(self) -> None:
        """It has lost its membership, and uses nothing."""
        self.epoch = 0
        self.held: list[tuple[bytes, int]] = []
        self.is_news = True

    @property
    def owned(self) -> Any:
        """What it works on, in the words of the test."""
        return self.held

    def facts(self, assignor: str | None = None) -> dict[str, Any]:
        """What its next heartbeat carries."""
        if not self.is_news:
            return {}
        parts = (TopicPartitions(topic_id=some, partitions=(index,)) for some, index in self.held)
        return {
            "rebalance_timeout_ms": REBALANCE_MS,
            "subscribed_topic_names": self.topic_names,
            "subscribed_topic_regex": self.expression,
            "topic_partitions": tuple(parts),
            "server_assignor": assignor,
        }

    def say(self, epoch: int, **facts: Any) -> ConsumerGroupHeartbeatResponse:
        """The answer to a heartbeat."""
        return self.driver.beat(
            self.member_id,
            epoch,
            instance_id=self.instance_id,
            caller=self.caller,
            **facts,
        )

    def act(
        self, is_lost: bool = False, assignor: str | None = None
    ) -> ConsumerGroupHeartbeatResponse:
        """One heartbeat; is_lost: its answer does not arrive."""
        answer = self.say(self.epoch, **self.facts(assignor))
        if is_lost:
            self.is_news = True
        else:
            self.hear(answer)
        return answer

    def hear(self, answer: ConsumerGroupHeartbeatResponse) -> None:
        """Do as the coordinator says."""
        if answer.error_code in (*FENCING, Code.GROUP_MAX_SIZE_REACHED):
            self.lose()
            return
        assert answer.error_code in (Code.NONE, Code.UNRELEASED_INSTANCE_ID), answer
        self.is_news = bool(answer.error_code)
        if not answer.error_code:
            self.epoch = answer.member_epoch
            if answer.assignment is not None:
                parts = answer.assignment.topic_partitions
                held = [(part.topic_id, index) for part in parts for index in part.partitions]
                self.is_news = held != self.held
                self.held = held

    def leave(self, epoch: int = -1) -> ConsumerGroupHeartbeatResponse:
        """It goes; with -2 for a while."""
        answer = self.say(epoch)
        self.lose()
        return answer
