"""Members of consumer groups (KIP-848) without a client: they join, and rest."""

import time
from collections.abc import Iterable
from dataclasses import dataclass

from bench.peers.rows import PeerMissing
from bench.peers.wires import LIMIT_S, RETRIABLE, Wire

from apportion.wire.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)

VERSION = 1


@dataclass(slots=True)
class RestingMember:
    """A member as it knows itself."""

    group: str
    member_id: str
    epoch: int = 0
    owned: tuple[TopicPartitions, ...] = ()

    def steady_heartbeat(self) -> ConsumerGroupHeartbeatRequest:
        """Return the heartbeat of a member for which nothing has changed."""
        return ConsumerGroupHeartbeatRequest(
            group_id=self.group, member_id=self.member_id, member_epoch=self.epoch
        )

    def beat(self, wire: Wire, topic: str) -> bool:
        """Send a heartbeat with all that the member has; return whether its response was news."""
        joins = self.epoch == 0
        body = wire.call(
            ConsumerGroupHeartbeatRequest(
                group_id=self.group,
                member_id=self.member_id,
                member_epoch=self.epoch,
                rebalance_timeout_ms=300_000 if joins else -1,
                subscribed_topic_names=(topic,) if joins else None,
                topic_partitions=self.owned,
            ),
            VERSION,
        )
        if body.error_code in RETRIABLE:
            return True
        return self._take(body)

    def _take(self, body: ConsumerGroupHeartbeatResponse) -> bool:
        if body.error_code:
            raise PeerMissing(f"a heartbeat of {self.member_id} had error {body.error_code}")
        is_news = body.member_epoch != self.epoch or body.assignment is not None
        self.epoch = body.member_epoch
        if body.assignment is not None:
            self.owned = body.assignment.topic_partitions
        return is_news

    def partitions(self) -> int:
        """Return how many partitions the member has."""
        return sum(len(topic.partitions) for topic in self.owned)


def settled_members(
    wire: Wire, topic: str, partitions: int, groups: int, members: int
) -> list[RestingMember]:
    """Return so many members, alike many in each group, that have all partitions of a new topic.

    They rest: a heartbeat of each brings no news. Raises PeerMissing if they do not settle.
    """
    wire.create_topic(topic, partitions)
    wire.wait_for_coordinator(topic)
    everybody = [
        # Member ids of version 1 are made by the client, as UUIDs; any text is valid.
        RestingMember(f"{topic}-{number % groups:04}", f"{topic}-member-{number:04}")
        for number in range(members)
    ]
    deadline = time.monotonic() + LIMIT_S
    while True:
        news = [member.beat(wire, topic) for member in everybody]
        given = sum(member.partitions() for member in everybody)
        # A target that was computed before the last join gives everything to fewer members.
        least = min(member.partitions() for member in everybody)
        is_shared = given == partitions * groups and least >= given // members
        if is_shared and not any(news) and have_one_epoch(everybody):
            return everybody
        if time.monotonic() > deadline:
            raise PeerMissing(
                f"{members} members did not settle within {LIMIT_S} s: they have {given} of "
                f"{partitions * groups} partitions"
            )


def have_one_epoch(members: Iterable[RestingMember]) -> bool:
    """Return whether all members of each group have the same epoch."""
    epochs = {(member.group, member.epoch) for member in members}
    return len(epochs) == len({group for group, _ in epochs})
