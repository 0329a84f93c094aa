"""Bugs of classic groups to be found, of their members, and of groups that both protocols meet in:
see `planted.py`.
"""

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np

from apportion.assign import sticky
from apportion.assign.by_name import Subscription, TopicParts
from apportion.assign.claims import OwnershipClaims, ResolvedOwners, resolve_claims
from apportion.coord import shard
from apportion.coord.classic import rebalance
from apportion.coord.classic.live_state import ClassicGroupLiveState, ClassicGroupMember
from apportion.coord.classic.rebalance import remove_member, remove_pending_member
from apportion.coord.classic.state import SESSION, ClassicGroup
from apportion.coord.classic_protocol import Joiner
from apportion.coord.consumer import classic_api
from apportion.coord.consumer.beat import Beat
from apportion.coord.consumer.classic_api import to_beat
from apportion.coord.consumer.state import ConsumerGroup, ConsumerGroupMember
from apportion.coord.group import CommitClaim
from apportion.coord.group_counts import Removal
from apportion.coord.migration import downgrade, upgrade
from apportion.coord.migration.downgrade import RemainingMember, to_saved_member
from apportion.coord.migration.upgrade import UpgradedMember
from apportion.coord.turn import Turn
from apportion.deadlines import Deadlines, Key
from apportion.errors import Code, Refused
from apportion.machine import Instant
from apportion.member import ownership
from apportion.member.assignors import builtin
from apportion.member.assignors.interface import from_named_parts
from apportion.member.assignors.numbering import OwnershipClaim
from apportion.member.classic import leader, machine
from apportion.member.classic.generation import NO_GENERATION
from apportion.member.classic.incarnation import Incarnation
from apportion.member.classic.machine import ClassicMember
from apportion.member.classic.metadata import TopicMetadataCache
from apportion.member.classic.requests import ClassicSettings
from apportion.member.coordinator_link import CoordinatorLink
from apportion.member.lookups import FetchedTopics
from apportion.member.membership import (
    MemberAssignment,
    MembershipState,
    minus,
)
from apportion.member.step import Step
from apportion.topics import TopicId, Topics
from apportion.wire.group_states import GroupState
from apportion.wire.messages.join_group import JoinGroupResponse
from apportion.wire.records.consumer_protocol import ConsumerProtocolSubscription
from apportion.wire.records.consumer_serde import decode_sticky
from tests.sim.bug import Planted

ALL_CLASSIC = {"protocol": "classic"}
BOTH = {"protocol": "mixed"}
MISSED_REBALANCES = ALL_CLASSIC | {
    # The other reader leaves and comes back: the static one gains partitions, and loses some. It
    # waits 5 s longer for the response to its JoinGroup than the coordinator does for the request,
    # so if the request is lost, it misses the generation, and joins again within its session.
    "workers": 0,
    "readers": 2,
    "statics": 1,
    "session_ms": 20_000,
    "rebalance_ms": 6_000,
    "heartbeat_ms": 500,
    "delay_us": 100_000,
    "duration_ms": 300_000,
}
LOST_NUMBERS = ALL_CLASSIC | {
    # A slow disk and network leave time for a crash between a generation's JoinGroup responses and
    # its record. A cut is then longer than a rebalance, and ends within the session.
    "workers": 0,
    "readers": 4,
    "statics": 2,
    "session_ms": 20_000,
    "rebalance_ms": 3_000,
    "heartbeat_ms": 500,
    "delay_us": 100_000,
    "flush_us": 500_000,
    "duration_ms": 300_000,
}

check_commit = ClassicGroup.check_commit  # as it is, whatever stands in its place


# the coordinator of classic groups


def whoever_is_silent_is_gone(turn: Turn, key: Key) -> None:
    _, group_id, member_id = key
    group = turn.ledger.classic_group_or_none(group_id)
    if group is None:
        return
    if member_id in group.live.pending_joins:
        remove_pending_member(turn, group, member_id)
        rebalance.complete_join_if_all_joined(turn, group)
    elif (member := group.live.members.get(member_id)) is not None:
        remove_member(turn, group, member, Removal.SESSION_TIMEOUT)
        if group.live.state is not GroupState.EMPTY:
            rebalance.prepare_or_complete_join(turn, group)


def take_all_due_at_once(self: Deadlines, now_ms: int) -> Iterator[Key]:
    return iter([key for _, key in self._pop_due(now_ms)])


