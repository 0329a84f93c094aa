"""Processes of one Streams group of KIP-848 with a real coordinator's shard between them."""

from typing import Any

from apportion.errors import Code
from apportion.machine import Note
from apportion.member.consumer.requests import ConsumerSettings
from apportion.member.membership import (
    Adopted,
    FetchMetadata,
    MetadataFetched,
    QueryCluster,
    RunAssignor,
    Subscribe,
    TopicDescription,
)
from apportion.member.streams.assignor import StreamsSettings
from apportion.member.streams.client_side_machine import ClientSideStreamsMember
from apportion.streams.task_assignment.client_states import AssignmentConfigs
from apportion.streams.topology import Topology
from apportion.topics import IdPartition
from tests.member.simulated_group import REBALANCE_MS, Actor, SimulatedGroup
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
        self.actors[name] = actor = Actor(name, machine)
        self.tell(actor, Subscribe(topology.source_topics))
        return actor

    def heed(self, actor: Actor, action: Note | QueryCluster | RunAssignor) -> None:
        if isinstance(action, RunAssignor):
            self.mail.append((actor, action, action.request_id))
        else:
            super().heed(actor, action)

    def answer(self, what: Any) -> Any:
        if isinstance(what, RunAssignor):
            return what.perform()
        if isinstance(what, FetchMetadata):
            topics = self.topics()
            found = [topic for topic in topics if topic.id in what.ids or topic.name in what.names]
            return MetadataFetched(
                what.request_id,
                tuple(TopicDescription(topic.name, topic.id, topic.partitions) for topic in found),
            )
        return super().answer(what)

    def adopts(self, actor: Actor) -> None:
        """As a StreamsConsumer: it takes up the partitions of complete tasks alone."""
        if not isinstance(actor.machine, ClientSideStreamsMember):
            SimulatedGroup.adopts(self, actor)
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
        wanted = tuple(each for each in view.target if each in runnable)
        if wanted != view.owned:
            actor.uses = tuple(each for each in actor.uses if each in wanted)
            self.tell(actor, Adopted(view.incarnation, wanted))
            actor.uses = actor.view.owned
        self.tells(actor, actor.machine.tasks().active)

    def check(self) -> None:
        """As in every group; but a member may be told to end."""
        for actor in self.actors.values():
            if actor.failed is not None:
                code, why = actor.failed.split(": ", 1)
                assert code == ENDS[why].name
        ended = {name: each for name, each in self.actors.items() if each.failed}
        everybody = self.actors
        self.actors = {name: each for name, each in everybody.items() if name not in ended}
        super().check()
        self.actors = everybody

    def instances(self) -> dict[str, ClientSideStreamsMember]:
        """The members that are of the application, by name."""
        return {
            name: actor.machine
            for name, actor in self.actors.items()
            if isinstance(actor.machine, ClientSideStreamsMember)
        }

    def given(self) -> dict[str, tuple[list[str], list[str]]]:
        """{name: (active, copies)} of every instance's tasks, as texts."""
        shares = {name: member.tasks() for name, member in self.instances().items()}
        return {
            name: (
                sorted(map(str, share.active)),
                sorted(map(str, (*share.standby, *share.warmup))),
            )
            for name, share in shares.items()
        }
