"""The main thread's side of a membership: what it holds between two micro-batches, what it commits, what comes next.

The session's thread learns of a new target at any time; only `next_span` applies it, so what is owned between two calls is
frozen. Everything below a span's end is in the sink when that span comes back as `previous`, because Spark asks for the next
batch only after it has committed the last one: that is when its end is committed to the group, and only then is a revocation
acknowledged. The rule for the next span itself is `member.plan.plan`; nothing here reads a record.
"""

import logging
from collections.abc import Iterable, Mapping
from time import monotonic
from typing import NamedTuple
from uuid import uuid4

from apportion.client.cluster import EARLIEST, LATEST, Cluster, places_of
from apportion.client.connection import Disconnected
from apportion.client.routing import Patience
from apportion.client.session import Session
from apportion.errors import Code, Refused
from apportion.member.commits import due
from apportion.member.consumer import View
from apportion.member.membership import State, from_wire
from apportion.member.plan import Log, Plan, World, plan
from apportion.member.spans import Place, Span, id_text
from apportion.spark.options import SourceOptions
from apportion.topics import Topic, TopicId
from apportion.wire.messages.consumer_group_describe import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
    DescribedGroup,
)

FIRST_ANSWER_LIMIT_S = 60.0
FIRST_PLACE_WAIT_S = 3.0  # a new query waits so long for its place: else Spark would begin with an empty batch
STANDSTILL_LIMIT_S = 120.0
CALL_MS = 5_000
TOPIC_GONE = (Code.UNKNOWN_TOPIC_ID, Code.UNKNOWN_TOPIC_OR_PARTITION)
IDLE_WAIT_MS = 100
RETRY_WAIT_MS = 500
SHARE_GRACE_S = 5.0

log = logging.getLogger("apportion.spark")


class DataLoss(RuntimeError):
    """Records that the query was to read are gone; the text says which offsets and what to do."""


class MembershipFailed(RuntimeError):
    """The query cannot be a member of its group; the text says why."""


class NotYet(Exception):
    """Nothing can be said now: no place in the group, or the cluster does not answer. The next call may."""


class ShareAwaited(NotYet):
    """The group answers, but has not given this member all of its share yet."""


class Held(NamedTuple):
    """What the last span stood on: its partitions, and the life of the member that held them."""

    life: int
    places: Mapping[Place, None]


