"""Where a classic member stands in its group during one life: its generation, its share, and what the group was told of it.

A life begins without any of that, so nothing is left of an earlier one. It decides what a generation makes of the answers, and when
a new one is wanted; requests under way, pauses and goodbyes are the member's (`classic.py`).
"""

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

from apportion.errors import Code, DecodeError, Refused, Unanswerable
from apportion.machine import Note
from apportion.member.assignors.interface import Cluster, Farewell, FollowUp, Given, Rebalance
from apportion.member.assignors.serde import given_of
from apportion.member.assignors.strategy import rebalance_of
from apportion.member.classic.leader import Inquiry, Plan, asked, hear, share_out
from apportion.member.classic.metadata import Atlas
from apportion.member.classic.ownership import Holding
from apportion.member.classic.requests import (
    NO_GENERATION,
    ClassicSettings,
    Generation,
    heartbeat_request,
    join_request,
    leave_request,
    sync_request,
)
from apportion.member.consumer.machine import View
from apportion.member.membership import Offer, Request, SeenTopic, State, minus
from apportion.topics import IdPartition, TopicId
from apportion.wire.messages.join_group import JoinGroupRequest, JoinGroupResponse
from apportion.wire.messages.sync_group import SyncGroupResponse


class Standing:
    """One life of a member. topics: what its owner wants. rejoins: why a new generation is wanted; None if it is not.

    follow_up: when one will be wanted, as this one's assignor said; None: it did not. farewell: what the member is to end with, in
    this life or, where it loses that before its owner has let go, in the next.
    """

    def __init__(
        self,
        settings: ClassicSettings,
        atlas: Atlas,
        life: int,
        topics: tuple[str, ...],
        *,
        farewell: Farewell | None = None,
    ) -> None:
        self.life = life
        self.topics = topics
        self.generation = Generation()
        self.holding = Holding()
        self.rejoins: str | None = None
        self.follow_up: FollowUp | None = None
        self.farewell = farewell
        self._inquiry: Inquiry | None = None
        self._settings = settings
        self._cooperative = rebalance_of(settings.assignors) is Rebalance.COOPERATIVE
        self._atlas = atlas
        self._said: tuple[str, ...] = ()  # the topics, as in the last JoinGroup
        self._acquired = NO_GENERATION  # the newest generation that something was given in
        self._share = Given()  # what was given then
        self._ids: dict[str, TopicId] = {}  # what topics were before the last join, or when they were first seen since

    def view(self, member_id: str, state: State, last_accepted_ms: int | None, error: str | None) -> View:
        """The member at this moment, with what others know of it."""
        held = self.holding
        return View(member_id, self.generation.number, state, self.life, held.target, held.owned, last_accepted_ms, error)

    @property
    def state(self) -> State:
        """SYNCING until the generation's share is known, then what the owner makes of it."""
        return self.holding.state if self.generation.settled else State.SYNCING

    @property
    def may_sync(self) -> bool:
        """Whether all is known that SyncGroup says, and its answer is not there yet."""
        generation = self.generation
        return not generation.settled and generation.plan is not None and generation.given is None

    @property
    def is_blind(self) -> bool:
        """Whether this is a leader that was told to assign nothing (KIP-814), and has not seen its topics yet.

        It takes its share only once it has: how they are then is what it compares with, so nothing that comes later is missed.
        """
        generation = self.generation
        return generation.heard is not None and generation.plan is not None and generation.shapes is None

    @property
    def question(self) -> Any:
        """What this leader's assignor must know before there is a plan; None if there is nothing."""
        return None if self._inquiry is None else self._inquiry.question

    @property
    def wonders(self) -> bool:
        """Whether there is anything to ask the cluster."""
        return self.question is not None or bool(self.watched())

    @property
    def look_wait_ms(self) -> int:
        """How long the next look waits that has just been made possible: not at all while the generation waits for it."""
        settings = self._settings
        if self.state is State.SYNCING:
            return 0
        if self.lacks_topics:
            return min(settings.metadata_interval_ms, settings.backoff_limit_ms)
        if self.withholds:
            return min(settings.metadata_interval_ms, settings.rebalance_timeout_ms)
        return settings.metadata_interval_ms

    @property
    def withholds(self) -> bool:
        """Whether this leads a generation in which something is nobody's until a member joins again; that member may be gone."""
        return self.generation.settled and self.generation.withholds

    @property
    def lacks_topics(self) -> bool:
        """Whether something was given of a topic that does not exist, or not yet where the cluster was asked."""
        return self._atlas.lacks(self._share.partitions)

    def watched(self) -> tuple[str, ...]:
        """The topics to look up: what a follower's share consists of, or else all that the generation is about."""
        given = self.generation.given
        if given is not None and not self.is_blind:
            return tuple(parts.topic for parts in given.partitions)
        return () if self.may_sync else self.generation.topics

    # a generation

    def request(self, state: State, member_id: str) -> Request:
        """What the member says in that state. Refused with the farewell where it would join once more."""
        if state is State.LEAVING:
            return leave_request(self._settings, member_id)
        if state is State.JOINING:
            if self.farewell is not None:
                raise Refused(*self.farewell)
            return self._join(member_id)
        say = sync_request if self.may_sync else heartbeat_request
        return say(self._settings, member_id, self.generation)

    def _join(self, member_id: str) -> JoinGroupRequest:
        """JoinGroup of this moment, remembered as said."""
        owned = self._atlas.parts(self.holding.claim())
        self._ids = self._atlas.known()
        self._said, reason, self.rejoins, self._inquiry = self.topics, self.rejoins, None, None
        return join_request(self._settings, member_id, self.topics, owned, self._acquired, reason)

    def may_be_forgotten(self, answer: JoinGroupResponse, silent_ms: int) -> bool:
        """Whether what is held may have been given to others before this answer, which does not tell.

        A KIP-848 group, which is one that names no leader, takes a member that it has put out for a new one of the same id.
        """
        held = self.generation.number != NO_GENERATION
        return held and not answer.leader and silent_ms > self._settings.session_timeout_ms

    def joined(self, answer: JoinGroupResponse) -> list[Note]:
        """The member is in a new generation. Refused if that is led by an assignor that the member does not have."""
        name = answer.protocol_name or ""
        self.follow_up = self._inquiry = None
        self.generation = Generation(answer.generation_id, name, self._said)
        if self._settings.assignor_or_none(name) is None:
            why = f"the group has chosen the assignor {name!r}, which this member does not have"
            raise Refused(Code.INCONSISTENT_GROUP_PROTOCOL, why)
        if answer.leader != answer.member_id:
            return []
        heard = hear(answer.members)
        topics = tuple(sorted(dict.fromkeys((*heard.topics, *self._said))))
        self._learnt(heard=heard, topics=topics, plan=() if answer.skip_assignment else None)
        return [Note("error", f"a member gets nothing: {why}") for why in heard.unreadable]

    def synced(self, answer: SyncGroupResponse) -> list[Offer]:
        """What the leader gave this member is taken, once its topics are known. Refused if it cannot be read.

        If it has topics that are not wanted, given before the leader heard so, nothing of it is taken and the member rejoins.
        """
        try:
            given = given_of(answer.assignment) if len(answer.assignment) else Given()  # no bytes: the leader forgot this member
        except DecodeError as error:
            raise Refused(Code.INVALID_REQUEST, f"what the group's leader gave this member cannot be read: {error}") from error
        strange = next((parts.topic for parts in given.partitions if parts.topic not in self.topics), None)
        if strange is not None:
            self.rejoins = f"topic {strange} was given and is not subscribed"
        elif given.partitions or (self.is_blind and self.generation.topics):
            self._learnt(given=given)
        else:
            return self._take(given)
        return []

    def learn(self, names: Iterable[str], seen: Iterable[SeenTopic]) -> list[Offer]:
        """The topics are known: the leader shares out, the share is taken, or changes are noticed. Refused as by `share_out`.

        Where the leader's assignor had them made, they are the answer that it waits for.
        """
        seen = tuple(seen)
        self._atlas.learn(names, seen)
        generation = self.generation
        if generation.settled:
            return self._compare() if self.rejoins is None else []
        if self._inquiry is not None:
            self._go_on(lambda inquiry, shapes: inquiry.told({topic.name: topic.partitions for topic in seen}, shapes))
        elif generation.plan is None:
            self._share_out()
        elif generation.given is not None:
            return self._take(generation.given)
        return []

    def _share_out(self) -> None:
        generation = self.generation
        assignor = self._settings.assignor_or_none(generation.protocol)
        assert generation.heard is not None
        assert assignor is not None
        shapes = self._atlas.cluster(generation.topics)
        self._planned(shapes, share_out(assignor, shapes, generation.heard.members, checks=self._cooperative))

    def told(self, answer: Any) -> list[Offer]:
        """The assignor's question has this answer. Refused as by `share_out`."""
        self._go_on(lambda inquiry, shapes: inquiry.told(answer, shapes))
        return []

    def untold(self, why: str, code: Code) -> list[Offer]:
        """The assignor's question has no answer, now or, by `code`, ever. Refused as by `share_out`."""
        never = code is not Code.NONE and not code.retriable
        error = Refused(code, why) if never else Unanswerable(why)
        self._go_on(lambda inquiry, shapes: inquiry.untold(error, shapes))
        return []

    def _go_on(self, step: Callable[[Inquiry, Cluster], Plan | None]) -> None:
        if self._inquiry is not None:
            shapes = self._atlas.cluster(self.generation.topics)
            self._planned(shapes, step(self._inquiry, shapes) or self._inquiry)

    def _planned(self, shapes: Cluster, outcome: Plan | Inquiry) -> None:
        if isinstance(outcome, Inquiry):
            self._inquiry = outcome
        else:
            self._inquiry = None
            self._learnt(shapes=shapes, withholds=outcome.withholds, plan=outcome.assignments)

    def _take(self, given: Given) -> list[Offer]:
        """What was given in this generation is what the owner is to hold."""
        generation = self.generation
        if returns := self.is_blind:
            self._learnt(shapes=self._atlas.cluster(generation.topics))
        self._learnt(given=None, settled=True)
        self._acquired, self._share = generation.number, given
        assignor = self._settings.assignor_or_none(generation.protocol)
        assert assignor is not None
        wish = asked(assignor, lambda: assignor.on_assignment(given, generation.number))
        self.follow_up = wish if isinstance(wish, FollowUp) else None
        if isinstance(wish, Farewell):
            self.farewell, self._share, self.rejoins = wish, Given(), wish.why
        offers = self._hold_what_was_meant()
        if returns and self._has_what_is_gone():
            self.rejoins = "topics have changed"
        if self.follow_up is not None and self.follow_up.at_ms == 0:
            self.follow_up_now()
        return offers

    def follow_up_now(self) -> None:
        """The time has come that the assignor spoke of."""
        if self.follow_up is not None:
            self.rejoins, self.follow_up = self.rejoins or self.follow_up.why, None

    def _hold_what_was_meant(self) -> list[Offer]:
        """The owner is to hold the share, but for topics that were made again since the join: a coordinator that reckons with ids
        may have meant the older one, and only a new generation can give the younger.
        """
        ids = self._atlas.ids(self._share.partitions)
        self._ids = ids | self._ids
        same = (parts for parts in self._share.partitions if ids.get(parts.topic) == self._ids.get(parts.topic))
        offers = self.holding.aim(self.life, self._atlas.held(same))
        self.rejoin_if_told_otherwise()
        again = next((topic for topic, now in ids.items() if now != self._ids[topic]), None)
        if again is not None:
            self.rejoins = f"topic {again} was made again"
        return offers

    def _compare(self) -> list[Offer]:
        """Topics that were made again are let go of; and a leader that sees its topics changed wants a new generation.

        One that was told to assign nothing (KIP-814) does not know what its predecessor withheld.
        """
        offers = self._hold_what_was_meant()
        generation = self.generation
        if generation.heard is not None:
            shapes = self._atlas.cluster(generation.topics)
            if generation.withholds and not self.lacks_topics:
                self.rejoins = "what was taken from a member was not given on"
            if generation.shapes != shapes:
                self.rejoins = "topics have changed"
            self._learnt(shapes=shapes)
        return offers

    def _has_what_is_gone(self) -> bool:
        """Whether partitions were given that do not exist: they went while nobody led."""
        shapes = self._atlas.cluster(self.generation.topics)
        known = ((shapes[topic].partitions, numbers) for topic, numbers in self._share.partitions if topic in shapes)
        return any(number >= count for count, numbers in known for number in numbers)

    def _learnt(self, **news: Any) -> None:
        self.generation = replace(self.generation, **news)

    # the owner

    def rejoin_if_told_otherwise(self) -> None:
        """A new generation is wanted if the last JoinGroup said other topics, or claimed what is not held any more."""
        if not self.generation.settled:
            return
        if self._said != self.topics:
            self.rejoins = "the subscription has changed"
        elif self.holding.claims_too_much:
            self.rejoins = self.rejoins or "partitions were given up"

    def make_ready(self) -> list[Offer]:
        """What cannot be kept while the member joins again is taken back: unsubscribed topics, and everything if it is eager.

        Refused with the farewell, if there is one, of a member that has nothing any more.
        """
        if self.farewell is not None and not self.holding.owned:
            raise Refused(*self.farewell)
        return self.holding.keep(self.life, self._may_keep)

    @property
    def is_ready(self) -> bool:
        """Whether the owner uses nothing that it must not use while the member joins again."""
        held = self.holding
        if self.farewell is not None:
            return False
        if self._settings.lets_go_first and minus(held.owned, held.target or ()):
            return False
        return all(self._may_keep(partition) for partition in held.owned)

    def _may_keep(self, partition: IdPartition) -> bool:
        return self._cooperative and self._atlas.name(partition) in self.topics and not self._atlas.has_namesake(partition)
