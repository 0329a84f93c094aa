"""Real members of one group with a real coordinator's shard between them, and a hand on the clock
and on every message.

What a member sends and hears lies in `mail` until it is delivered, or lost. Its owner adopts what
it is offered when it is told to. Nothing of this is a stand-in: only the network, the disk and the
owners are played.
"""

from collections.abc import Sequence
from itertools import count
from typing import TYPE_CHECKING, Any

from apportion.coord.classic.state import ClassicGroup
from apportion.coord.shard import Shard
from apportion.errors import Code
from apportion.machine import Caller, Tick, Ticket
from apportion.member.assignors.strategy import strategy
from apportion.member.classic.machine import ClassicMember
from apportion.member.classic.requests import ClassicSettings
from apportion.member.cluster_queries.topics import TopicDescription
from apportion.member.consumer.machine import ConsumerMember
from apportion.member.consumer.requests import ConsumerSettings
from apportion.member.membership import (
    Adopted,
    Answered,
    CoordinatorFound,
    Failed,
    FetchMetadata,
    FindCoordinator,
    Leave,
    Left,
    Lost,
    MembershipState,
    MetadataFetched,
    Offer,
    SendToCoordinator,
    Subscribe,
    Unanswered,
    View,
)
from apportion.topics import IdPartition, Topics
from apportion.wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from apportion.wire.messages.join_group import JoinGroupRequest, JoinGroupResponse
from apportion.wire.messages.leave_group import LeaveGroupRequest, MemberIdentity
from tests.coord.shard_driver import ShardDriver, settings_with, topics
from tests.member.script_words import COMPUTATIONS, api_of

if TYPE_CHECKING:
    from apportion.streams.metadata.model import TaskId
    from tests.member.test_streams_member import Broken

NEWEST = {
    "JoinGroupRequest": 9,
    "SyncGroupRequest": 5,
    "HeartbeatRequest": 4,
    "LeaveGroupRequest": 5,
    "ConsumerGroupPrepareAssignmentRequest": 0,
    "ConsumerGroupInstallAssignmentRequest": 0,
}
SESSION_MS, REBALANCE_MS = 10_000, 20_000


class Actor:
    """One member and its owner."""

    def __init__(self, name: str, machine: Any) -> None:
        self.name, self.machine = name, machine
        self.uses: tuple[IdPartition, ...] = ()  # what the owner uses
        # the tasks that it has said to run, if it is of Kafka Streams
        self.runs: tuple[TaskId, ...] = ()
        # it was put out, and has come back under its id without having heard so
        self.forgotten = False
        self.seen: View | None = None  # the view that it is about to act upon
        self.flight: SendToCoordinator | None = None
        # Prepare or Install of a computation, beside the heartbeats
        self.computing: SendToCoordinator | None = None
        self.left: Left | None = None
        self.failed: str | None = None
        self.rebalanced_from: tuple[IdPartition, ...] = ()  # what it was offered to give back

    @property
    def view(self) -> View:
        view: View = self.machine.view()
        return view


