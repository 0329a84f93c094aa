"""Processes of one Streams group of KIP-848 with a real coordinator's shard between them."""

from typing import Any

from apportion.errors import Code
from apportion.machine import Note
from apportion.member.consumer.requests import ConsumerSettings
from apportion.member.membership import (
    QueryCluster,
    RunAssignor,
)
from apportion.member.streams.assignor import StreamsSettings
from apportion.member.streams.client_side_machine import ClientSideStreamsMember
from apportion.streams.task_assignment.client_states import AssignmentConfigs
from apportion.streams.topology import Topology
from apportion.topics import IdPartition
from tests.member.simulated_group import REBALANCE_MS, Actor
from tests.member.simulated_streams_group import SimulatedStreamsGroup

POLICY = AssignmentConfigs(acceptable_recovery_lag=10)
ENDS = {
    "an instance has asked all instances to shut down": Code.INVALID_REQUEST,
    "the tasks could not be assigned; the log of the instance that tried says why": (
        Code.INVALID_REQUEST
    ),
}


class SimulatedClientSideGroup(SimulatedStreamsGroup):
    """A Streams group whose members assign by turns, as the coordinator chooses them."""

    kind = ClientSideStreamsMember

    def starts(
        self,
        name: str,
        *,
        topology: Topology | None = None,
        instance_id: str | None = None,
        policy: AssignmentConfigs = POLICY,
        **settings: Any,
    ) -> Actor:
        """An instance of that name."""
        topology = topology or self.topology
        process = name.encode().rjust(16, b".")
        machine = ClientSideStreamsMember(
            StreamsSettings(topology, process, policy=policy, **settings),
            ConsumerSettings(
                "g",
                member_id=f"{name}-{next(self.numbers)}",
                instance_id=instance_id,
                rebalance_timeout_ms=REBALANCE_MS,
            ),
        )
        return self.begins(name, machine, topology.source_topics)

    def heed(self, actor: Actor, action: Note | QueryCluster | RunAssignor) -> None:
        if isinstance(action, RunAssignor):
            self.mail.append((actor, action, action.request_id))
        else:
            super().heed(actor, action)

    def answer(self, what: Any) -> Any:
        return what.perform() if isinstance(what, RunAssignor) else super().answer(what)

    def adopts(self, actor: Actor) -> None:
        """As a StreamsConsumer: it takes up the partitions of complete tasks alone."""
        if not isinstance(actor.machine, ClientSideStreamsMember):
            super().adopts(actor)
            return
        view = actor.view
        if actor.left is not None or view.target is None:
            return
        ids = {topic.name: topic.id for topic in self.topics()}
        runnable = {
            IdPartition(ids[each.topic], each.partition)
            for read in actor.machine.tasks().active.values()
            for each in read
        }
        self.takes(actor, tuple(each for each in view.target if each in runnable))
        self.tells(actor, actor.machine.tasks().active)

    def may_fail(self, failure: str) -> bool:
        code, why = failure.split(": ", 1)
        return code == ENDS[why].name
