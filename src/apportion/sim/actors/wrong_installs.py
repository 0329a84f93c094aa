"""Wrong requests ConsumerGroupInstallAssignment, as a faulty client could send them."""

from collections.abc import Callable
from random import Random

from apportion.wire.fields import replaced
from apportion.wire.messages.consumer_group_install_assignment import (
    ConsumerGroupInstallAssignmentRequest,
    InstalledMember,
    InstalledPartitions,
)
from apportion.wire.messages.consumer_group_prepare_assignment import (
    ConsumerGroupPrepareAssignmentResponse,
)

Install = ConsumerGroupInstallAssignmentRequest
Prepared = ConsumerGroupPrepareAssignmentResponse
Way = Callable[[Random, Install, Prepared], Install]
NO_TOPIC = b"no such topic..."


def wrong_install(rng: Random, request: Install, prepared: Prepared) -> Install:
    """Return a request that is wrong in one way; `request` itself where this way is impossible."""
    return rng.choice(WAYS)(rng, request, prepared)


def _older_epoch(rng: Random, request: Install, _prepared: Prepared) -> Install:
    return replaced(request, group_epoch=request.group_epoch - rng.randint(1, 3))


def _newer_epoch(rng: Random, request: Install, _prepared: Prepared) -> Install:
    return replaced(request, group_epoch=request.group_epoch + rng.randint(1, 3))


def _unknown_member(_rng: Random, request: Install, _prepared: Prepared) -> Install:
    return replaced(request, members=(*request.members, InstalledMember(member_id="nobody")))


def _member_twice(_rng: Random, request: Install, _prepared: Prepared) -> Install:
    return replaced(request, members=(*request.members, *request.members[:1]))


def _partition_twice(_rng: Random, request: Install, _prepared: Prepared) -> Install:
    """Give the first member's partitions to the last one, too, which may be the first."""
    if not request.members:
        return request
    return _with_more(request, request.members[0].topic_partitions)


def _unknown_partition(rng: Random, request: Install, prepared: Prepared) -> Install:
    if not prepared.topics:
        return request
    topic = rng.choice(prepared.topics)
    number = rng.choice((-1, len(topic.partitions)))
    return _with_more(
        request, (InstalledPartitions(topic_id=topic.topic_id, partitions=(number,)),)
    )


def _unknown_topic(_rng: Random, request: Install, _prepared: Prepared) -> Install:
    return _with_more(request, (InstalledPartitions(topic_id=NO_TOPIC, partitions=(0,)),))


def _to_no_subscriber(_rng: Random, request: Install, prepared: Prepared) -> Install:
    """Give a member all partitions of a topic to which it does not subscribe, and nobody else."""
    subscribed = {each.member_id: each.subscribed_topic_ids for each in prepared.members}
    for topic in prepared.topics:
        for member_id, topic_ids in subscribed.items():
            if topic.topic_id not in topic_ids:
                return replaced(
                    request,
                    members=tuple(
                        _only_taker(member, member_id, topic.topic_id, len(topic.partitions))
                        for member in request.members
                    ),
                )
    return request


def _only_taker(
    member: InstalledMember, taker: str, topic_id: bytes, partitions: int
) -> InstalledMember:
    """Return the member with all partitions of a topic if it is the taker, else with none."""
    parts = tuple(each for each in member.topic_partitions if each.topic_id != topic_id)
    if member.member_id == taker:
        numbers = tuple(range(partitions))
        parts = (*parts, InstalledPartitions(topic_id=topic_id, partitions=numbers))
    return replaced(member, topic_partitions=parts)


def _in_anothers_name(rng: Random, request: Install, prepared: Prepared) -> Install:
    """Say that another member of the group installs it, which was not chosen."""
    others = [each for each in prepared.members if each.member_id != request.member_id]
    if not others:
        return request
    other = rng.choice(others)
    return replaced(request, member_id=other.member_id, member_epoch=other.member_epoch)


def _with_more(request: Install, parts: tuple[InstalledPartitions, ...]) -> Install:
    """Return the request with these partitions for its last member, beside what it has."""
    if not request.members:
        return request
    *others, last = request.members
    last = replaced(last, topic_partitions=(*last.topic_partitions, *parts))
    return replaced(request, members=(*others, last))


WAYS: tuple[Way, ...] = (
    _older_epoch,
    _newer_epoch,
    _unknown_member,
    _member_twice,
    _partition_twice,
    _unknown_partition,
    _unknown_topic,
    _to_no_subscriber,
    _in_anothers_name,
)
"""The ways in which a request can be wrong; all functions have one signature."""
