"""A member that works in batches: what it holds between two of them, what it commits, and how it comes to the next.

What the coordinator wants is learnt at any time; only `Batches.next` applies it, so what is owned between two calls is frozen.
Everything below a span's end is in the sink when that span comes back as `previous`: that is when its end is committed to the
group, and only then is a revocation acknowledged. Which offsets the next span has is `member.plan.plan`.

The rule asks the cluster by yielding an `Ask` and is sent the answer; what stood in the way of an answer is thrown in. Whoever
drives it has the sockets, the clock and the patience; an attempt that an exception ends leaves everything fit for the next one.
"""

from collections.abc import Generator, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeVar

from apportion.errors import Code, Refused
from apportion.machine import Note
from apportion.member.commits import due
from apportion.member.consumer import View
from apportion.member.membership import Assignment, State, from_wire
from apportion.member.parted import Parted
from apportion.member.plan import Log, Plan, Starting, World, plan
from apportion.member.spans import Place, Span, id_text
from apportion.topics import Topic, TopicId, Topics
from apportion.wire.messages.consumer_group_describe import DescribedGroup

SHARE_GRACE_MS = 5_000
TOPIC_GONE = (Code.UNKNOWN_TOPIC_ID, Code.UNKNOWN_TOPIC_OR_PARTITION)
T = TypeVar("T")


class DataLoss(RuntimeError):
    """Records that were to be read are gone; the text says which offsets and what to do."""


class MembershipFailed(RuntimeError):
    """This cannot be a member of its group; the text says why."""


class NotYet(Exception):
    """Nothing can be said now: no place in the group, or the cluster does not answer. The next attempt may."""


class ShareAwaited(NotYet):
    """The group answers, but has not given this member all of its share yet."""


@dataclass(frozen=True, slots=True)
class Look:
    """How does the membership stand? The answer is a `Seen`, and never fails."""


@dataclass(frozen=True, slots=True)
class SessionLimit:
    """How long may a member be silent, in ms (group.consumer.session.timeout.ms, or its own session)? The answer is an int."""


@dataclass(frozen=True, slots=True)
class Subscribed:
    """Which of the subscribed topics exist now, asked freshly? The answer is a dict of name to Topic."""


@dataclass(frozen=True, slots=True)
class Existing:
    """Which topics of these names exist now, asked freshly? The answer is a Topics."""

    names: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Named:
    """Which places are these partitions? The answer is a tuple of Place in order, without those of topics nobody knows."""

    held: Assignment


@dataclass(frozen=True, slots=True)
class Adopt:
    """From now on exactly `target` is used, in that life. The answer is the View after the member has heard it."""

    life: int
    target: Assignment


@dataclass(frozen=True, slots=True)
class Committed:
    """What are the group's offsets, asked as the member of that life? The answer is a dict of Place to int or None."""

    places: tuple[Place, ...]
    life: int


@dataclass(frozen=True, slots=True)
class Commit:
    """The group is to store these offsets, said as the member of that life. The answer, None, comes when it has."""

    offsets: Mapping[Place, int]
    life: int


@dataclass(frozen=True, slots=True)
class Starts:
    """Where do these logs begin? The answer is a dict of Place to int. There may be no places."""

    places: tuple[Place, ...]


@dataclass(frozen=True, slots=True)
class Ends:
    """Where do these logs end, as the last stable offset? The answer is a dict of Place to int. There may be no places."""

    places: tuple[Place, ...]


@dataclass(frozen=True, slots=True)
class Share:
    """What has the group in mind for its members? The answer is a DescribedGroup; of a classic group it is a Parted."""


Ask = Look | SessionLimit | Subscribed | Existing | Named | Adopt | Committed | Commit | Starts | Ends | Share | Note
Asking = Generator[Ask, Any, T]
"""A rule that asks on its way to a T. `Note` is a line for the log; its answer is None."""


class Seen(NamedTuple):
    """The membership at one moment, and that moment on the monotonic clock."""

    view: View
    now_ms: int


class Held(NamedTuple):
    """What the last span stood on: its partitions, and the life of the member that held them."""

    life: int
    places: Mapping[Place, None]


