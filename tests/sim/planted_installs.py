"""Bugs to be found where members compute their group's target by client-side assignors.

See `planted.py`.
"""

from collections.abc import Mapping
from typing import Any

from apportion.assign import checks
from apportion.assign.by_name import ClusterTopics, Given, Subscription
from apportion.coord import shard
from apportion.coord.consumer import (
    client_targets,
    heartbeat,
    offering_members,
    state,
    target_results,
)
from apportion.coord.consumer.beat import Beat
from apportion.coord.consumer.client_assignors import (
    AgreedAssignor,
    ChosenMember,
    ClientOffer,
    PreparedGroup,
    agreed_or_none,
)
from apportion.coord.consumer.offering_members import AssignorChange
from apportion.coord.consumer.state import ConsumerGroup, ConsumerGroupMember
from apportion.coord.records import NO_ANSWER, TargetAnswer
from apportion.coord.turn import Turn
from apportion.deadlines import Key
from apportion.member.consumer.local_assignors import LocalAssignors
from apportion.sim.kernel.settings import UNRELIABLE
from apportion.wire.records.groups import RecordClientAssignor
from tests.sim.bug import Planted, Swap

# As they are, whatever stands in their place.
agree, change_or_none = agreed_or_none, offering_members.assignor_change_or_none


def any_member_is(group: ConsumerGroup, member_id: str) -> bool:
    return group.live.chosen is not None


def any_epoch_is(prepared: PreparedGroup, epoch: int) -> bool:
    return True


def takes_any_target(
    cluster: ClusterTopics, members: Mapping[str, Subscription], answer: Mapping[str, Given]
) -> None:
    """Check nothing."""


def waits_on(turn: Turn, key: Key) -> None:
    pass


def nobody_is(group: ConsumerGroup, assignor: AgreedAssignor, member_id: str) -> bool:
    return False


def by_member_id_alone(
    group: ConsumerGroup, member_id: str, instance_id: str | None
) -> ConsumerGroupMember | None:
    return group.saved.members.get(member_id)


def as_if_nobody_went(
    group: ConsumerGroup, member_id: str, instance_id: str | None
) -> ConsumerGroupMember | None:
    return group.saved.members.get(member_id) or ConsumerGroupMember(member_id)


def only_another_offer_does(
    before: tuple[RecordClientAssignor, ...], assignors: tuple[RecordClientAssignor, ...]
) -> bool:
    return [each.name for each in before] != [each.name for each in assignors]


def among_those_that_offer(
    offers: Mapping[ClientOffer, int], members: int
) -> AgreedAssignor | None:
    return agree(offers, sum(offers.values()))


def saves_at_once(
    turn: Turn, group: ConsumerGroup, member: ConsumerGroupMember, beat: Beat
) -> AssignorChange | None:
    assignors = beat.client_assignors
    return None if assignors is None else AssignorChange(due=assignors, early=None, dropped_bytes=0)


def saves_only_what_it_brings(
    turn: Turn, group: ConsumerGroup, member: ConsumerGroupMember, beat: Beat
) -> AssignorChange | None:
    return None if beat.client_assignors is None else change_or_none(turn, group, member, beat)


def whenever_it_asks(turn: Turn, chosen: ChosenMember) -> bool:
    return True


def with_the_newest_target(group: ConsumerGroup, member: ConsumerGroupMember) -> TargetAnswer:
    return member.target_answer if member.metadata.client_assignors else NO_ANSWER


def only_what_is_new(self: LocalAssignors, name: str, *, is_full: bool) -> int:
    return self._reasons.get(name) or self._standing.get(name, 0)


LOCAL: dict[str, Any] = {"local_assignor": UNRELIABLE}
REPLACED = {"statics": 9, "workers": 2, "readers": 3, "delay_us": 20_000}


def computing(name: str, why: str, *swaps: Swap) -> Planted:
    """A bug that shows where unreliable members compute the target."""
    return Planted(name, why, swaps, LOCAL)


INSTALLS = (
    computing(
        "anybody-installs",
        "Whoever is a member of the group, at its own epoch, means well.",
        (client_targets, "is_chosen", any_member_is),
    ),
    computing(
        "any-epoch-installs",
        "The chosen member was asked for a target, and this is one.",
        (client_targets, "is_prepared_epoch", any_epoch_is),
    ),
    computing(
        "install-unchecked",
        "The member has checked the answer of its assignor before it sends it.",
        (checks, "check_given", takes_any_target),
    ),
    computing(
        "computes-for-ever",
        "Whoever was chosen will send a target, or its session ends.",
        (
            shard,
            "ON_DEADLINE",
            {**shard.ON_DEADLINE, client_targets.CLIENT_TARGET: waits_on},
        ),
    ),
    computing(
        "asked-again",
        "A member that was too late may be faster the next time.",
        (client_targets, "is_passed_over", nobody_is),
    ),
    Planted(
        "successor-without-target",
        "A member that has gone while the target was computed needs none.",
        ((target_results, "current_member_or_none", by_member_id_alone),),
        sizes=LOCAL | REPLACED,
        kinds=("restart", "crash", "roll", "more-partitions", "lost-reply"),
    ),
    computing(
        "target-of-the-gone",
        "The assignor was told of these members, and its target is one for all of them.",
        (target_results, "current_member_or_none", as_if_nobody_went),
    ),
    computing(
        "reason-unheard",
        "The offer is the same as before, so nothing has changed.",
        (heartbeat, "asks_for_assignment", only_another_offer_does),
    ),
    computing(
        "agreed-without-all",
        "Those that offer no assignor have nothing against the one of the others.",
        (state, "agreed_or_none", among_those_that_offer),
    ),
    computing(
        "saved-at-once",
        "What a heartbeat brings is saved with it, as anything else of a member.",
        (offering_members, "assignor_change_or_none", saves_at_once),
    ),
    computing(
        "early-is-forgotten",
        "A member whose metadata come too early sends newer ones later.",
        (offering_members, "assignor_change_or_none", saves_only_what_it_brings),
    ),
    Planted(
        "said-once",
        "The coordinator has accepted the reason, so it knows it.",
        ((LocalAssignors, "reason_of", only_what_is_new),),
        sizes=LOCAL | {"assignment_interval_ms": 5_000},
        kinds=("broker-crash",),
    ),
    computing(
        "told-at-once",
        "Whoever is to compute the target may ask for the group.",
        (client_targets, "may_prepare", whenever_it_asks),
    ),
    computing(
        "answer-before-its-epoch",
        "A member is told what its assignor has said with its newest target.",
        (offering_members, "told_answer", with_the_newest_target),
    ),
)
"""The guards of `coord.consumer.client_targets`, of `offering_members`, of what they call, and of
the member that asks.
"""
