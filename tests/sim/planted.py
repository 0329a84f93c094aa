"""Bugs to be found: each guard with what a careless programmer would have written in its place, and
some that Kafka had.

Those of classic groups, and of groups of both protocols, are in `planted_classic.py`; those of the
rule of plain consumers in `planted_records.py`, of a query's retries in `planted_retries.py`, of
the reads of its tasks in `planted_reads.py`, of client-side assignors in `planted_installs.py`, and
of a Streams application's tasks in `planted_tasks.py`.

`PLANTED[name].plant(patch)` makes the replacement in this process; `patch` is pytest's monkeypatch,
or anything with its `setattr`.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from apportion.assign import checks
from apportion.assign.by_name import ClusterTopics, Given, Subscription
from apportion.coord import replay, shard
from apportion.coord.consumer import expressions, fencing, heartbeat, state, timers
from apportion.coord.consumer.reconcile import MemberState
from apportion.coord.consumer.state import ConsumerGroup, ConsumerGroupMember
from apportion.coord.consumer.timers import has_pending_revocation
from apportion.coord.consumer.units import UnitOwners
from apportion.coord.replay import Ledger
from apportion.coord.shard import Shard
from apportion.coord.shard_events import SettingsChanged
from apportion.coord.turn import Turn
from apportion.machine import Instant
from apportion.member import ownership
from apportion.member.batch import admission, fences, plan, planner
from apportion.member.batch.plan import PlanInput
from apportion.member.batch.span import Span
from apportion.member.cluster_queries.offsets import OffsetAndMetadata
from apportion.member.group_claims import Sinks
from apportion.member.membership import MemberAssignment, minus
from apportion.node import flush_gate
from apportion.node.coordinators import HostedShard
from apportion.sim.kernel.settings import UNRELIABLE
from apportion.topics import TopicIdPartition
from apportion.wire.records.groups import (
    ConsumerGroupCurrentMemberAssignmentKey,
    ConsumerGroupCurrentMemberAssignmentValue,
)
from tests.sim.bug import Planted
from tests.sim.planted_classic import CLASSIC
from tests.sim.planted_installs import INSTALLS
from tests.sim.planted_reads import READS
from tests.sim.planted_records import RECORDS
from tests.sim.planted_retries import RETRIES
from tests.sim.planted_tasks import TASKS

claim = UnitOwners.claim  # as it is, whatever stands in its place


# the guards


def never_blocked(group: ConsumerGroup, member_id: str, unit: int) -> bool:
    return False


def only_the_newest_epoch_suffices(
    member: ConsumerGroupMember, epoch: int, owned: frozenset[int] | None
) -> bool:
    return False


def members_may_commit(member: ConsumerGroupMember, claimed: int, units: Iterable[int]) -> bool:
    return True


def only_at_the_newest_epoch(
    member: ConsumerGroupMember, claimed: int, units: Iterable[int]
) -> bool:
    return claimed == member.epoch


def leaves_at_once(flush_seq: int, durable_seq: int) -> bool:
    return True


step_shard = HostedShard.step  # likewise


def own_append(self: HostedShard, event: Any, now: Instant) -> list[Any]:
    self.flush_seq = 0  # until this step appends
    return step_shard(self, event, now)


def as_told(owned: MemberAssignment, target: MemberAssignment | None) -> MemberAssignment:
    return owned if target is None else minus(owned, minus(owned, target))


step_groups = Shard.step  # likewise


def sessions_end_anew(self: Shard, event: Any, now: Instant) -> list[Any]:
    actions = step_groups(self, event, now)
    if type(event) is SettingsChanged:
        turn = self._turn(now)
        for group in self.ledger.consumer_groups():
            for member in group.saved.members.values():
                timers.arm_session(turn, group, member)
        actions += turn.close()
    return actions


def rearm_revocations(turn: Turn, group: ConsumerGroup, member: ConsumerGroupMember) -> None:
    timers.arm_rebalance(turn, group, member)


def arm_rebalance_once(turn: Turn, group: ConsumerGroup, member: ConsumerGroupMember) -> None:
    key = (timers.REBALANCE, group.group_id, member.member_id)
    if has_pending_revocation(member) and key not in turn.deadlines:
        turn.deadlines.arm(key, turn.now.mono_ms + member.metadata.rebalance_timeout_ms)


def has_its_target(
    group: ConsumerGroup, member: ConsumerGroupMember, change: heartbeat.MemberChange
) -> bool:
    return member.state is MemberState.STABLE and member.epoch == group.saved.assignment_epoch


def always_late(member: ConsumerGroupMember) -> bool:
    return True


def always_released(member: ConsumerGroupMember) -> bool:
    return True


def from_the_start(start: int, fence: int) -> int:
    return start


def remembered_position(
    previous: Span, inputs: PlanInput, partition: TopicIdPartition
) -> int | None:
    last_end = previous.end_or_none(partition)
    return last_end if partition in inputs.kept else inputs.committed.get(partition)


def anybody_may(mine: Sinks, stored: Mapping[TopicIdPartition, OffsetAndMetadata]) -> None:
    return None


def never_changes(before: tuple[str, ...] | None, matched: tuple[str, ...]) -> bool:
    return False


def takes_any_answer(
    cluster: ClusterTopics, members: Mapping[str, Subscription], answer: Mapping[str, Given]
) -> None:
    """Check nothing."""


# what Kafka had


def apply_list_by_list(
    ledger: Ledger,
    key: ConsumerGroupCurrentMemberAssignmentKey,
    value: ConsumerGroupCurrentMemberAssignmentValue | None,
) -> None:
    """First what is assigned is claimed, then what is pending revocation no more is freed: also
    what came back by that way.
    """
    group: Any = ledger.groups.get(key.group_id)
    member = None if group is None else group.saved.members.get(key.member_id)
    before = [] if member is None else member.pending_revocation.units.tolist()
    replay.apply_current_assignment(ledger, key, value)
    if group is not None and member is not None:
        after = member.pending_revocation.units.tolist()
        assert isinstance(group.saved, state.ConsumerGroupSavedState)
        group.saved.owners.release(member.member_id, [unit for unit in before if unit not in after])


def claim_what_is_free(self: UnitOwners, member_id: str, units: list[int]) -> None:
    for unit in units:
        holder = self.owner_or_none(unit)
        if holder is not None and holder != member_id:
            raise RuntimeError(f"{member_id} cannot have unit {unit}: {holder} still has it")
    claim(self, member_id, units)


def all_wanted(
    turn: Turn, group: ConsumerGroup, member: ConsumerGroupMember
) -> Callable[[int], bool]:
    return lambda unit: True


PLANTED = {
    bug.name: bug
    for bug in (
        Planted(
            "grant-before-release",
            "The target says who shall have the partition, so it can be given at once.",
            ((fencing, "is_blocked", never_blocked),),
        ),
        Planted(
            "previous-epoch",
            "Who speaks of an older epoch than its own is a zombie.",
            ((fencing, "may_use_previous_epoch", only_the_newest_epoch_suffices),),
        ),
        Planted(
            "commit-epoch",
            "Who is a member of the group may commit.",
            ((state, "may_commit", members_may_commit),),
        ),
        Planted(
            "older-commit",
            "Who commits as of an older epoch has to learn of its new assignment first.",
            ((state, "may_commit", only_at_the_newest_epoch),),
        ),
        Planted(
            "reply-before-durable",
            "The record is written, and the flush is on its way.",
            ((flush_gate, "may_send", leaves_at_once),),
        ),
        Planted(
            "overtaking-read",
            "An answer to a request that wrote nothing has nothing to wait for.",
            ((HostedShard, "step", own_append),),
        ),
        Planted(
            "early-acknowledgement",
            "The member knows what it must give up, so it can say so in its next heartbeat.",
            ((ownership, "owned_or_offered", as_told),),
        ),
        Planted(
            "session-after-recovery",
            "A session is armed by each heartbeat, and every member will send one.",
            ((timers, "restore_deadlines", rearm_revocations),),
        ),
        Planted(
            "rebalance-timer",
            "The timer runs already, and whoever it strikes has had its time.",
            (
                (timers, "arm_rebalance", arm_rebalance_once),
                (timers, "has_pending_revocation", always_late),
            ),
        ),
        Planted(
            "static-fencing",
            "The same instance comes again: its predecessor must be gone.",
            ((fencing, "has_released_instance", always_released),),
        ),
        Planted(
            "sink-fence",
            "Spark gives each batch once, so all of it is new to the sink.",
            ((fences, "lowest_admitted", from_the_start),),
        ),
        Planted(
            "position-from-memory",
            "A source knows where it stands; after a restart the group's offset says it.",
            ((plan, "known_position", remembered_position),),
        ),
        Planted(
            "another-sink",
            "The group's offset says where to go on, whoever committed it.",
            (
                (planner, "refuse_other_sinks", anybody_may),
                (admission, "refuse_other_sinks", anybody_may),
            ),
            kinds=(
                "stray",
                "crash",
                "restart",
                "replace",
                "broker-crash",
                "cut",
                "more-partitions",
            ),
        ),
        Planted(
            "match-keeps-epoch",
            "The epoch is of the members and their subscriptions, and an expression is the same "
            "whatever it matches.",
            ((expressions, "changes_subscription", never_changes),),
            sizes={"readers": 3},
            kinds=(
                "regex",
                "subscribe",
                "crash",
                "restart",
                "broker-crash",
                "topic-again",
                "more-partitions",
            ),
        ),
        Planted(
            "answer-unchecked",
            "Whoever writes an assignor for the broker knows what an assignment is.",
            ((checks, "check_given", takes_any_answer),),
            sizes={"assignor": UNRELIABLE},
        ),
        Planted(
            "session-at-once",
            "The new session timeout holds at once, so that a dead member goes sooner.",
            ((Shard, "step", sessions_end_anew),),
            kinds=("alter-group", "pause", "crash", "cut", "broker-crash"),
        ),
        Planted(
            "KAFKA-16147",
            "A member's two lists change one by one, so the table of owners can follow "
            "them one by one.",
            (
                (
                    shard,
                    "APPLY",
                    {**shard.APPLY, ConsumerGroupCurrentMemberAssignmentKey: apply_list_by_list},
                ),
            ),
        ),
        Planted(
            "KAFKA-19862",
            "A partition is released before it is claimed, so a log where it is not must "
            "be corrupt.",
            ((UnitOwners, "claim", claim_what_is_free),),
        ),
        Planted(
            "KAFKA-19431",
            "The next target will leave out what the member has ceased to subscribe to.",
            ((heartbeat, "subscribed_units", all_wanted),),
        ),
        Planted(
            "kept-while-the-target-lags",
            "A member that has its target has nothing to do until the next one.",
            ((heartbeat, "is_reconciled", has_its_target),),
            sizes={"assignment_interval_ms": 15_000},
        ),
        *INSTALLS,
        *CLASSIC,
        *RECORDS,
        *RETRIES,
        *READS,
        *TASKS,
    )
}
"""Every bug that the simulator has to find, by name; docs/guards.md says what each does and which
seed finds it.
"""
