"""The laws of one consumer group in its coordinator. A law yields a sentence for each violation.

The laws hold between any two steps, in every reachable state: while partitions of deleted topics
are still assigned, while static members are away, before the first target assignment. Laws that
need more than one group at one moment are checked by `checker.py` and the modules beside it;
docs/simulator.md has a sentence for each.
"""

from collections import Counter
from collections.abc import Callable, Iterator

from apportion.coord.consumer.beat import AWAY
from apportion.coord.consumer.client_assignors import (
    ClientOffer,
    agreed_or_none,
    metadata_bytes,
    offer_of,
)
from apportion.coord.consumer.reconcile import MemberState
from apportion.coord.consumer.state import NO_METADATA, ConsumerGroup
from apportion.coord.consumer.units import PARTITION, SHIFT
from apportion.topics import Topic, Topics
from apportion.wire.group_states import GroupState

# Every law has this signature, as it stands in the table GROUP_LAWS; some need no topics.
ConsumerGroupLaw = Callable[[ConsumerGroup, Topics], Iterator[str]]


def one_holder(group: ConsumerGroup, topics: Topics) -> Iterator[str]:
    """Yield partitions that two members have at once, assigned or pending revocation."""
    owned: list[int] = []
    for member in group.saved.members.values():
        owned += member.units()
    # The cheap test first: it holds at almost every step, and the law runs after each one that
    # writes.
    if len(frozenset(owned)) == len(owned):
        return
    owner: dict[int, str] = {}
    for member in group.saved.members.values():
        for unit in member.units():
            if unit in owner:
                yield (
                    f"{_partition_name(group, topics, unit)} is held by {owner[unit]} and by "
                    f"{member.member_id}."
                )
            owner[unit] = member.member_id


def bounded_epochs(group: ConsumerGroup, _topics: Topics) -> Iterator[str]:
    """Yield epochs above the consumer group's epoch.

    Checked are the epochs of the target assignment, of members, and of assigned partitions.
    """
    saved = group.saved
    newest = saved.epoch
    # KIP-848: a target is computed for a group epoch that exists, and members follow targets; so
    # the three never overtake each other.
    if saved.assignment_epoch > newest:
        yield f"the assignment epoch {saved.assignment_epoch} is above the group's {newest}."
    for member in saved.members.values():
        epoch, name = member.epoch, member.member_id
        if epoch > newest:
            yield f"{name} is at epoch {epoch}, above the group's {newest}."
        if epoch < 0 and epoch != AWAY:
            yield f"{name} is at epoch {epoch}, which means nothing."
        # The previous epoch lets a member whose last reply was lost go on; above the present one it
        # would admit epochs that never were.
        if member.previous_epoch > (newest if epoch == AWAY else epoch):
            yield f"{name} is at epoch {epoch} and was at {member.previous_epoch} before."
        partition_epochs = (
            member.assigned.epochs.tolist() + member.pending_revocation.epochs.tolist()
        )
        # KIP-1251: a commit is accepted from the epoch at which the partition was granted on. One
        # granted later than the member's own epoch could never be committed.
        if partition_epochs and max(partition_epochs) > max(epoch, 0):
            yield (
                f"{name} is at epoch {epoch} and has a partition that was given at "
                f"{max(partition_epochs)}."
            )