def revive_members_alone(turn: Turn, group: ClassicGroup) -> None:
    group.restore()


def tell_it_to_join_again(turn: Turn, group: ClassicGroup, member: ClassicGroupMember) -> None:
    pass


def static_members_keep_their_places(
    live: ClassicGroupLiveState, member: ClassicGroupMember
) -> bool:
    return member.instance_id is not None


def members_may_commit_in_any_generation(self: ClassicGroup, claim: CommitClaim) -> None:
    check_commit(self, claim._replace(epoch=self.live.generation))


def members_may_commit_in_any_state(self: ClassicGroup, claim: CommitClaim) -> None:
    try:
        check_commit(self, claim)
    except Refused as refused:
        if refused.code is not Code.REBALANCE_IN_PROGRESS:
            raise


# members


def what_is_to_be_kept(
    owned: MemberAssignment, target: MemberAssignment | None
) -> MemberAssignment:
    return owned if target is None else minus(owned, minus(owned, target))


def learn_at_any_time(self: ClassicMember, step: Step, fetched: FetchedTopics) -> None:
    self._incarnation.apply_metadata(step, *fetched)
    self._settle(step)


def never_forgotten(self: CoordinatorLink, now: Instant, session_timeout_ms: int) -> bool:
    return False


def never_behind(settings: ClassicSettings, generation: int, response: JoinGroupResponse) -> bool:
    return False


def names_have_no_ids(self: TopicMetadataCache, parts: Iterable[TopicParts]) -> dict[str, TopicId]:
    return {}


# both protocols


def assignment_is_forgotten(
    group: ConsumerGroup, remaining: RemainingMember, protocol: str, topics: Topics
) -> Any:
    saved: Any = to_saved_member(group, remaining, protocol, topics)
    saved.assignment = b""
    return saved


def without_debts(
    turn: Turn, group: ClassicGroup, members: list[UpgradedMember]
) -> list[UpgradedMember]:
    return members


def beat_of_who_owns_nothing(
    turn: Turn, group_id: str, joiner: Joiner, subscription: ConsumerProtocolSubscription
) -> Beat:
    return to_beat(turn, group_id, joiner, subscription)._replace(owned=())


def must_follow_the_group(turn: Turn, group: ConsumerGroup, member: ConsumerGroupMember) -> bool:
    return member.epoch < group.saved.epoch


# what Kafka had


def drop_out_with_all_that_is_owned(
    self: ClassicMember, step: Step, code: Code, *, keeps_id: bool
) -> None:
    """A member that was put out joins again, and claims what it had: its generation alone is
    reset.
    """
    if not keeps_id:
        self._member_id = ""
    self._enter(MembershipState.JOINING)
    self._link.backoff.reset_delay(step.now)


def told_without_generation(subscription: Subscription) -> OwnershipClaim:
    return subscription.owned, NO_GENERATION


def data_without_generation(subscription: Subscription) -> OwnershipClaim:
    return from_named_parts(decode_sticky(subscription.user_data).topic_partitions), NO_GENERATION


def settled_by_the_newest(claims: OwnershipClaims, partitions: int) -> ResolvedOwners:
    """Whoever is behind the newest generation has lost what it had, and claims nothing."""
    is_new = np.repeat(
        claims.generations == claims.generations.max(initial=-1), np.diff(claims.member_starts)
    )
    counts = np.bincount(claims.members[is_new], minlength=len(claims.generations))
    starts = np.concatenate(([0], np.cumsum(counts))).astype(np.int32)
    return resolve_claims(
        OwnershipClaims(starts, claims.partitions[is_new], claims.generations), partitions
    )


