"""An application as a process: a real member on a connection of its own, and an owner whose work is a story.

This is the simulator's driver of a member of either protocol, as `client.Session` is the real one. What the owner does, a reader's
or a Spark worker's work, is `story`; what of it is in the owner's hands is told to the watch.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from apportion.errors import Code
from apportion.machine import Note, Tick
from apportion.member.assignors.builtin import CLIENT_ASSIGNORS
from apportion.member.classic.machine import ClassicMember
from apportion.member.classic.requests import ClassicSettings
from apportion.member.consumer.machine import ConsumerMember, Settings
from apportion.member.membership import (
    Answered,
    CoordinatorFound,
    Failed,
    FetchMetadata,
    FindCoordinator,
    Leave,
    Left,
    MetadataFetched,
    SendToCoordinator,
    Subscribe,
    TopicDescription,
    Unanswered,
)
from apportion.member.reactions import Reaction, reaction
from apportion.member.streams.machine import StreamsMember
from apportion.sim.actors.broker import Broker
from apportion.sim.actors.protocols import Dialects
from apportion.sim.actors.requests import METADATA, News
from apportion.sim.kernel.client import REQUEST_TIMEOUT_MS, Client
from apportion.sim.kernel.clock import Alarm, Telling, World
from apportion.sim.kernel.network import Line
from apportion.sim.kernel.outcome import LawBroken
from apportion.sim.kernel.scenario import CONSUMER, Scenario
from apportion.topics import TopicIdPartition
from apportion.wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from apportion.wire.messages.find_coordinator import FindCoordinatorRequest
from apportion.wire.messages.heartbeat import HeartbeatRequest
from apportion.wire.messages.join_group import JoinGroupRequest
from apportion.wire.messages.leave_group import LeaveGroupRequest
from apportion.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from apportion.wire.messages.sync_group import SyncGroupRequest

if TYPE_CHECKING:
    from apportion.sim.checks.checker import Watch

FIND = 4  # the versions that are spoken
SPOKEN = {ConsumerGroupHeartbeatRequest: 1, JoinGroupRequest: 9, SyncGroupRequest: 5, HeartbeatRequest: 4, LeaveGroupRequest: 5}
LOOKS_EVERY_MS = 5_000  # at the topics, to see whether they have changed
GOODBYE_MS = 3_000
STARTED_AGAIN_US = 1_000_000
SOON_US = 10_000  # a thread that was waiting takes a moment to run


AnyMember = ConsumerMember | ClassicMember | StreamsMember


def has_news(member: AnyMember) -> bool:
    """The coordinator wants the owner to hold something else."""
    view = member.view()
    return view.epoch > 0 and view.target is not None and view.target != view.owned


Held = tuple[int, Mapping[TopicIdPartition, None]]
"""What an owner uses: in which life of its member, and which places."""
NOTHING: Held = (0, {})


class Application(Client):
    """One application. `hand` is what its owner uses now; `next_dialect` what its next process will speak."""

    group = ""

    def __init__(
        self,
        world: World,
        name: str,
        broker: Broker,
        topics: tuple[str, ...],
        is_static: bool,
        watch: "Watch",
        dialects: Dialects,
    ) -> None:
        super().__init__(world, name, broker)
        self.topics = topics
        self.instance_id = name if is_static else None
        self.dialects = dialects
        self.dialect = self.next_dialect = dialects.first
        self.hand: Held = NOTHING
        self.slow_until_us = 0
        self._joined_at = 0  # how often shards had been rebuilt when the member last joined
        self.behind_until_us = 0  # what it began while it was slow may last until then
        self.watch = watch
        self._news: tuple[Callable[[Any], bool], Telling, int] | None = None

    def begin(self) -> None:
        """A new process of this application lives: a new member joins, and the owner starts its work."""
        self.starts()
        self.hand, self.dialect = NOTHING, self.next_dialect
        self.beats = Line(self, self.link, self.broker)
        self.looks = Line(self, self.link, self.broker)
        self.member = self._new_member(self.world.scenario)
        self._alarm = Alarm(self, self._rings)
        self._tick = Tick()
        self.world.say(self.name, f"begins as {self.name}.{self.life}{self._accent}")
        self.joins()
        self.begins_work()

    def joins(self) -> None:
        """The member of this process wants its topics, and joins its group for them."""
        self.tell(Subscribe(self.topics))

    @property
    def speaks_classic(self) -> bool:
        """The member of this life is one of the classic protocol."""
        return self.dialect.protocol != CONSUMER

    @property
    def _accent(self) -> str:
        return f", {self.dialect}" if self.speaks_classic else ""

    def _new_member(self, scenario: Scenario) -> AnyMember:
        if self.speaks_classic:
            assignors = tuple(CLIENT_ASSIGNORS[name]() for name in self.dialect.assignors)
            return ClassicMember(replace(self._classic_settings(scenario), assignors=assignors))
        return ConsumerMember(
            Settings(
                group_id=self.group,
                member_id=f"{self.name}.{self.life}",
                instance_id=self.instance_id,
                rebalance_timeout_ms=scenario.rebalance_ms,
                poll_limit_ms=scenario.rebalance_ms,
                request_timeout_ms=REQUEST_TIMEOUT_MS,
            )
        )

    def _classic_settings(self, scenario: Scenario) -> ClassicSettings:
        """What every classic member of this world is set to, but for its assignors."""
        return ClassicSettings(
            group_id=self.group,
            instance_id=self.instance_id,
            session_timeout_ms=scenario.session_ms,
            heartbeat_interval_ms=scenario.heartbeat_ms,
            rebalance_timeout_ms=scenario.rebalance_ms,
            poll_limit_ms=scenario.rebalance_ms,
            metadata_interval_ms=LOOKS_EVERY_MS,
            request_timeout_ms=REQUEST_TIMEOUT_MS,
        )

    def die(self, says_goodbye: bool) -> None:
        """The process is dead. says_goodbye: its connections are closed by its host; otherwise the broker learns nothing."""
        if not self.is_up:
            return
        self.world.say(self.name, "is killed" if says_goodbye else "is lost with its host")
        self._put_down()
        for line in self._lines:
            if says_goodbye:
                line.close()
            else:
                line.vanish()
        self.ends()

    def stop(self) -> None:
        """The work ends where it is, and the member leaves; the process ends when that is heard, or after a while."""
        if self.is_up:
            self.world.say(self.name, "stops")
            self._put_down()
            self.later(GOODBYE_MS * 1000, self._ended)
            self.tell(Leave())

    def subscribe(self, topics: tuple[str, ...]) -> None:
        """The application wants these topics from now on."""
        self.topics = topics
        if self.is_up and self.is_working:
            self.world.say(self.name, f"wants {', '.join(topics)}")
            self.tell(Subscribe(topics))

    def tell(self, event: Any) -> None:
        """The member has stepped over `event`, and its actions are under way."""
        for action in self.member.step(event, self.now()):
            match action:
                case SendToCoordinator():
                    self._send(action)
                case FindCoordinator():
                    self._find(action)
                case FetchMetadata():
                    self._look_up(action)
                case Left():
                    self._ended()
                    return
                case Note():
                    self.world.say(self.name, action.text)
                case Failed(code, why):
                    self._give_up(code, why)
                    return
                case _:
                    self.heeds(action)
        self._alarm.set(self.member.wake_at())
        if self._news is not None and self._news[0](self.member):
            _, telling, turn = self._news
            self._news = None
            telling.goes_on(turn, True)

    def heeds(self, action: Any) -> None:
        """What only some members want is under way; of offers and losses the owner reads in the member's view."""

    def takes(self, life: int, places: Mapping[TopicIdPartition, None]) -> None:
        """The owner uses exactly these places from now on."""
        if self.hand[0] != life or self.hand[1] != places:
            self.hand = (life, dict.fromkeys(places))
            self.watch.hand_changed(self)

    def work_ms(self, mean_ms: int) -> int:
        """How long a piece of work takes: at most four times the mean and a third of the rebalance timeout; tenfold if slow."""
        span_ms = 1 + min(int(self.dice.expovariate(1.0) * mean_ms), 4 * mean_ms, self.world.scenario.rebalance_ms // 3)
        if self.world.now_us < self.slow_until_us:
            span_ms *= 10
            self.behind_until_us = self.world.now_us + span_ms * 1_000
        return span_ms

    def _give_up(self, code: Code, why: str) -> None:
        """The member cannot go on. Where only time can mend it, somebody starts the application again, as people do.

        So with a static classic member that took its own place while the group was joining: that is not saved, so if the
        coordinator has read its log anew since, the instance is the member of before, as in Kafka.
        """
        api = "JoinGroup" if self.speaks_classic else "ConsumerGroupHeartbeat"
        is_taken_back = code is Code.FENCED_INSTANCE_ID and self.speaks_classic and self.watch.rebuilt > self._joined_at
        if not is_taken_back and reaction(api, code) is not Reaction.WAIT:
            raise LawBroken("no-defect", f"{self.name} cannot be a member: {code.name}: {why}")
        self.world.say(self.name, f"gives up: {code.name}")
        self._ended()
        self.world.after(STARTED_AGAIN_US, self._starts_again, self.life)

    def _starts_again(self, life: int) -> None:
        if life == self.life and not self.is_up:
            self.begin()

    def _put_down(self) -> None:
        self._news = None
        self.breaks_off()
        self.takes(0, {})

    def _ended(self) -> None:
        if self.is_up:
            self.world.say(self.name, "ends")
            self._put_down()
            for line in self._lines:
                line.close()
            self.ends()

    @property
    def _lines(self) -> tuple[Line, ...]:
        return (self.beats, self.work, self.looks) if self.speaks_classic else (self.beats, self.work)

    def _rings(self) -> None:
        wake_ms = self.member.wake_at()
        if wake_ms is not None and wake_ms <= self.mono_ms():
            self.tell(self._tick)
        else:
            self._alarm.set(wake_ms)

    def _send(self, send: SendToCoordinator) -> None:
        self._hang_up()
        version = SPOKEN[type(send.request)]
        self.beats.ask(send.request, version, send.timeout_ms, lambda answer: self._heard(send, answer))

    def _hang_up(self) -> None:
        """A goodbye does not wait for the answer to what was asked before it."""
        if self.beats.is_busy:
            self.beats.close()

    def _heard(self, send: SendToCoordinator, answer: Any) -> None:
        if answer is None:
            self.tell(Unanswered(send.request_id, "nobody answered"))
            return
        code = Code.of(answer.error_code)
        match send.request:
            case ConsumerGroupHeartbeatRequest():
                self.world.say(self.name, f"hears epoch {answer.member_epoch}, {code.name}")
                self.watch.hears(self, answer.member_epoch, code)
            case JoinGroupRequest():
                leads = " and leads" if answer.leader == answer.member_id != "" else ""
                if code is Code.NONE:
                    self._joined_at = self.watch.rebuilt
                self.world.say(self.name, f"joins generation {answer.generation_id}{leads} as {answer.member_id}, {code.name}")
            case SyncGroupRequest(generation_id=generation):
                self.world.say(self.name, f"is in generation {generation}, {code.name}")
                self.watch.hears(self, generation, code)
            case _:
                self.world.say(self.name, f"hears {code.name}")
        self.tell(Answered(send.request_id, answer))
        if type(send.request) is JoinGroupRequest and code is Code.NONE:
            self.watch.taken_in(self)

    def _look_up(self, look: FetchMetadata) -> None:
        if self.looks.is_busy:
            self.looks.close()
        topics = tuple(MetadataRequestTopic(name=name) for name in look.names)
        request = MetadataRequest(topics=topics, allow_auto_topic_creation=False)
        self.looks.ask(request, METADATA, REQUEST_TIMEOUT_MS, lambda answer: self._seen(look.request_id, answer))

    def _seen(self, request_id: int, answer: Any) -> None:
        if answer is None:
            self.tell(Unanswered(request_id, "nobody answered"))
            return
        there = (topic for topic in answer.topics if topic.error_code == Code.NONE)
        self.tell(
            MetadataFetched(
                request_id, tuple(TopicDescription(topic.name, bytes(topic.topic_id), len(topic.partitions)) for topic in there)
            )
        )

    def _find(self, find: FindCoordinator) -> None:
        self._hang_up()
        request = FindCoordinatorRequest(key_type=0, coordinator_keys=(find.group_id,))
        self.beats.ask(request, FIND, REQUEST_TIMEOUT_MS, lambda answer: self._found(find.request_id, answer))

    def _found(self, request_id: int, answer: Any) -> None:
        if answer is None:
            self.tell(Unanswered(request_id, "nobody answered"))
            return
        code = Code.of(answer.coordinators[0].error_code)
        self.tell(CoordinatorFound(request_id) if code is Code.NONE else Unanswered(request_id, code.sentence, code))

    def question(self, telling: Telling, question: Any, turn: int) -> None:
        """See Client; also waits for news of the member."""
        if type(question) is not News:
            super().question(telling, question, turn)
        elif question.ready(self.member):
            self.later(SOON_US, telling.goes_on, turn, True)
        else:
            self._news = (question.ready, telling, turn)
            self.later(question.span_ms * 1000, self._no_news, telling, turn)

    def _no_news(self, telling: Telling, turn: int) -> None:
        if self._news is not None and self._news[1:] == (telling, turn):
            self._news = None
            telling.goes_on(turn, False)