class Batches:
    """What a member that works in batches holds between two of them, and how it comes to the next."""

    def __init__(self, topics: tuple[str, ...], *, checkpoint: str, starting: Starting, fail_on_data_loss: bool = True) -> None:
        """Nothing is held. checkpoint: the id of every span, unless the first `previous` has one.

        held: what the last span stood on. planned_life: the life of the last plan; 0: there was none.
        ends: where each owned partition ended when last looked at.
        """
        self.held = Held(0, {})
        self.planned_life = 0
        self.ends: dict[Place, int] = {}
        self._topics = topics
        self._checkpoint = checkpoint
        self._starting = starting
        self._fail_on_data_loss = fail_on_data_loss
        self._stored: dict[Place, int] = {}  # what this member has committed in this life
        self._sizes: dict[TopicId, int] | None = None  # partitions of each topic when this member first looked
        self._session_ms = 0
        self._joined = (0, 0)  # the last life that had a place, and when that was first seen

    def next(self, previous: Span, limit: int | None, caps: Mapping[Place, int] | None = None) -> Asking[Span]:
        """One attempt at the span after `previous`, which is in the sink; `previous` itself when nothing is new.

        limit, caps: as in `plan.World`. Raises NotYet, DataLoss, MembershipFailed, and whatever is thrown in.
        """
        view = yield from self._accepted()
        yield from self._commit(due(previous, self.held.places, self._stored))
        owned = yield from self._owned(view)
        if self.planned_life != view.lives and not {*owned}.issuperset(previous.ranges):
            yield from self.await_share(self._joined[1] + self._session_ms + SHARE_GRACE_MS)
        kept = dict.fromkeys(place for place in owned if place in self.held.places and place in previous.ranges)
        yield from self._refuse_deleted(previous, owned)
        gained = tuple(place for place in owned if place not in kept)
        committed: dict[Place, int | None] = (yield Committed(gained, view.lives)) if gained else {}
        yield from self._commit(due(previous, committed, committed))  # ends unheard of: by an earlier life, or process
        starts: dict[Place, int] = yield Starts(owned)
        self.ends = yield Ends(owned)
        sizes = self._sizes or {}
        world = World(
            checkpoint=self._checkpoint,
            logs={place: Log(starts[place], self.ends[place]) for place in owned},
            kept=kept,
            committed=committed,
            starting=self._starting,
            newborn=dict.fromkeys(place for place in owned if place.partition >= sizes.get(place.topic_id, 0)),
            limit=limit,
            caps=caps,
        )
        following = plan(previous, world)
        yield from self._refuse_gaps(following)
        yield from self._commit(following.commit_first)
        self.held, self.planned_life = Held(view.lives, dict.fromkeys(owned)), view.lives
        return following.span

    def await_share(self, until_ms: int) -> Asking[None]:
        """ShareAwaited while the coordinator has more in mind for this member than it has given, and it is not `until_ms`.

        A coordinator may take a member in before it has reckoned its share, or while others still hold it. A query that reads what
        is there and stops would stop too early; one that comes back would forget where it stood in the partitions that are to come.
        """
        seen: Seen = yield Look()
        if seen.now_ms < until_ms and not has_its_share(seen.view, (yield Share())):
            raise ShareAwaited("the group has not given this member all of its share yet")

    def _accepted(self) -> Asking[View]:
        """The membership, which the coordinator has accepted not longer ago than a session lasts. Raises NotYet."""
        seen: Seen = yield Look()
        view = seen.view
        if view.state is State.FATAL:
            raise MembershipFailed(str(view.error))
        if self._sizes is None:
            yield from self._look_at_topics()
        if view.lives != self.held.life:
            self.held, self._stored = Held(view.lives, {}), {}
        if view.epoch <= 0 or view.target is None:
            raise NotYet(f"the member has no place in the group yet ({view.state.value})")
        if view.lives != self._joined[0]:
            self._joined = view.lives, seen.now_ms
        if is_silent(seen, self._session_ms):
            raise NotYet(f"the coordinator has accepted no heartbeat for {self._session_ms} ms")
        return view

    def _look_at_topics(self) -> Asking[None]:
        """What was there when this member first looked is known: all that appears later is read from its beginning."""
        self._session_ms = yield SessionLimit()
        topics: dict[str, Topic] = yield Subscribed()
        self._sizes = {topic.id: topic.partitions for topic in topics.values()}
        for name in self._topics:
            if name not in topics:
                yield Note("warning", f"topic {name} does not exist yet; it is read from its beginning once it does")

    def _owned(self, view: View) -> Asking[tuple[Place, ...]]:
        """What the coordinator wants held is held: what it took away is dropped, and only then may it hear so."""
        assert view.target is not None
        owned: tuple[Place, ...] = yield Named(view.target)
        if view.target != view.owned:
            self.held = Held(view.lives, dict.fromkeys(place for place in owned if place in self.held.places))
            now: View = yield Adopt(view.lives, view.target)
            if (now.lives, now.owned) != (view.lives, view.target):
                raise NotYet("the group has changed its mind about what this member holds")
        return owned

    def _commit(self, offsets: Mapping[Place, int]) -> Asking[None]:
        """The group has stored these offsets; those that it has already are not sent again, those of deleted topics never."""
        new = {place: offset for place, offset in offsets.items() if self._stored.get(place) != offset}
        if not new:
            return
        try:
            yield Commit(new, self.held.life)
        except Refused as refused:
            gone = (yield from self._deleted(new)) if refused.code in TOPIC_GONE else ()
            if not gone:
                raise
            yield from self._lose_topics(new, gone)
            self.held = Held(self.held.life, dict.fromkeys(place for place in self.held.places if place not in gone))
            yield from self._commit({place: offset for place, offset in new.items() if place not in gone})
        self._stored.update(new)

    def _refuse_deleted(self, previous: Span, owned: tuple[Place, ...]) -> Asking[None]:
        """A topic that the last span read and that is gone is data loss: its unread records cannot be read any more."""
        mine = dict.fromkeys(owned)
        gone = yield from self._deleted(place for place in previous.ranges if place not in mine)
        if gone:
            yield from self._lose_topics(previous.resting(), gone)

    def _deleted(self, places: Iterable[Place]) -> Asking[tuple[Place, ...]]:
        """Those of the places whose topic does not exist any more, or only as another topic of the same name."""
        suspects = tuple(places)
        if not suspects:
            return ()
        topics: Topics = yield Existing(tuple(dict.fromkeys(place.topic for place in suspects)))
        return tuple(place for place in suspects if (now := topics.named(place.topic)) is None or now.id != place.topic_id)

    def _lose_topics(self, read: Mapping[Place, int], gone: tuple[Place, ...]) -> Asking[None]:
        topics = ", ".join(dict.fromkeys(f"{place.topic} (id {id_text(place.topic_id)})" for place in gone))
        unread = ", ".join(f"{place} from offset {read[place]}" for place in gone)
        yield from self._lose(f"topic {topics} was deleted or created again: not read were {unread}")

    def _refuse_gaps(self, following: Plan) -> Asking[None]:
        """Gaps are data loss. Those of a topic that was made again are the topic's: offsets are asked for by its name."""
        if following.gaps:
            gone = yield from self._deleted(gap.place for gap in following.gaps)
            if gone:
                yield from self._lose_topics({gap.place: gap.expected for gap in following.gaps}, gone)
                raise NotYet(f"the group has not heard yet that topic {gone[0].topic} was deleted")
            yield from self._lose("; ".join(map(str, following.gaps)))

    def _lose(self, what: str) -> Asking[None]:
        """DataLoss, or one line in the log where the options allow it."""
        if self._fail_on_data_loss:
            raise DataLoss(f"{what}. Set failOnDataLoss to false to go on without these records.")
        yield Note("warning", f"{what}; failOnDataLoss is false, so the query goes on")


def is_silent(seen: Seen, session_ms: int) -> bool:
    """Whether the coordinator may have given this member up: it has accepted no heartbeat for as long as a session lasts."""
    accepted_ms = seen.view.last_accepted_ms
    return accepted_ms is None or seen.now_ms - accepted_ms > session_ms


def has_its_share(view: View, group: DescribedGroup | Parted) -> bool:
    """Whether the member that is seen so holds what the newest target of the group gives it."""
    if isinstance(group, Parted):
        return group.stable and not group.withheld and group.given.get(view.member_id) == view.target
    for member in group.members:
        if member.member_id == view.member_id:
            current = group.group_epoch == group.assignment_epoch == member.member_epoch == view.epoch
            target, given = from_wire(member.target_assignment.topic_partitions), from_wire(member.assignment.topic_partitions)
            return current and target == given == view.target
    return False