CLASSIC = (
    Planted(
        "parked-is-silent",
        "Who has not been heard for a whole session is gone.",
        ((shard, "ON_DEADLINE", {**shard.ON_DEADLINE, SESSION: whoever_is_silent_is_gone}),),
        ALL_CLASSIC,
    ),
    Planted(
        "due-all-the-same",
        "What is due now is due, whatever happens before its turn comes.",
        ((Deadlines, "take_due", take_all_due_at_once),),
        ALL_CLASSIC,
    ),
    Planted(
        "classic-session-after-recovery",
        "A session is armed by each heartbeat, and every member will send one.",
        ((shard, "ON_LOADED", {**shard.ON_LOADED, ClassicGroup: revive_members_alone}),),
        ALL_CLASSIC,
    ),
    Planted(
        "lost-generation",
        "It is told to join again, and that will restart its session.",
        ((rebalance, "resume_lost_rebalance", tell_it_to_join_again),),
        ALL_CLASSIC | {"workers": 0, "readers": 4, "session_ms": 4_000, "delay_us": 100_000},
        ("broker-crash", "cut"),
    ),
    Planted(
        "lost-number",
        "A static member keeps its place until its session ends.",
        ((rebalance, "may_miss_generation", static_members_keep_their_places),),
        LOST_NUMBERS,
        ("broker-crash", "restart", "cut"),
    ),
    Planted(
        "commit-generation",
        "Who is a member of the group may commit.",
        ((ClassicGroup, "check_commit", members_may_commit_in_any_generation),),
        ALL_CLASSIC,
    ),
    Planted(
        "commit-between-generations",
        "Who is in the newest generation may commit, whatever the leader is at.",
        ((ClassicGroup, "check_commit", members_may_commit_in_any_state),),
        ALL_CLASSIC,
    ),
    Planted(
        "cooperative-gives-at-once",
        "The share says who shall have the partition, so it can be given at once.",
        ((builtin, "cooperative_sticky", sticky.sticky),),
        ALL_CLASSIC,
    ),
    Planted(
        "rejoin-before-adopted",
        "The member knows what it must give up, so it can join without it.",
        ((ownership, "owned_or_offered", what_is_to_be_kept),),
        ALL_CLASSIC,
    ),
    Planted(
        "eager-joins-at-once",
        "The owner is told to give everything back, and it will by the time that the "
        "others have joined.",
        ((Incarnation, "may_rejoin", property(lambda self: True)),),
        ALL_CLASSIC,
    ),
    Planted(
        "learns-while-joining",
        "What a look at the topics tells is true at any time.",
        ((ClassicMember, "_apply_metadata", learn_at_any_time),),
        ALL_CLASSIC | {"workers": 0, "readers": 4},
    ),
    Planted(
        "taken-back",
        "Who is taken in under its id was a member all the time.",
        ((CoordinatorLink, "may_have_been_removed", never_forgotten),),
        BOTH | {"session_ms": 4_000, "statics": 0, "workers": 4, "heartbeat_budget": 0},
        ("lost-join", "switch", "restart"),
    ),
    Planted(
        "missed-generation",
        "Who keeps its place in the group keeps its partitions.",
        ((machine, "has_missed_generation", never_behind),),
        MISSED_REBALANCES,
        ("lost-join", "restart"),
    ),
    Planted(
        "namesake",
        "The leader gave a topic by its name, so whatever has the name is given.",
        ((TopicMetadataCache, "topic_ids_of", names_have_no_ids),),
        BOTH,
    ),
    Planted(
        "downgrade-forgets",
        "All will join the classic group anew, so nobody needs to know what they have.",
        ((downgrade, "to_saved_member", assignment_is_forgotten),),
        BOTH,
    ),
    Planted(
        "upgrade-forgets-debts",
        "What a member has is what its leader gave it last.",
        ((upgrade, "with_unrevoked", without_debts),),
        BOTH,
    ),
    Planted(
        "join-owns-nothing",
        "Who joins begins anew and has nothing.",
        ((classic_api, "to_beat", beat_of_who_owns_nothing),),
        BOTH,
    ),
    Planted(
        "rejoin-by-epoch-alone",
        "A member joins again when its group has gone on.",
        ((classic_api, "must_rejoin", must_follow_the_group),),
        BOTH,
    ),
    Planted(
        "KAFKA-7026",
        "What a member had last is in its user data.",
        ((builtin, "claim_from_user_data", data_without_generation),),
        ALL_CLASSIC,
    ),
    Planted(
        "KAFKA-12984",
        "Who joins again says what it owns, and is believed.",
        (
            (ClassicMember, "_lose_membership", drop_out_with_all_that_is_owned),
            (builtin, "claim_from_subscription", told_without_generation),
        ),
        ALL_CLASSIC,
    ),
    Planted(
        "KAFKA-13406",
        "Who is behind the newest generation owns nothing, and the check of what "
        "cooperative members are given holds for all.",
        ((sticky, "resolve_claims", settled_by_the_newest), (leader, "TRUSTED", "")),
        ALL_CLASSIC,
    ),
)
"""Every bug of classic and of mixed groups that the simulator has to find."""