class Owner:
    """A member of the group that reads in spans."""

    def __init__(self, options: SourceOptions) -> None:
        """The member joins on a thread of its own."""
        self.options = options
        self.cluster = Cluster(options.bootstrap, client_id=options.client_id, timeout_ms=options.request_timeout_ms)
        self.session = Session(
            self.cluster,
            options.group,
            options.topics,
            instance_id=options.instance_id,
            server_assignor=options.assignor,
            rebalance_timeout_ms=options.rebalance_timeout_ms,
            poll_limit_ms=options.rebalance_timeout_ms,
        )
        self._checkpoint = uuid4().hex
        self._held = Held(0, {})
        self._stored: dict[Place, int] = {}  # what this member has committed in this life
        self._sizes: dict[TopicId, int] | None = None  # partitions of each topic when this member first looked
        self._session_ms = 0
        self._caps: dict[Place, int] | None = None
        self._ends: dict[Place, int] = {}
        self._planned_life = 0  # the life of the last plan
        self._failing_s: float | None = None  # since when nothing can be planned
        self._began_s = self._joined_s = self._answered_s = monotonic()
        self._said = ""
        self.session.start()

    def close(self, timeout_ms: int = 3_000) -> None:
        """The member has left the group, or the time is over."""
        self.session.leave(timeout_ms)
        self.cluster.close()

    def touch(self) -> None:
        """Spark is alive and came back: the membership goes on."""
        self.session.touch()

    def stop_at_present_ends(self) -> None:
        """From now on no partition is read beyond where it ends at this moment (`trigger(availableNow=True)`)."""
        patience = Patience(int(STANDSTILL_LIMIT_S * 1000))
        while True:
            try:
                topics = self._subscribed()
                places = [place for topic in topics.values() for place in places_of(topic)]
                self._caps = self.cluster.list_offsets(places, LATEST, patience_ms=CALL_MS)
                return
            except (Refused, Disconnected) as error:
                patience.pause(MembershipFailed(f"the ends of {', '.join(self.options.topics)} cannot be read: {error}"))

    def next_span(self, previous: Span, limit: int | None) -> Span:
        """The span after `previous`; `previous` itself when nothing is new, or nothing can be said now.

        With `stop_at_present_ends` an unchanged span means that all is read, so it is not returned before that is certain.
        Raises DataLoss, MembershipFailed.
        """
        self._warn_of_long_batch()
        try:
            return self._planned(previous, limit)
        finally:
            self._answered_s = monotonic()

    def _planned(self, previous: Span, limit: int | None) -> Span:
        """`_plan`, with patience."""
        share_until_s = monotonic() + STANDSTILL_LIMIT_S
        while True:
            self.session.touch()
            try:
                following = self._plan(previous, limit)
                if following == previous and self._caps is not None:
                    self._await_share(share_until_s)
                self._failing_s = None
                self._say("")
                if following == previous and self._caps is None:
                    self.session.wait(lambda view: view.target != view.owned, IDLE_WAIT_MS)
                return following
            except (NotYet, Refused, Disconnected) as error:
                if self._planned_life or monotonic() - self._began_s > FIRST_PLACE_WAIT_S:  # that a join takes a moment is no news
                    self._say(str(error))
                self._refuse_standstill(error)
                answers = self._caps is None and (bool(previous.ranges) or monotonic() - self._began_s > FIRST_PLACE_WAIT_S)
                self.session.wait_for_news(IDLE_WAIT_MS if answers else RETRY_WAIT_MS)
                if answers:
                    return previous

    def ends(self) -> dict[Place, int]:
        """Where each owned partition ended when last looked at."""
        return dict(self._ends)

    def _plan(self, previous: Span, limit: int | None) -> Span:
        view = self._accepted()
        self._commit(due(previous, self._held.places, self._stored))
        owned = self._owned(view)
        if self._planned_life != view.lives and not {*owned}.issuperset(previous.ranges):
            self._await_share(self._joined_s + self._session_ms / 1000 + SHARE_GRACE_S)
        kept = dict.fromkeys(place for place in owned if place in self._held.places and place in previous.ranges)
        self._refuse_deleted(previous, owned)
        gained = [place for place in owned if place not in kept]
        committed = self.session.committed(gained, life=view.lives, patience_ms=CALL_MS) if gained else {}
        self._commit(due(previous, committed, committed))  # ends that the group has not heard of: by an earlier life, or process
        starts = self.cluster.list_offsets(owned, EARLIEST, patience_ms=CALL_MS)
        self._ends = self.cluster.list_offsets(owned, LATEST, patience_ms=CALL_MS)
        sizes = self._sizes or {}
        world = World(
            checkpoint=self._checkpoint,
            logs={place: Log(starts[place], self._ends[place]) for place in owned},
            kept=kept,
            committed=committed,
            starting=self.options.starting,
            newborn=dict.fromkeys(place for place in owned if place.partition >= sizes.get(place.topic_id, 0)),
            limit=limit,
            caps=self._caps,
        )
        following = plan(previous, world)
        self._refuse_gaps(following)
        self._commit(following.commit_first)
        self._held, self._planned_life = Held(view.lives, dict.fromkeys(owned)), view.lives
        return following.span

    def _accepted(self) -> View:
        """The membership, which the coordinator has accepted not longer ago than a session lasts. Raises NotYet."""
        view = self.session.status()
        if view.state is State.FATAL:
            raise MembershipFailed(f"group {self.options.group}: {view.error}")
        if self._sizes is None:
            self._session_ms = int(self.cluster.broker_setting("group.consumer.session.timeout.ms") or 45_000)
            topics = self._subscribed()
            self._sizes = {topic.id: topic.partitions for topic in topics.values()}
            for name in self.options.topics:
                if name not in topics:
                    log.warning(
                        "group %s: topic %s does not exist yet; it is read from its beginning once it does",
                        self.options.group,
                        name,
                    )
        if view.lives != self._held.life:
            self._held, self._stored, self._joined_s = Held(view.lives, {}), {}, monotonic()
        if view.epoch <= 0 or view.target is None:
            raise NotYet(f"the member has no place in the group yet ({view.state.value})")
        if view.last_accepted_ms is None or monotonic() * 1000 - view.last_accepted_ms > self._session_ms:
            raise NotYet(f"the coordinator has accepted no heartbeat for {self._session_ms} ms")
        return view

    def _await_share(self, until_s: float) -> None:
        """ShareAwaited while the coordinator has more in mind for this member than it has given, and it is not `until_s`.

        A coordinator may take a member in before it has reckoned its share, or while others still hold it. A query that reads what
        is there and stops would stop too early; one that comes back would forget where it stood in the partitions that are to come.
        """
        if monotonic() < until_s and not _has_its_share(self.session.status(), self._described()):
            raise ShareAwaited("the group has not given this member all of its share yet")

    def _described(self) -> DescribedGroup:
        """The group as its coordinator describes it."""
        request = ConsumerGroupDescribeRequest(group_ids=(self.options.group,))

        def read(answer: ConsumerGroupDescribeResponse) -> tuple[Code, DescribedGroup]:
            return Code.of(answer.groups[0].error_code), answer.groups[0]

        return self.cluster.ask_coordinator("ConsumerGroupDescribe", request, self.options.group, read, CALL_MS)

    def _owned(self, view: View) -> tuple[Place, ...]:
        """What the coordinator wants held is held: what it took away is dropped, and only then may it hear so."""
        assert view.target is not None
        owned = self.session.places(view.target)
        if view.target != view.owned:
            self._held = Held(view.lives, dict.fromkeys(place for place in owned if place in self._held.places))
            self.session.adopt(view.lives, view.target)
            now = self.session.status()
            if (now.lives, now.owned) != (view.lives, view.target):
                raise NotYet("the group has changed its mind about what this member holds")
        return owned

    def _commit(self, offsets: Mapping[Place, int]) -> None:
        """The group has stored these offsets; those that it has already are not sent again, those of deleted topics never."""
        new = {place: offset for place, offset in offsets.items() if self._stored.get(place) != offset}
        try:
            self.session.commit(new, life=self._held.life, patience_ms=CALL_MS)
        except Refused as refused:
            gone = self._deleted(new) if refused.code in TOPIC_GONE else ()
            if not gone:
                raise
            self._lose_topics(new, gone)
            self._held = Held(self._held.life, dict.fromkeys(place for place in self._held.places if place not in gone))
            self._commit({place: offset for place, offset in new.items() if place not in gone})
        self._stored.update(new)

    def _subscribed(self) -> dict[str, Topic]:
        """The subscribed topics that exist now."""
        topics = self.cluster.topics(self.options.topics, fresh=True)
        return {name: topic for name in self.options.topics if (topic := topics.named(name)) is not None}

    def _refuse_deleted(self, previous: Span, owned: tuple[Place, ...]) -> None:
        """A topic that the last span read and that is gone is data loss: its unread records cannot be read any more."""
        mine = dict.fromkeys(owned)
        gone = self._deleted(place for place in previous.ranges if place not in mine)
        if gone:
            self._lose_topics(previous.resting(), gone)

    def _deleted(self, places: Iterable[Place]) -> tuple[Place, ...]:
        """Those of the places whose topic does not exist any more, or only as another topic of the same name."""
        suspects = tuple(places)
        if not suspects:
            return ()
        topics = self.cluster.topics(dict.fromkeys(place.topic for place in suspects), fresh=True)
        return tuple(place for place in suspects if (now := topics.named(place.topic)) is None or now.id != place.topic_id)

    def _lose_topics(self, read: Mapping[Place, int], gone: tuple[Place, ...]) -> None:
        topics = ", ".join(dict.fromkeys(f"{place.topic} (id {id_text(place.topic_id)})" for place in gone))
        unread = ", ".join(f"{place} from offset {read[place]}" for place in gone)
        self._lose(f"topic {topics} was deleted or created again: not read were {unread}")

    def _refuse_gaps(self, following: Plan) -> None:
        """Gaps are data loss. Those of a topic that was made again are the topic's: offsets are asked for by its name."""
        if following.gaps:
            gone = self._deleted(gap.place for gap in following.gaps)
            if gone:
                self._lose_topics({gap.place: gap.expected for gap in following.gaps}, gone)
                raise NotYet(f"the group has not heard yet that topic {gone[0].topic} was deleted")
            self._lose("; ".join(map(str, following.gaps)))

    def _lose(self, what: str) -> None:
        """DataLoss, or one line in the log where the options allow it."""
        if self.options.fail_on_data_loss:
            raise DataLoss(f"{what}. Set failOnDataLoss to false to go on without these records.")
        log.warning("group %s: %s; failOnDataLoss is false, so the query goes on", self.options.group, what)

    def _refuse_standstill(self, error: Exception) -> None:
        """MembershipFailed where waiting longer would hide a fault: no answer since the start, or no end in sight."""
        if isinstance(error, ShareAwaited):
            self._failing_s = None
            return
        if self._failing_s is None:
            self._failing_s = monotonic()
        hopeless = isinstance(error, Refused) and not error.code.retriable
        if self._planned_life == 0:
            limit_s = FIRST_ANSWER_LIMIT_S / 4 if hopeless else FIRST_ANSWER_LIMIT_S
        elif hopeless or self._caps is not None:
            limit_s = STANDSTILL_LIMIT_S
        else:
            return  # a broker that is away comes back
        waited_s = monotonic() - self._failing_s
        if waited_s > limit_s:
            raise MembershipFailed(
                f"group {self.options.group} at {self.options.bootstrap}: nothing to read for {waited_s:.0f} s: {error}"
            ) from error

    def _warn_of_long_batch(self) -> None:
        """A line when the last batch took more than half of the time after which the group takes its partitions away."""
        took_ms = (monotonic() - self._answered_s) * 1000
        if took_ms > self.options.rebalance_timeout_ms / 2:
            log.warning(
                "group %s: the last batch took %.0f s; after %.0f s (kafka.max.poll.interval.ms) the query loses its partitions: "
                "lower maxOffsetsPerTrigger or raise that option",
                self.options.group,
                took_ms / 1000,
                self.options.rebalance_timeout_ms / 1000,
            )

    def _say(self, what: str) -> None:
        """One line when the reason to wait changes, not one a trigger."""
        if what != self._said:
            self._said = what
            log.warning("group %s: %s", self.options.group, what or "reading again")


def _has_its_share(view: View, group: DescribedGroup) -> bool:
    """Whether the member that is seen so holds what the newest target of the group gives it."""
    for member in group.members:
        if member.member_id == view.member_id:
            current = group.group_epoch == group.assignment_epoch == member.member_epoch == view.epoch
            target, given = from_wire(member.target_assignment.topic_partitions), from_wire(member.assignment.topic_partitions)
            return current and target == given == view.target
    return False