class SimulatedGroup:
    """The group "g" and those who ever were in it. mail: what is under way, as (actor, "ask" or an
    event, request id).
    """

    def __init__(self, **sizes: Any) -> None:
        self.numbers = count(1)
        self.sizes = sizes or {"t": 4}
        settings = settings_with(
            group_min_session_timeout_ms=1_000, group_consumer_session_timeout_ms=SESSION_MS
        )
        self.coordinator = ShardDriver(settings, self.topics())
        self.actors: dict[str, Actor] = {}
        self.mail: list[tuple[Actor, Any, int]] = []
        self.parked: dict[Ticket, tuple[Actor, int]] = {}  # ticket -> (actor, request id)

    @property
    def shard(self) -> Shard:
        return self.coordinator.shard

    def topics(self) -> Topics:
        return topics(**self.sizes)

    # the coordinator

    def crash(self) -> None:
        """The coordinator is killed and comes back: nobody hears of what was asked."""
        waiting, self.parked = self.parked, {}
        self.coordinator.crash()
        for actor, request_id in waiting.values():
            self.mail.append((actor, Unanswered(request_id, "crash"), request_id))

    def send_answers(self) -> None:
        """What the coordinator has answered is under way to those who asked."""
        answers, self.coordinator.responses = self.coordinator.responses, []
        for ticket, body in answers:
            if waits := self.parked.pop(ticket, None):
                actor, request_id = waits
                self.mail.append((actor, Answered(request_id, body), request_id))

    def current(self) -> tuple[str, ...]:
        """The ids of those whom the coordinator holds for members."""
        group = self.shard.ledger.groups.get("g")
        if group is None:
            return ()
        return tuple(group.live.members if isinstance(group, ClassicGroup) else group.saved.members)

    # the members

    def joins(
        self, name: Any, *assignors: "str | Broken", topics: tuple[str, ...] = ("t",)
    ) -> Actor:
        """A member of that name: classic with assignors, KIP-848 without."""
        if assignors:
            machine: Any = ClassicMember(
                ClassicSettings(
                    "g",
                    strategy(assignors),
                    session_timeout_ms=SESSION_MS,
                    rebalance_timeout_ms=REBALANCE_MS,
                    metadata_interval_ms=2_000,
                )
            )
        else:
            machine = ConsumerMember(
                ConsumerSettings(
                    "g", f"{name}-{next(self.numbers)}", rebalance_timeout_ms=REBALANCE_MS
                )
            )
        return self.begins(name, machine, topics)

    def begins(self, name: Any, machine: Any, topics: tuple[str, ...]) -> Actor:
        """A member of that name, which subscribes to these topics."""
        self.actors[name] = actor = Actor(name, machine)
        self.tell(actor, Subscribe(topics))
        return actor

    def tell(self, actor: Actor, event: Any) -> None:
        """The member is stepped, and what it wants is put into the mail."""
        for action in actor.machine.step(event, self.coordinator.now):
            match action:
                case FindCoordinator(request_id):
                    self.mail.append((actor, CoordinatorFound(request_id), request_id))
                case SendToCoordinator(request_id, request):
                    if api_of(request) in COMPUTATIONS:
                        actor.computing = action
                    else:
                        actor.flight = action
                    self.mail.append((actor, "ask", request_id))
                case FetchMetadata(request_id):
                    self.mail.append((actor, action, request_id))
                case Offer(_, _, revoke, _):
                    actor.rebalanced_from = revoke
                case Lost(_, lost):
                    assert lost == actor.uses
                    actor.uses = ()
                case Failed(code, why):
                    actor.failed = f"{code.name}: {why}"
                case Left():
                    actor.left, actor.uses = action, ()
                case _:
                    self.heed(actor, action)
        if isinstance(event, Answered) and isinstance(event.response, JoinGroupResponse):
            actor.forgotten = False
        self.check()

    def heed(self, actor: Actor, action: Any) -> None:
        """What only some members want; the others' notes are heard by nobody."""

    def adopts(self, actor: Actor) -> None:
        """The owner does what it is asked for."""
        if actor.left is None and actor.view.target is not None:
            self.takes(actor, actor.view.target)

    def takes(self, actor: Actor, wanted: tuple[IdPartition, ...]) -> None:
        """The owner lets go of all but these, and then uses these."""
        view = actor.view
        if wanted != view.owned:
            actor.uses = tuple(partition for partition in actor.uses if partition in wanted)
            self.tell(actor, Adopted(view.incarnation, wanted))
            actor.uses = actor.view.owned

    def dawdles(self, actor: Actor) -> None:
        """The owner looks now and does later what it saw, which may be out of date by then."""
        seen = actor.seen
        actor.seen = actor.view if seen is None else None
        if seen is not None and seen.target is not None:
            self.tell(actor, Adopted(seen.incarnation, seen.target))
            actor.uses = actor.view.owned

    def leaves(self, actor: Actor) -> None:
        actor.uses = ()
        self.tell(actor, Leave())

    # what happens to the mail

    def deliver(self, index: Any) -> None:
        actor, what, request_id = self.mail.pop(index % len(self.mail))
        if what == "ask":
            self.ask(actor, request_id)
        else:
            self.tell(actor, self.answer(what))

    def answer(self, what: Any) -> Any:
        """What comes back, if the mail is a question to the cluster; else the mail."""
        return (
            MetadataFetched(what.request_id, self.seen(what.names, what.ids))
            if isinstance(what, FetchMetadata)
            else what
        )

    def seen(self, names: Sequence[str], ids: Sequence[bytes] = ()) -> tuple[TopicDescription, ...]:
        return tuple(
            TopicDescription(topic.name, topic.id, topic.partitions)
            for topic in self.topics()
            if topic.name in names or topic.id in ids
        )

    def deliver_to(self, actor: Actor) -> None:
        """The oldest message from or to the member."""
        mine = [index for index, (whose, _, _) in enumerate(self.mail) if whose is actor]
        if mine:
            self.deliver(mine[0])

    def run(self, actor: Actor, *, adopts: bool) -> None:
        """The member goes on for as long as it need not wait for others, who stand still."""
        while any(whose is actor for whose, _, _ in self.mail):
            self.deliver_to(actor)
            if adopts:
                self.adopts(actor)

    def deliver_all(self, quick: list[Actor]) -> None:
        """Everything has arrived, and what it brought about; only the quick ones' owners have done
        anything.
        """
        while self.mail:
            self.deliver(0)
            for actor in quick:
                self.adopts(actor)

    def lose(self, index: Any) -> None:
        """A message is lost, and its sender hears that there will be no answer."""
        actor, _, request_id = self.mail.pop(index % len(self.mail))
        self.tell(actor, Unanswered(request_id, "lost"))

    def cut(self, actor: Actor) -> None:
        """The connections of a member break: nobody waits for what it has asked."""
        tickets = [ticket for ticket, (whose, _) in self.parked.items() if whose is actor]
        requests = [self.parked.pop(ticket)[1] for ticket in tickets]
        if tickets:
            self.coordinator.hang_up(*tickets)
            self.send_answers()
        for request_id in requests:
            self.tell(actor, Unanswered(request_id, "cut"))

    def puts_out(self, actor: Actor) -> None:
        """An administrator removes the member, which has not heard of it."""
        who = MemberIdentity(
            member_id=actor.view.member_id, group_instance_id=actor.machine.settings.instance_id
        )
        request = LeaveGroupRequest(group_id="g", members=(who,))
        actor.forgotten = True
        self.coordinator.ask(request, 5, Caller("admin", "host"))
        self.send_answers()

    def ask(self, actor: Actor, request_id: int) -> None:
        sent = [each for each in (actor.flight, actor.computing) if each is not None]
        request = next((each.request for each in sent if each.request_id == request_id), None)
        if request is None:
            return  # the member has sent another one since
        actor.forgotten |= (
            isinstance(request, JoinGroupRequest) and request.member_id not in self.current()
        )
        version = (
            1
            if isinstance(request, ConsumerGroupHeartbeatRequest)
            else NEWEST[type(request).__name__]
        )
        ticket = self.coordinator.ask(request, version, Caller(actor.name, "host"))
        self.parked[ticket] = actor, request_id
        self.send_answers()

    def wait(self, span_ms: Any) -> None:
        """Time passes, and everybody is woken who wants to be."""
        until_ms = self.coordinator.mono_ms + span_ms
        while True:
            sleepers = [self.shard, *(actor.machine for actor in self.actors.values())]
            wake_at_ms = min(
                (at for one in sleepers if (at := one.wake_at()) is not None), default=until_ms
            )
            now_ms = max(self.coordinator.mono_ms, min(wake_at_ms, until_ms))
            self.coordinator.mono_ms = now_ms
            self.coordinator.step(Tick())
            self.send_answers()
            for actor in [*self.actors.values()]:
                self.tell(actor, Tick())
            if wake_at_ms >= until_ms or all(
                (at := one.wake_at()) is None or at <= now_ms for one in sleepers
            ):
                self.coordinator.mono_ms = until_ms
                return

    def grow(self, topic: str, partitions: int | None = None) -> None:
        """The topic has one partition more, or so many."""
        self.sizes[topic] = partitions or self.sizes[topic] + 1
        self.coordinator.change_topics(self.topics())
        self.send_answers()

    # what holds

    def check(self) -> None:
        """No partition is used by two whom the coordinator holds for members; and nobody fails, but
        for a reason that may be.
        """
        members = self.current()
        used: dict[IdPartition, str] = {}
        for actor in self.users():
            if actor.view.member_id in members and not actor.forgotten:
                for partition in actor.uses:
                    assert partition not in used, (partition, actor.name, used[partition])
                    used[partition] = actor.name
        for actor in self.actors.values():
            assert actor.failed is None or self.may_fail(actor.failed), actor.failed

    def users(self) -> list[Actor]:
        """Those of whom nobody else may use what they use."""
        return [*self.actors.values()]

    def may_fail(self, failure: str) -> bool:
        """Whether a member may end so.

        A coordinator, Kafka's too, knows after a restart only the assignor that was chosen: it may
        refuse who has another of all.
        """
        return failure.startswith(Code.INCONSISTENT_GROUP_PROTOCOL.name)

    def alive(self) -> list[Actor]:
        gone = (MembershipState.LEAVING, MembershipState.FATAL)
        return [
            actor
            for actor in self.actors.values()
            if actor.left is None and actor.view.state not in gone
        ]

    def settle(self, within_ms: int = 300_000) -> None:
        """Nothing is lost any more and every owner is quick: the group comes to rest, with every
        partition in use once.
        """
        until_ms = self.coordinator.mono_ms + within_ms
        while not self.is_settled():
            assert self.coordinator.mono_ms < until_ms, [
                (actor.name, actor.view, actor.flight) for actor in self.alive()
            ]
            # Waited first: heartbeats are always under way, so only what is delivered is at rest.
            self.wait(250)
            self.deliver_all(quick=self.alive())

    def is_settled(self) -> bool:
        views = [actor.view for actor in self.alive()]
        if self.mail or any(view.state is not MembershipState.STABLE for view in views):
            return False
        held = sorted(partition for view in views for partition in view.owned)
        wanted = [
            (topic.id, number) for topic in self.wanted() for number in range(topic.partitions)
        ]
        return held == (sorted(wanted) if views else [])

    def wanted(self) -> Topics:
        """The topics that somebody has to hold."""
        return self.topics()
