"""One shard of the coordinator: a Machine for the groups whose id hashes to it.

The tables here say what a shard can do. To add an API: its handler and a row in HANDLERS, or, where
the handler depends on the kind of the group, in HANDLERS_BY_GROUP; and its error response in
`error_responses.py`. To add a record: its `apply_*` and a row in APPLY. To add a kind of deadline:
a function and a row in ON_DEADLINE. To add a computation: rows in ON_COMPUTED and
ON_COMPUTE_FAILED. To add a kind of group: its rows in HANDLERS_BY_GROUP and ON_LOADED, and one in
ON_MEMBERS_LEAVING if a module above it decides what a removal means. The shard never waits for the
disk: it emits `Append` before the replies that depend on it, and whoever drives it keeps the order.
"""

from collections.abc import Callable, Mapping
from types import MappingProxyType, NoneType
from typing import Any

from apportion.coord import admin, metrics, offsets, replay, retention
from apportion.coord.classic import admin as classic_admin
from apportion.coord.classic import rebalance
from apportion.coord.classic import timers as classic_timers
from apportion.coord.classic.heartbeat import heartbeat
from apportion.coord.classic.join import join
from apportion.coord.classic.leave import leave
from apportion.coord.classic.state import SESSION, ClassicGroup
from apportion.coord.classic.sync import sync
from apportion.coord.config import GroupSettings
from apportion.coord.consumer import (
    assignment_api,
    built_in_targets,
    classic_api,
    client_targets,
    custom_targets,
    expressions,
    heartbeat_api,
    timers,
)
from apportion.coord.consumer.built_in_targets import ComputeBuiltInTarget
from apportion.coord.consumer.expressions import ResolveExpressions
from apportion.coord.consumer.installed_check import CheckInstalled
from apportion.coord.consumer.state import ConsumerGroup
from apportion.coord.consumer.target_computation import ComputeTarget
from apportion.coord.ended_sessions import SESSIONS, EndedSessions
from apportion.coord.error_responses import GROUP_ERROR_RESPONSES
from apportion.coord.heartbeat_budget import HeartbeatBudget
from apportion.coord.migration import downgrade, upgrade
from apportion.coord.records import CoordinatorRecord
from apportion.coord.replay import Ledger
from apportion.coord.shard_events import SettingsChanged, ShardEvent, TopicsChanged
from apportion.coord.turn import Computing, ShardAction, ShardParts, Turn
from apportion.coord.waiting import WaitingRequests
from apportion.deadlines import Deadlines, Key
from apportion.errors import Code, Refused
from apportion.machine import (
    Arrived,
    Computation,
    Computed,
    ComputeFailed,
    Gone,
    Instant,
    Tick,
)
from apportion.topics import Topics
from apportion.wire.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from apportion.wire.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from apportion.wire.messages.consumer_group_install_assignment import (
    ConsumerGroupInstallAssignmentRequest,
)
from apportion.wire.messages.consumer_group_prepare_assignment import (
    ConsumerGroupPrepareAssignmentRequest,
)
from apportion.wire.messages.delete_groups import DeleteGroupsRequest
from apportion.wire.messages.describe_groups import DescribeGroupsRequest
from apportion.wire.messages.heartbeat import HeartbeatRequest
from apportion.wire.messages.join_group import JoinGroupRequest
from apportion.wire.messages.leave_group import LeaveGroupRequest
from apportion.wire.messages.list_groups import ListGroupsRequest
from apportion.wire.messages.offset_commit import OffsetCommitRequest
from apportion.wire.messages.offset_delete import OffsetDeleteRequest
from apportion.wire.messages.offset_fetch import OffsetFetchRequest
from apportion.wire.messages.sync_group import SyncGroupRequest
from apportion.wire.records import groups

ShardHandler = Callable[[Turn, Arrived], None]

HANDLERS: dict[type[Any], ShardHandler] = {
    OffsetCommitRequest: offsets.commit_offsets,
    OffsetFetchRequest: offsets.fetch_offsets,
    OffsetDeleteRequest: offsets.delete_offsets,
    ConsumerGroupDescribeRequest: admin.describe_consumer_groups,
    ConsumerGroupPrepareAssignmentRequest: assignment_api.prepare_assignment,
    ConsumerGroupInstallAssignmentRequest: assignment_api.install_assignment,
    ListGroupsRequest: admin.list_groups,
    DescribeGroupsRequest: classic_admin.describe_groups,
    DeleteGroupsRequest: admin.delete_groups,
}