def legal_target(group: ConsumerGroup, topics: Topics) -> Iterator[str]:
    """Yield subscribed partitions that a target assignment of the group epoch does not assign once.

    A target must assign each of them, and to a member that subscribes to its topic. topics: those
    from which the target assignment was computed.
    """
    saved = group.saved
    # A group that is Assigning has an older target: topics and members may have changed since.
    if saved.assignment_epoch != saved.epoch:
        return
    subscribed: dict[str, Topic] = {}
    # subscription -> topic number -> partitions
    sizes_of: dict[tuple[str, ...], dict[int | None, int]] = {}
    owner: dict[int, str] = {}
    for name, member in saved.members.items():
        names = saved.subscription(member.metadata)
        sizes = sizes_of.get(names)
        if sizes is None:
            existing = [topic for name_ in names if (topic := topics.named(name_)) is not None]
            subscribed.update((topic.name, topic) for topic in existing)
            sizes = sizes_of[names] = {
                saved.units.number_or_none(topic.id): topic.partitions for topic in existing
            }
        if member.target is None:
            continue
        # A removal writes the tombstone of the target too, so a stranger in it is a record that was
        # forgotten.
        if member.metadata is NO_METADATA:
            yield f"the target names {name}, which is no member."
        for unit in member.target.tolist():
            if unit & PARTITION >= sizes.get(unit >> SHIFT, 0):
                yield (
                    f"the target gives {_partition_name(group, topics, unit)} to {name}, "
                    "which does not subscribe to it."
                )
            elif unit in owner:
                yield (
                    f"the target gives {_partition_name(group, topics, unit)} to "
                    f"{owner[unit]} and to {name}."
                )
            else:
                owner[unit] = name
    if len(owner) == sum(topic.partitions for topic in subscribed.values()):
        return
    for topic in subscribed.values():
        for partition in range(topic.partitions):
            if saved.units.unit(topic.id, partition) not in owner:
                yield f"the target gives {topic.name}-{partition} to nobody."


def valid_member_epoch(group: ConsumerGroup, topics: Topics) -> Iterator[str]:
    """Yield members at the assignment epoch that are assigned more than their target.

    A STABLE member at that epoch must have all of its target, if the target is of the group epoch.
    """
    saved = group.saved
    # Members at an older epoch may still have partitions that the target takes from them: they
    # release them first (KIP-848).
    members = [
        member for member in saved.members.values() if member.epoch == saved.assignment_epoch
    ]
    if not members:
        return
    owner = _target_owners(group)
    for member in members:
        name, units = member.member_id, member.assigned.units.tolist()
        for unit in units:
            if owner.get(unit) != name:
                yield (
                    f"{name} is at the target's epoch {member.epoch} and uses "
                    f"{_partition_name(group, topics, unit)}, "
                    f"which the target gives to {owner.get(unit, 'nobody')}."
                )
        size = 0 if member.target is None else len(member.target)
        # Less than the target is right while a partition is another member's still (UNRELEASED),
        # and for a member that gave up what it unsubscribed from while the target lags (KIP-1263).
        is_newest = saved.assignment_epoch == saved.epoch
        if is_newest and member.state is MemberState.STABLE and len(units) < size:
            yield (
                f"{name} is STABLE at the target's epoch {member.epoch} with {len(units)} of "
                f"{size} partitions."
            )


def stable_is_settled(group: ConsumerGroup, _topics: Topics) -> Iterator[str]:
    """Yield members of a Stable group that are not at their target.

    Each must be STABLE, at the group epoch, and assigned exactly its target.
    """
    # The state Stable of ConsumerGroupDescribe is a promise to tools: no partition is on its way.
    if group.state is not GroupState.STABLE:
        return
    for name, member in group.saved.members.items():
        if member.state is not MemberState.STABLE:
            yield f"the group is Stable, but {name} is {member.state.name}."
        if member.epoch != group.saved.epoch:
            yield (
                f"the group is Stable at epoch {group.saved.epoch}, but {name} is at "
                f"{member.epoch}."
            )
        if len(member.pending_revocation.units):
            yield (
                f"the group is Stable, but {name} still has to give up "
                f"{len(member.pending_revocation.units)} partitions."
            )
        target = [] if member.target is None else member.target.tolist()
        if sorted(member.assigned.units.tolist()) != sorted(target):
            yield f"the group is Stable, but what {name} uses is not its target."


def holders_agree(group: ConsumerGroup, topics: Topics) -> Iterator[str]:
    """Yield partitions whose entry in a consumer group's owner table contradicts assignments."""
    saved = group.saved
    table = saved.owners.owned(saved.units)
    # The table decides whom a partition is granted to; it must come out the same after a replay, in
    # whatever order records are read (KAFKA-19862).
    recounted = {
        saved.units.id_partition(unit): name
        for name, member in saved.members.items()
        for unit in member.units()
    }
    if table == recounted:
        return
    for partition in dict.fromkeys([*table, *recounted]):
        in_table, in_members = table.get(partition), recounted.get(partition)
        if in_table != in_members:
            topic_partition = _partition_name(group, topics, saved.units.unit(*partition))
            yield (
                f"{topic_partition} is held by {in_members or 'nobody'}, but the table of "
                f"holders says {in_table or 'nobody'}."
            )


