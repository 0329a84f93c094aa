"""Processes of one Streams group with a real coordinator's shard between them; topics are made when
a leader asks for them.
"""

from collections.abc import Collection
from typing import TYPE_CHECKING, Any

from apportion.machine import Note
from apportion.member.classic.requests import ClassicSettings
from apportion.member.membership import (
    MetadataFetched,
    QueryAnswered,
    QueryCluster,
    Subscribe,
    Unanswered,
)
from apportion.member.streams.assignor import StreamsSettings
from apportion.member.streams.machine import StreamsMember, TaskOffsetSums
from apportion.streams.metadata.model import RUNNING, TaskId
from apportion.streams.metadata.releases import NEWEST_RELEASE, known_release
from apportion.streams.queries import CreateInternalTopics
from apportion.streams.topology import Topology
from apportion.streams.topology_parser import topology_of
from tests.member.simulated_group import REBALANCE_MS, SESSION_MS, Actor, SimulatedGroup

if TYPE_CHECKING:
    from apportion.topics import TopicPartition

WORDS = topology_of(
    [
        {"sources": ["lines"], "repartition_sinks": ["g-words"]},
        {"repartition_sources": ["g-words"], "changelogs": ["g-counts-changelog"]},
    ]
)


class SimulatedStreamsGroup(SimulatedGroup):
    """ends: where changelogs end; None: nobody tells. has: the offset sums of tasks that an
    instance does not run, by its name.

    notes: what members said for people.
    """

    kind: type[Any] = StreamsMember

    def __init__(self, topology: Topology = WORDS, **sizes: Any) -> None:
        self.topology = topology
        self.ends: dict[TopicPartition, int] | None = {}
        self.has: dict[str, dict[TaskId, int]] = {}
        self.notes: list[str] = []
        super().__init__(**(sizes or {"lines": 4}))

    def starts(
        self,
        name: str,
        *,
        release: str = NEWEST_RELEASE,
        process: Any = None,
        instance_id: str | None = None,
        **settings: Any,
    ) -> Actor:
        """An instance of that name; `process` says whose thread it is, if not one of its own."""
        machine = StreamsMember(
            StreamsSettings(
                topology=self.topology,
                process_id=(process or name).encode().rjust(16, b"."),
                release=known_release(release),
                **settings,
            ),
            ClassicSettings(
                "g",
                (),
                instance_id=instance_id,
                session_timeout_ms=SESSION_MS,
                rebalance_timeout_ms=REBALANCE_MS,
                metadata_interval_ms=2_000,
            ),
        )
        self.actors[name] = actor = Actor(name, machine)
        self.tells(actor, ())
        self.tell(actor, Subscribe(self.topology.source_topics))
        return actor

    def heed(self, actor: Actor, action: Note | QueryCluster) -> None:
        match action:
            case QueryCluster(request_id):
                self.mail.append((actor, action, request_id))
            case Note(_, text):
                self.notes.append(text)

    def answer(self, what: Any) -> Any:
        if not isinstance(what, QueryCluster):
            return super().answer(what)
        question = what.query
        if isinstance(question, CreateInternalTopics):
            for topic in question.topics:
                if topic.name not in self.sizes:
                    self.grow(topic.name, topic.partitions)
            return MetadataFetched(
                what.request_id, self.seen([topic.name for topic in question.topics])
            )
        if self.ends is None:
            return Unanswered(what.request_id, "no broker")
        return QueryAnswered(
            what.request_id,
            {partition: self.ends.get(partition, 0) for partition in question.partitions},
        )

    def wanted(self) -> Any:
        return [topic for topic in self.topics() if topic.name in self.topology.source_topics]

    def adopts(self, actor: Any) -> None:
        """As a StreamsConsumer: what it lets go of it says before that to run no more, and what it
        takes up after that to run.
        """
        is_ours = isinstance(actor.machine, StreamsMember)
        if is_ours:
            given = actor.machine.tasks().active
            self.tells(actor, [task for task in actor.runs if task in given])
        super().adopts(actor)
        if is_ours:
            self.tells(actor, actor.machine.tasks().active)

    def tells(self, actor: Actor, runs: Collection[TaskId]) -> None:
        actor.runs = tuple(runs)
        sums = self.has.get(actor.name, {}) | dict.fromkeys(runs, RUNNING)
        self.tell(actor, TaskOffsetSums(sums, actor.view.incarnation))

    def users(self) -> list[Actor]:
        return [actor for actor in self.actors.values() if actor.failed is None]

    def may_fail(self, failure: str) -> bool:
        return failure.split(": ", 1)[1] in (
            "source topics are missing: lines; create them, and start again",
            "an instance has asked all instances to shut down",
        )

    def passes(self, span_ms: int, quick: list[Actor] | None = None) -> None:
        """Time passes and the mail comes; only the quick ones' owners do anything, or
        everybody's.
        """
        for _ in range(0, span_ms, 250):
            self.deliver_all(quick=self.alive() if quick is None else quick)
            self.wait(250)

    def instances(self) -> dict[str, Any]:
        """The members that are of the application, by name."""
        return {
            name: actor.machine
            for name, actor in self.actors.items()
            if isinstance(actor.machine, self.kind)
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