# For a group that does not exist the API decides its kind, as in Kafka: JoinGroup creates a classic
# group, ConsumerGroupHeartbeat a consumer group.
HANDLERS_BY_GROUP: dict[
    type[Any], dict[type[Any], ShardHandler]
] = {  # request -> class of the group that it names (NoneType: there is none) -> handler
    ConsumerGroupHeartbeatRequest: {
        NoneType: heartbeat_api.consumer_group_heartbeat,
        ConsumerGroup: heartbeat_api.consumer_group_heartbeat,
        ClassicGroup: upgrade.heartbeat_to_classic_group,
    },
    JoinGroupRequest: {
        NoneType: join,
        ClassicGroup: join,
        ConsumerGroup: downgrade.join_consumer_group,
    },
    SyncGroupRequest: {NoneType: sync, ClassicGroup: sync, ConsumerGroup: classic_api.sync},
    HeartbeatRequest: {
        NoneType: heartbeat,
        ClassicGroup: heartbeat,
        ConsumerGroup: classic_api.classic_heartbeat,
    },
    LeaveGroupRequest: {NoneType: leave, ClassicGroup: leave, ConsumerGroup: classic_api.leave},
}

APPLY: dict[type[Any], Callable[[Ledger, Any, Any], None]] = {
    groups.OffsetCommitKey: replay.apply_offset_commit,
    groups.GroupMetadataKey: replay.apply_classic_group,
    groups.ConsumerGroupMetadataKey: replay.apply_group_epoch,
    # Kafka 4.0's; a hash took its place
    groups.ConsumerGroupPartitionMetadataKey: replay.ignore_record,
    groups.ConsumerGroupMemberMetadataKey: replay.apply_member_metadata,
    groups.ConsumerGroupTargetAssignmentMetadataKey: replay.apply_assignment_epoch,
    groups.ConsumerGroupTargetAssignmentMemberKey: replay.apply_target_assignment,
    groups.ConsumerGroupCurrentMemberAssignmentKey: replay.apply_current_assignment,
    groups.ConsumerGroupRegularExpressionKey: replay.apply_regular_expression,
}

ON_DEADLINE: dict[str, Callable[[Turn, Key], None]] = {
    timers.SESSION: timers.expire_session,
    timers.REBALANCE: timers.expire_revocation,
    timers.REJOIN: timers.expire_classic_member,
    timers.SYNC: timers.expire_classic_member,
    SESSION: classic_timers.expire_session,
    rebalance.JOIN: rebalance.expire_join,
    rebalance.SYNC: rebalance.expire_sync,
    custom_targets.TARGET: custom_targets.expire_target,
    expressions.RESOLUTIONS: expressions.continue_saving,
    client_targets.CLIENT_TARGET: client_targets.expire_client_target,
    retention.RETENTION: retention.expire_offsets,
}

# By the class of the computation.
ON_COMPUTED: dict[type[Any], Callable[[Turn, Any, Any], None]] = {
    ResolveExpressions: expressions.save_resolutions,
    ComputeTarget: custom_targets.save_target,
    ComputeBuiltInTarget: built_in_targets.save_target,
    CheckInstalled: assignment_api.end_check,
}
ON_COMPUTE_FAILED: dict[type[Any], Callable[[Turn, Any, str], None]] = {
    ResolveExpressions: expressions.postpone_refresh,
    ComputeTarget: custom_targets.keep_target,
    ComputeBuiltInTarget: built_in_targets.keep_target,
    CheckInstalled: assignment_api.fail_check,
}

ON_LOADED: dict[type[Any], Callable[[Turn, Any], None]] = {
    ConsumerGroup: timers.restore_group,
    ClassicGroup: classic_timers.restore_after_start,
}

# A classic group removes its members itself: nothing above it decides about them.
ON_MEMBERS_LEAVING: dict[type[Any], Callable[[Turn, Any, tuple[Any, ...]], None]] = {
    ConsumerGroup: downgrade.remove_consumer_group_members,
}


