"""One shard of the coordinator: a Machine for the groups whose id hashes to it, and the three tables that say what it can do.

To add an API: its handler and a row in HANDLERS (and how it is refused, in `refusals.py`). To add a record: its `apply_*` and a
row in APPLY. To add a kind of deadline: a function and a row in EXPIRIES. The shard never waits for the disk: it emits `Append`
before the replies that depend on it, and whoever drives it keeps the order.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from apportion.coord import consumer, offsets, replay, views
from apportion.coord.config import GroupSettings
from apportion.coord.incremental import expire
from apportion.coord.records import Append, Record
from apportion.coord.refusals import REFUSALS
from apportion.coord.replay import Ledger
from apportion.coord.turn import Action, Ask, Turn
from apportion.deadlines import Deadlines, Key
from apportion.errors import Code, Refused
from apportion.machine import Arrived, Gone, Instant, Tick
from apportion.topics import Topics
from apportion.wire.messages import group_records
from apportion.wire.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from apportion.wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from apportion.wire.messages.delete_groups import DeleteGroupsRequest
from apportion.wire.messages.list_groups import ListGroupsRequest
from apportion.wire.messages.offset_commit import OffsetCommitRequest
from apportion.wire.messages.offset_delete import OffsetDeleteRequest
from apportion.wire.messages.offset_fetch import OffsetFetchRequest

__all__ = ["APPLY", "EXPIRIES", "HANDLERS", "Append", "Shard", "TopicsChanged"]

HANDLERS: dict[type[Any], Callable[[Turn, Ask[Any]], None]] = {
    ConsumerGroupHeartbeatRequest: consumer.beat,
    OffsetCommitRequest: offsets.commit,
    OffsetFetchRequest: offsets.fetch,
    OffsetDeleteRequest: offsets.delete,
    ConsumerGroupDescribeRequest: views.describe,
    ListGroupsRequest: views.list_groups,
    DeleteGroupsRequest: views.delete_groups,
}

APPLY: dict[type[Any], Callable[[Ledger, Any, Any], None]] = {
    group_records.OffsetCommitKey: replay.apply_offset,
    group_records.GroupMetadataKey: replay.apply_nothing,  # classic groups are not served yet
    group_records.ConsumerGroupMetadataKey: replay.apply_group,
    group_records.ConsumerGroupPartitionMetadataKey: replay.apply_nothing,  # Kafka 4.0's; a hash took its place
    group_records.ConsumerGroupMemberMetadataKey: replay.apply_member,
    group_records.ConsumerGroupTargetAssignmentMetadataKey: replay.apply_assignment_epoch,
    group_records.ConsumerGroupTargetAssignmentMemberKey: replay.apply_target,
    group_records.ConsumerGroupCurrentMemberAssignmentKey: replay.apply_current,
    group_records.ConsumerGroupRegularExpressionKey: replay.apply_nothing,  # expressions are not resolved yet
}

EXPIRIES: dict[str, Callable[[Turn, Key], None]] = {
    expire.SESSION: expire.session,
    expire.REBALANCE: expire.rebalance,
}


@dataclass(slots=True, frozen=True)
class TopicsChanged:
    """The cluster has these topics now."""

    topics: Topics


Event = Arrived | Gone | Tick | TopicsChanged


class Shard:
    """The coordinator of some groups. `replay` every stored record, then `loaded`; until then requests are told to wait."""

    __slots__ = ("_deadlines", "_is_loaded", "ledger", "settings", "topics")

    def __init__(self, settings: GroupSettings, topics: Topics) -> None:
        self.settings = settings
        self.topics = topics
        self.ledger = Ledger()
        self._deadlines = Deadlines()
        self._is_loaded = False

    def replay(self, record: Record, offset: int = -1) -> None:
        """The shard knows what `record`, which stands at `offset` of its log, says."""
        APPLY[record.key.__class__](self.ledger, record.key, record.value)

    def loaded(self, now: Instant) -> list[Action]:
        """The log has been read to its end: every member gets its full timeouts, and requests are answered from now on."""
        self._is_loaded = True
        turn = self._turn(now)
        for group in self.ledger.groups.values():
            for member in group.saved.members.values():
                expire.rearm(turn, group, member)
        return turn.close()

    def wake_at(self) -> int | None:
        """When the earliest deadline of a member is due."""
        return self._deadlines.next_at()

    def step(self, event: Event, now: Instant) -> list[Action]:
        """What follows from `event`: records to append, and behind them the replies that depend on them."""
        turn = self._turn(now)
        match event:
            case Arrived():
                self._answer(turn, event)
            case Tick():
                for key in self._deadlines.pop_due(now.mono_ms):
                    EXPIRIES[key[0]](turn, key)
            case TopicsChanged(topics):
                self._change_topics(turn, topics)
            case Gone():
                pass  # nobody is kept waiting here
        return turn.close()

    def _answer(self, turn: Turn, event: Arrived) -> None:
        ask = Ask(event.ticket, event.request, event.version, event.caller, event.fresh)
        kind = event.request.__class__
        try:
            if not self._is_loaded:
                raise Refused(Code.COORDINATOR_LOAD_IN_PROGRESS)
            HANDLERS[kind](turn, ask)
        except Refused as refusal:
            assert not turn.has_written, f"{kind.__name__} was refused after it had written: {refusal}"
            turn.reply(ask.ticket, REFUSALS[kind](ask, refusal))

    def _change_topics(self, turn: Turn, topics: Topics) -> None:
        """Groups notice at their next heartbeat; offsets of topics that are gone go with them."""
        before, self.topics = self.topics, topics
        turn.topics = topics
        if self.ledger.offsets:
            for name in [topic.name for topic in before if topics.with_id(topic.id) is None]:
                offsets.forget_topic(turn, name)

    def _turn(self, now: Instant) -> Turn:
        return Turn(self.ledger, self._deadlines, self.settings, self.topics, now, APPLY)
