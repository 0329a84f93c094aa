"""The target assignment of a consumer group: when it is due, and who computes it.

A group computes at most one target in `group.consumer.assignment.interval.ms` (KIP-1263): what
changes meanwhile bumps the group epoch and waits, so a thousand members that join within a second
cost one computation. The first heartbeat after the interval computes it; heartbeats before that
follow the older target.

It is computed by an assignor of the package (`built_in_targets.py`), by one of the broker's
operator (`custom_targets.py`), or by a member (`client_targets.py`).
"""

from __future__ import annotations

from hashlib import blake2b
from typing import TYPE_CHECKING

from apportion.coord import records
from apportion.coord.consumer import (
    built_in_targets,
    client_targets,
    custom_targets,
    target_results,
)
from apportion.coord.consumer.built_in_targets import ComputeBuiltInTarget
from apportion.coord.consumer.target_computation import ComputeTarget
from apportion.coord.consumer.topic_layout import subscribed_topics
from apportion.lazy_imports import lazy_module

if TYPE_CHECKING:
    from apportion.assign import assignors
    from apportion.coord.consumer.state import ConsumerGroup, ConsumerGroupMember
    from apportion.coord.turn import Turn
    from apportion.topics import Topics
else:
    assignors = lazy_module("apportion.assign.assignors")

TARGET_COMPUTATIONS = (ComputeTarget, ComputeBuiltInTarget)
"""The computations of target assignments that run beside the shard."""
NEVER_MS = 0
"""AssignmentTimestamp of a target that was not computed."""


def is_target_due(turn: Turn, group: ConsumerGroup) -> bool:
    """Return whether the group's target is older than its epoch and may be computed now."""
    saved = group.saved
    return saved.epoch > saved.assignment_epoch and target_wait_ms(turn, group) == 0


def target_wait_ms(turn: Turn, group: ConsumerGroup) -> int:
    """Return how long it takes until the group may compute a target again (KIP-1263).

    The longer of two waits counts: for the interval, and after a computation that has failed.
    A group without a target does not wait, nor one that was loaded since its last target: what
    Kafka compares with the wall clock of the record must not depend on a clock that can be set.
    """
    computed_ms = group.live.target_computed_ms
    retry_ms = target_results.retry_wait_ms(turn, group)
    if computed_ms is None:
        return retry_ms
    interval_ms = turn.settings_of(group.group_id).group_consumer_assignment_interval_ms
    return max(0, computed_ms + interval_ms - turn.now.mono_ms, retry_ms)


def has_newer_target(turn: Turn, group: ConsumerGroup, member: ConsumerGroupMember) -> bool:
    """Return whether a classic member that joins again gets a newer target than its own.

    A group epoch alone is no reason to rejoin: while the target lags behind it, the member would
    be told so again and again (KAFKA-20272). Nor is a target that is to be computed beside the
    shard: the JoinGroup would not get it yet.
    """
    if member.epoch < group.saved.assignment_epoch:
        return True
    return (
        is_target_due(turn, group)
        and assignor_of(turn, group) in assignors.ASSIGNORS
        and not built_in_targets.comes_later(turn, group)
    )


def assignor_of(turn: Turn, group: ConsumerGroup) -> str:
    """Return the assignor of the group's next target, by the votes as they are now."""
    # Every time anew: the member whose vote decided may be gone.
    return group.assignor(turn.settings.group_consumer_assignors)


def renew_target(turn: Turn, group: ConsumerGroup, member_id: str) -> None:
    """Compute a target assignment if one is due; in a large group, only begin to.

    So it does with a custom assignor. With a client-side assignor the sender of the heartbeat
    computes it.
    """
    if not is_target_due(turn, group):
        return
    agreed = group.saved.client_assignor
    if agreed is not None:
        custom_targets.abandon_if_under_way(turn, group)
        built_in_targets.drop_if_under_way(group)
        client_targets.choose_if_none(turn, group, agreed, member_id)
        return
    name = assignor_of(turn, group)
    if name in assignors.ASSIGNORS:
        renew_built_in_target(turn, group, name)
    else:
        _begin_custom_target(turn, group, name)


def begin_target_if_due(turn: Turn, group: ConsumerGroup) -> None:
    """Begin to compute a target assignment if one is due and is computed beside the shard."""
    if not is_target_due(turn, group):
        return
    name = assignor_of(turn, group)
    if name not in assignors.ASSIGNORS:
        _begin_custom_target(turn, group, name)
    elif built_in_targets.comes_later(turn, group):
        renew_built_in_target(turn, group, name)


def renew_built_in_target(turn: Turn, group: ConsumerGroup, name: str) -> None:
    """Compute a target assignment by an assignor of the package, or begin to."""
    # What is under way would be older than this one.
    custom_targets.abandon_if_under_way(turn, group)
    client_targets.forget(turn, group)
    built_in_targets.renew(turn, group, name)


def save_target_of_nobody(turn: Turn, group: ConsumerGroup) -> None:
    """Save that a group without members has its target for its epoch (KAFKA-20442).

    It was not computed, so the first member that comes does not wait for the interval.
    """
    # What is still computed would take the epoch of the targets back: it is dropped when it comes.
    # It is not abandoned, so that groups which come and go cannot pile computations up.
    group.live.target_under_way = None
    group.live.target_computed_ms = None
    turn.emit(records.assignment_epoch(group.group_id, group.saved.epoch, NEVER_MS))


def metadata_hash(group: ConsumerGroup, topics: Topics) -> int:
    """Return a hash of the subscribed topics (KIP-1101); 0 if none of them exists.

    It covers their ids and sizes, and racks where they are known.

    If the hash changes, the group gets a new epoch. Kafka stores a hash of the same facts by
    another function, so a log that moves between the two costs each group one more epoch.
    """
    known = subscribed_topics(group, topics)
    if not known:
        return 0
    digest = blake2b(digest_size=8)
    for topic in known:
        # With the length of the name in front: no two lists of topics give the same bytes. The id
        # makes a topic that was created again another topic.
        digest.update(f"{len(topic.name)}:{topic.name}:{topic.partitions}:".encode() + topic.id)
        # Not where there are none: then the hash is that of earlier versions.
        if topic.racks:
            digest.update(repr(topic.racks).encode())
    # An int64, the type of MetadataHash in record 3.
    return int.from_bytes(digest.digest(), "big", signed=True)


def _begin_custom_target(turn: Turn, group: ConsumerGroup, name: str) -> None:
    """Have a custom assignor compute a target assignment beside the shard, unless it does so."""
    # The members do not agree any more, whether this may begin at once or has to wait.
    client_targets.forget(turn, group)
    built_in_targets.drop_if_under_way(group)
    # Before anything that costs time in proportion to the group: every heartbeat comes here.
    if not target_results.may_begin(turn, group, ComputeTarget):
        return
    custom_targets.begin(
        turn,
        group,
        turn.settings.custom_assignors[name],
        subscribed_topics(group, turn.topics),
    )