NO_OWN_SETTINGS: Mapping[str, GroupSettings] = MappingProxyType({})


class Shard:
    """The coordinator of the groups of one partition of `__consumer_offsets`.

    First `replay` every stored record, then call `loaded`. Until then requests are refused with
    COORDINATOR_LOAD_IN_PROGRESS. waiting: a driver takes a request out when it sends the reply.
    """

    __slots__ = (
        "_computing",
        "_deadlines",
        "_ended_sessions",
        "_is_loaded",
        "_parts",
        "_steady_turn",
        "ledger",
        "own_settings",
        "settings",
        "topics",
        "waiting",
    )

    def __init__(
        self,
        settings: GroupSettings,
        topics: Topics,
        own_settings: Mapping[str, GroupSettings] = NO_OWN_SETTINGS,
        heartbeats: HeartbeatBudget | None = None,
    ) -> None:
        """Create the coordinator of one `__consumer_offsets` partition, before its log is read.

        own_settings: what holds in each group that has settings of its own. heartbeats: the budget
        that it shares with the other shards; None: it has one of its own.
        """
        self.settings = settings
        self.own_settings = own_settings
        self.topics = topics
        self.ledger = Ledger()
        self._deadlines = Deadlines()
        self._ended_sessions = EndedSessions()
        if heartbeats is None:
            heartbeats = HeartbeatBudget(settings.apportion_heartbeat_budget_per_second)
        self.waiting = WaitingRequests()
        self._computing: Computing = {kind: {} for kind in ON_COMPUTED}
        self._parts = ShardParts(
            ledger=self.ledger,
            deadlines=self._deadlines,
            heartbeats=heartbeats,
            waiting=self.waiting,
            computing=self._computing,
            apply=APPLY,
            on_members_leaving=ON_MEMBERS_LEAVING,
        )
        self._is_loaded = False
        # Shared by the steady heartbeats of one moment: none of them leaves anything in it.
        self._steady_turn: Turn | None = None

    def replay(self, record: CoordinatorRecord) -> None:
        """Apply a stored record to the saved state, for a start of the broker."""
        APPLY[record.key.__class__](self.ledger, record.key, record.value)

    def loaded(self, now: Instant, before: "Shard | None" = None) -> list[ShardAction]:
        """Begin to serve a `__consumer_offsets` partition whose log has been read to its end.

        Return the actions of this step. Every member gets its full timeouts, as after a failover in
        Kafka; but sessions go on that ran in the shard whose place this one takes.
        """
        self._is_loaded = True
        turn = self._turn(now)
        # Copied: what runs here may write records, and `apply_*` may then replace a group.
        for group in list(self.ledger.groups.values()):
            ON_LOADED[group.__class__](turn, group)
        if before is not None:
            before._ended_sessions.go_on(before._deadlines.armed, self._deadlines, now)
        retention.arm(turn)
        metrics.observe_states(self.ledger, self.ledger.groups, now)
        return self._close(turn)

    def wake_at(self) -> int | None:
        """Return when the earliest deadline is due (monotonic ms); None if none is armed."""
        return self._deadlines.next_at()

    def step(self, event: ShardEvent, now: Instant) -> list[ShardAction]:
        """Return the actions that follow from an event: records to append, then responses.

        The event is a request to the group coordinator, a closed connection, a due deadline,
        changed topics, changed settings or the end of a computation. The broker steps the shard of
        the `__consumer_offsets` partition that has the group.
        """
        turn, self._steady_turn = self._turn(now), None
        match event:
            case Arrived():
                # First of all: if the step fails, this request is failed with the parked ones.
                self.waiting.add(event)
                self._answer(turn, event)
            case Tick():
                for key in self._deadlines.take_due(now.mono_ms):
                    if key[0] in SESSIONS:
                        self._ended_sessions.add(key, now.mono_ms)
                    ON_DEADLINE[key[0]](turn, key)
            case TopicsChanged(topics):
                self._change_topics(turn, topics)
            case SettingsChanged(settings, own):
                # A session that is under way keeps its end: its member was told the old interval.
                # Both change with the member's next heartbeat.
                self.settings, self.own_settings = settings, own
            case Computed(computation, result) if self._take_computation(computation):
                ON_COMPUTED[computation.__class__](turn, computation, result)
            case ComputeFailed(computation, why) if self._take_computation(computation):
                ON_COMPUTE_FAILED[computation.__class__](turn, computation, why)
            case Gone(tickets):
                # The groups are not told: a member whose connection closed stays until its session
                # ends, as in Kafka.
                self.waiting.drop(tickets)
        return self._close(turn)

    def steady_response_or_none(
        self, arrived: Arrived, now: Instant
    ) -> ConsumerGroupHeartbeatResponse | None:
        """Return the response to a ConsumerGroupHeartbeat that is steady, without a step.

        It changes nothing that is saved: a deadline, of which `wake_at` tells, the booking of the
        member's next heartbeat, and counts. None for one that is not found steady, and while the
        shard is not loaded: `step` takes it.
        """
        turn = self._steady_turn
        if turn is None or turn.now is not now:
            if not self._is_loaded:
                return None
            turn = self._steady_turn = self._turn(now)
        response = heartbeat_api.steady_response_or_none(turn, arrived)
        assert turn.is_empty, "a steady heartbeat has emitted something"
        return response

    def computations(self) -> list[Computation]:
        """Return the computations under way, for whoever loads the shard anew."""
        return [
            under_way.computation
            for by_group in self._computing.values()
            for under_way in by_group.values()
        ]

    def metrics_or_none(self, group_id: str, now: Instant) -> metrics.GroupMetrics | None:
        """Return the metrics of a group, computed on demand; None if there is no such group."""
        group = self.ledger.groups.get(group_id)
        return None if group is None else metrics.group_metrics(group, self.topics, now)

    def _close(self, turn: Turn) -> list[ShardAction]:
        """Return the actions of the step, and count what it has done to groups."""
        actions = turn.close()
        if turn.has_written:  # not in a steady heartbeat
            metrics.observe(self.ledger, actions, turn.now)
        return actions

    def _answer(self, turn: Turn, arrived: Arrived) -> None:
        """Call the handler of a group request; answer a refusal with its error.

        The handler depends on the API, and for JoinGroup, ConsumerGroupHeartbeat and others on the
        type of the group.
        """
        request_class = arrived.request.__class__
        try:
            if not self._is_loaded:
                raise Refused(Code.COORDINATOR_LOAD_IN_PROGRESS)
            handler = (
                HANDLERS.get(request_class)
                or HANDLERS_BY_GROUP[request_class][
                    self.ledger.groups.get(arrived.request.group_id).__class__
                ]
            )
            handler(turn, arrived)
        except Refused as refusal:
            # A refused request emits no record. Its client would retry against a state that it
            # helped to make.
            assert not turn.has_written, (
                f"{request_class.__name__} was refused after it had written: {refusal}"
            )
            turn.reply(arrived.ticket, GROUP_ERROR_RESPONSES[request_class](arrived, refusal))

    def _take_computation(self, computation: Computation) -> bool:
        """Forget a computation that has ended; return False if the shard has not begun it.

        Then it was begun before the shard was read from its log again, or was abandoned, and nobody
        waits for it.
        """
        computing = self._computing[computation.__class__]
        under_way = computing.get(computation.group_id)
        if under_way is None or under_way.computation is not computation:
            return False
        del computing[computation.group_id]
        return True

    def _change_topics(self, turn: Turn, topics: Topics) -> None:
        """Use the cluster's new topics; delete committed offsets of the deleted ones.

        A group sees the change at its next heartbeat.
        """
        before, self.topics = self.topics, topics
        turn.topics = topics
        if self.ledger.offsets:
            # By id: a topic that was deleted and created again at once keeps its name, and must
            # lose its offsets.
            for name in [topic.name for topic in before if topics.with_id(topic.id) is None]:
                offsets.delete_topic_offsets(turn, name)

    def _turn(self, now: Instant) -> Turn:
        """Return the context of one step of the shard: `turn` for its handlers."""
        return Turn(
            self._parts,
            now,
            settings=self.settings,
            own_settings=self.own_settings,
            topics=self.topics,
        )
