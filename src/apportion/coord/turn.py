"""One step of a shard: what it may read, and the one way in which it writes.

`emit` is the only way to change saved state; `close` returns the step's actions in order.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

from apportion.coord.config import GroupSettings
from apportion.coord.consumer.state import ConsumerGroup, ConsumerGroupMember
from apportion.coord.consumer.target_records import TargetRecords
from apportion.coord.group_counts import Removal
from apportion.coord.heartbeat_budget import HeartbeatBudget
from apportion.coord.records import Append, CoordinatorRecord
from apportion.coord.replay import Ledger, apply_targets
from apportion.coord.waiting import WaitingRequests
from apportion.deadlines import Deadlines
from apportion.machine import Abandon, Computation, Compute, Instant, Note, Reply, Ticket
from apportion.topics import Topics

ShardAction = Abandon | Append | Compute | Note | Reply


class UnderWay(NamedTuple):
    """A computation that was begun (mono ms) and has not ended."""

    computation: Computation
    begun_ms: int


Computing = dict[type[Any], dict[str, UnderWay]]
"""The computations under way: class -> group id -> computation."""


class ShardParts(NamedTuple):
    """The state and the tables that all steps of one shard share.

    heartbeats: the heartbeats to come of all groups of the broker. waiting: the requests without a
    response. apply: the function that applies a record to the saved state, by the class of its key.
    on_members_leaving: the function that removes members from a group, by the group's class.
    """

    ledger: Ledger
    deadlines: Deadlines
    heartbeats: HeartbeatBudget
    waiting: WaitingRequests
    computing: Computing
    apply: Mapping[type[Any], Callable[[Ledger, Any, Any], None]]
    on_members_leaving: Mapping[type[Any], Callable[["Turn", Any, tuple[Any, ...]], None]]


class Turn:
    """One step of one shard, as its handlers see it.

    A reply stands behind every record that was emitted before it, so no response shows a record
    that is not in the log.
    """

    __slots__ = (
        "_actions",
        "_apply",
        "_has_written",
        "_on_members_leaving",
        "_own_settings",
        "_unappended",
        "computing",
        "deadlines",
        "heartbeats",
        "ledger",
        "now",
        "settings",
        "topics",
        "waiting",
    )

    def __init__(
        self,
        parts: ShardParts,
        now: Instant,
        *,
        settings: GroupSettings,
        own_settings: Mapping[str, GroupSettings],
        topics: Topics,
    ) -> None:
        """Begin one step of a shard, for a request or due deadlines.

        settings: the broker's, for all groups. own_settings: what holds in groups that have
        settings of their own.
        """
        # By position, in the order of ShardParts: each request is a step, and seven reads by name
        # take nearly twice as long. All types differ, so mypy finds two that change places.
        (
            self.ledger,
            self.deadlines,
            self.heartbeats,
            self.waiting,
            self.computing,
            self._apply,
            self._on_members_leaving,
        ) = parts
        self.now = now
        self.settings = settings
        self._own_settings = own_settings
        self.topics = topics
        self._has_written = False
        self._unappended: list[CoordinatorRecord | TargetRecords] = []
        self._actions: list[ShardAction] = []

    @property
    def has_written(self) -> bool:
        """True once the step has emitted a record; from then on it may not refuse its request."""
        return self._has_written

    @property
    def is_empty(self) -> bool:
        """True while the step has emitted no record and no action."""
        return not (self._has_written or self._actions)

    def settings_of(self, group_id: str) -> GroupSettings:
        """Return the settings that hold in a group, of which it may have some of its own."""
        return self._own_settings.get(group_id, self.settings)

    def emit(self, record: CoordinatorRecord) -> None:
        """Apply a record to the saved state; append it before any later reply."""
        self._apply[record.key.__class__](self.ledger, record.key, record.value)
        # Not yet an action: records of one step with no reply between them make one append, so one
        # batch.
        self._unappended.append(record)
        self._has_written = True

    def emit_targets(self, targets: TargetRecords) -> None:
        """Emit the target assignment records of a group's members, encoded beforehand."""
        apply_targets(self.ledger, targets)
        self._unappended.append(targets)
        self._has_written = True

    def emit_all(self, records: Iterable[CoordinatorRecord]) -> None:
        """Emit the records in their order."""
        for record in records:
            self.emit(record)

    def remove_members(
        self, group: ConsumerGroup, reason: Removal, *members: ConsumerGroupMember
    ) -> None:
        """Remove members from a consumer group, which may become a classic group by that."""
        # Before the removal, since the classic group has counts of its own.
        group.live.counts.count_removed(reason, len(members))
        # Only `migration` knows how a group changes its kind, and it stands above this module.
        self._on_members_leaving[group.__class__](self, group, members)

    def reply(self, ticket: Ticket, body: Any) -> None:
        """Answer the request of `ticket` with the response `body`.

        A parked request whose connection has closed is over, too, but gets no reply.
        """
        if self.waiting.answer(ticket):
            self._append_records()
            self._actions.append(Reply(ticket, body))

    def compute(self, computation: Computation) -> None:
        """Have a computation run beside the shard; its result comes as an event.

        A group has one computation of a class under way at a time.
        """
        group_id, kind = computation.group_id, computation.__class__
        assert group_id not in self.computing[kind], (
            f"a {kind.__name__} for group {group_id} is under way"
        )
        self.computing[kind][group_id] = UnderWay(computation, self.now.mono_ms)
        self._actions.append(Compute(computation))

    def under_way_or_none(self, kind: type[Any], group_id: str) -> UnderWay | None:
        """Return the computation of a class that is under way for a group."""
        return self.computing[kind].get(group_id)

    def abandon(self, computation: Computation) -> None:
        """Wait no longer for a computation that is under way; its result is dropped."""
        abandoned = self.computing[computation.__class__].pop(computation.group_id)
        assert abandoned.computation is computation, "another one is under way for its group"
        self._actions.append(Abandon(computation))

    def note(self, level: str, text: str, hint: str = "") -> None:
        """Write one line to the log of the process. hint: as in `Note`."""
        self._actions.append(Note(level, text, hint))

    def close(self) -> list[ShardAction]:
        """Return the actions of this step, to be carried out in order."""
        self._append_records()
        return self._actions

    def _append_records(self) -> None:
        """Add an action that appends the records emitted so far to `__consumer_offsets`."""
        if self._unappended:
            self._actions.append(Append(tuple(self._unappended)))
            self._unappended = []
