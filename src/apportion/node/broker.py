"""The context that request handlers share: settings, addresses, flush gate, topics, partitions."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from apportion.deadlines import Deadlines
from apportion.errors import Code, Refused
from apportion.machine import Abandon, Arrived, Compute, Instant, Note
from apportion.node.authorization.denials import Denials
from apportion.node.authorizer_settings import super_users_of
from apportion.node.delayed_fetches import DelayedFetches
from apportion.node.disk_failures import DiskFailures
from apportion.node.flush_gate import FlushGate
from apportion.node.listeners import Advertised
from apportion.node.partitions import LEADER_EPOCH, Partition, Partitions
from apportion.node.settings import BrokerSettings
from apportion.node.topics import TopicService
from apportion.security.authorizer import Acls, Authorizer


class Answer(NamedTuple):
    """A response, and the flush that must succeed before it may be sent."""

    body: Any
    flush_seq: int = 0


def authorizer_or_none(settings: BrokerSettings, acls: Acls) -> Authorizer | None:
    """Return the judge of what clients may do by these ACLs; None: all may do all."""
    if not settings.authorizer_class_name:
        return None
    return Authorizer(
        acls, super_users_of(settings.super_users), settings.allow_everyone_if_no_acl_found
    )


@dataclass(slots=True)
class BrokerContext:
    """The state that the handlers of data requests read and write.

    Groups are in the coordinators instead. denials: what is to be logged of refused requests.
    computations: begun and abandoned in this step; they wait for no flush.
    notes: the log lines of the current unit of work, each with the flush that it waits for.
    """

    advertised: Advertised
    flush_gate: FlushGate
    topic_service: TopicService
    partitions: Partitions
    delayed_fetches: DelayedFetches
    deadlines: Deadlines
    disk_failures: DiskFailures
    denials: Denials = field(default_factory=Denials)
    computations: list[Abandon | Compute] = field(default_factory=list)
    notes: list[tuple[int, Note]] = field(default_factory=list)

    @property
    def settings(self) -> BrokerSettings:
        """The broker's settings that hold now; some may be altered while it runs."""
        return self.topic_service.live.broker

    @property
    def authorizer(self) -> Authorizer | None:
        """The judge of what clients may do, by the ACLs on the disk; None: all may do all."""
        return authorizer_or_none(self.settings, self.topic_service.durable.acls)

    def partition(
        self, name: str, index: int, *, topic_id: bytes | None = None, leader_epoch: int = -1
    ) -> Partition:
        """Return the partition that a request names, by topic id if that is given.

        Produce and Fetch give it from version 13 on. leader_epoch: the latest one that the client
        has seen.
        Errors: UNKNOWN_TOPIC_ID, UNKNOWN_TOPIC_OR_PARTITION, UNKNOWN_LEADER_EPOCH.
        """
        topics = self.topic_service.topics
        topic = topics.named(name) if topic_id is None else topics.with_id(topic_id)
        if topic is None and topic_id is not None:
            raise Refused(Code.UNKNOWN_TOPIC_ID, f"no topic has the id {topic_id.hex()}")
        if topic is None or not 0 <= index < topic.partitions:
            raise Refused(Code.UNKNOWN_TOPIC_OR_PARTITION, f"there is no partition {name}-{index}")
        # KIP-320: a client that has seen a later leader must not believe this log.
        if leader_epoch > LEADER_EPOCH:
            raise Refused(Code.UNKNOWN_LEADER_EPOCH, f"the leader epoch is {LEADER_EPOCH}")
        return self.partitions.open_partition(topic, index)


BrokerHandler = Callable[[BrokerContext, Arrived, Instant], Answer | None]
"""Answers a request, or parks it and returns None."""