def counts_agree(group: ConsumerGroup, _topics: Topics) -> Iterator[str]:
    """Yield a group's counters that differ from a recount, and members without metadata."""
    saved = group.saved
    subscribers: Counter[str] = Counter()
    expressions: Counter[str] = Counter()
    votes: Counter[str] = Counter()
    offers: Counter[ClientOffer] = Counter()
    protocols: Counter[str] = Counter()
    classic_members = client_bytes = 0
    stable_by_epoch: Counter[int] = Counter()
    instances: dict[str, str] = {}
    for name, member in saved.members.items():
        metadata = member.metadata
        # A heartbeat writes the member's metadata before anything else of it.
        if metadata is NO_METADATA:
            yield f"{name} is a member and never said anything."
        if metadata.instance_id is not None:
            instances[metadata.instance_id] = name
        # The counters stand for loops over all members in each heartbeat; one that drifts elects
        # the wrong assignor or counts a group as settled.
        if metadata.server_assignor is not None:
            votes[metadata.server_assignor] += 1
        if metadata.client_assignors:
            offers[offer_of(metadata.client_assignors)] += 1
            client_bytes += metadata_bytes(metadata.client_assignors)
        if metadata.classic_member_metadata is not None:
            classic_members += 1
            protocols.update(
                tuple(
                    dict.fromkeys(
                        each.name for each in metadata.classic_member_metadata.supported_protocols
                    )
                )
            )
        if member.state is MemberState.STABLE:
            stable_by_epoch[member.epoch] += 1
        subscribers.update(metadata.subscribed_topic_names)
        if metadata.subscribed_topic_regex:
            expressions[metadata.subscribed_topic_regex] += 1
    for expression, matched in saved.resolutions.items():
        subscribers.update(matched)
        if expression not in expressions:
            yield f"{expression} is resolved, and no member subscribes to it."
    for what, counter, recount in (
        ("subscribers", saved.subscriber_counts, dict(subscribers)),
        ("expressions", saved.expression_counts, dict(expressions)),
        ("votes", saved.assignor_votes, dict(votes)),
        ("offers", saved.client_offers, dict(offers)),
        ("bytes of metadata", saved.client_metadata_bytes, client_bytes),
        ("waiting bytes", group.live.waiting_metadata_bytes, _waiting_bytes(group)),
        ("agreement", saved.client_assignor, agreed_or_none(offers, len(saved.members))),
        ("speakers", saved.protocol_counts, dict(protocols)),
        ("classic members", saved.classic_member_count, classic_members),
        ("settled members", saved.stable_members_by_epoch, dict(stable_by_epoch)),
        ("instances", saved.instances, instances),
    ):
        if counter != recount:
            yield f"the count of {what} is {counter}, and a recount gives {recount}."


def _waiting_bytes(group: ConsumerGroup) -> int:
    """Return by how much the metadata that waits to be saved is larger than what it replaces."""
    members = group.saved.members
    return sum(
        max(
            0,
            metadata_bytes(offering.early)
            - metadata_bytes(members[name].metadata.client_assignors),
        )
        for name, offering in group.live.offering_members.items()
        if offering.early is not None
    )


GROUP_LAWS: dict[str, ConsumerGroupLaw] = {
    "one-holder": one_holder,
    "bounded-epochs": bounded_epochs,
    "legal-target": legal_target,
    "valid-member-epoch": valid_member_epoch,
    "stable-is-settled": stable_is_settled,
    "holders-agree": holders_agree,
    "counts-agree": counts_agree,
}
"""The laws of one group at one moment, by name."""


def _partition_name(group: ConsumerGroup, topics: Topics, unit: int) -> str:
    """Return `topic-partition`, with the topic's id where the topic was deleted."""
    topic_id, partition = group.saved.units.id_partition(unit)
    topic = topics.with_id(topic_id)
    return f"{topic_id.hex() if topic is None else topic.name}-{partition}"


def _target_owners(group: ConsumerGroup) -> dict[int, str]:
    """Return the owner of each unit (a numbered partition) by the members' targets."""
    return {
        unit: name
        for name, member in group.saved.members.items()
        if member.target is not None
        for unit in member.target.tolist()
    }
