"""The check of a target assignment that a member has computed and installed (KIP-848).

It looks at every partition. A large answer would keep the shard from all other requests meanwhile,
so it is checked beside the shard, by the computation `CheckInstalled`; a small one in the step.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

from apportion.assign import checks
from apportion.assign.by_name import Given, TopicParts, by_topic
from apportion.coord.consumer.client_assignors import PreparedGroup
from apportion.coord.records import TargetAnswer
from apportion.errors import Refused
from apportion.machine import Arrived
from apportion.wire.fields import replaced
from apportion.wire.messages.consumer_group_install_assignment import (
    ConsumerGroupInstallAssignmentRequest,
    InstalledMember,
)

# Members and partitions together that are checked in the step: that takes about 5 ms.
MOST_IN_STEP = 10_000


class InstalledTarget(NamedTuple):
    """The target of one member as a client-side assignor has computed it."""

    given: Given
    answer: TargetAnswer


class WrongInstall(NamedTuple):
    """An answer that is no assignment. why: a sentence about the assignor."""

    why: str


NO_TARGET = InstalledTarget(Given(), TargetAnswer())
InstalledTargets = Mapping[str, InstalledTarget]


@dataclass(slots=True, frozen=True, eq=False)
class CheckInstalled:
    """The computation that checks what the chosen member has installed.

    arrived: its request, which is answered when the check has ended. prepared: the group as the
    member was told of it.
    """

    is_foreign: ClassVar[bool] = False

    group_id: str
    arrived: Arrived
    prepared: PreparedGroup

    def run(self) -> InstalledTargets | WrongInstall:
        """Return the targets of all members that were told, or what is wrong."""
        return checked_targets(self.prepared, self.arrived.request)


def is_large(request: ConsumerGroupInstallAssignmentRequest) -> bool:
    """Return whether the check of an installed assignment takes too long for a step."""
    size = len(request.members)
    for member in request.members:
        for part in member.topic_partitions:
            # A topic without partitions has to be looked at as well.
            size += 1 + len(part.partitions)
        if size > MOST_IN_STEP:
            return True
    return size > MOST_IN_STEP


def kept(arrived: Arrived) -> Arrived:
    """Return a request to install a target with metadata of its own: its buffer is used again."""
    request: ConsumerGroupInstallAssignmentRequest = arrived.request
    members = tuple(
        replaced(member, metadata=bytes(member.metadata)) if member.metadata else member
        for member in request.members
    )
    return arrived._replace(request=replaced(request, members=members))


def checked_targets(
    prepared: PreparedGroup, request: ConsumerGroupInstallAssignmentRequest
) -> InstalledTargets | WrongInstall:
    """Return the installed target of every member that was told, or what is no assignment."""
    try:
        return _targets(prepared, request)
    except Refused as refusal:
        return WrongInstall(refusal.why)


def _targets(
    prepared: PreparedGroup, request: ConsumerGroupInstallAssignmentRequest
) -> InstalledTargets:
    """Return the installed target of every member that was told.

    Errors: INVALID_REQUEST.
    """
    answer: dict[str, Given] = {}
    for member in request.members:
        if member.member_id in answer:
            raise checks.invalid_assignment(f"answers for {member.member_id!r} twice")
        answer[member.member_id] = Given(
            tuple(
                TopicParts(_topic_name(prepared, part.topic_id, member), part.partitions)
                for part in member.topic_partitions
            )
        )
    checks.check_metadata_sizes([len(member.metadata) for member in request.members])
    # Through the module: the simulator replaces the guard by a faulty one (docs/guards.md).
    checks.check_given(prepared.shapes(), prepared.members, answer)
    # An error is of the whole assignment, so every member is told.
    nothing = NO_TARGET._replace(answer=TargetAnswer(error=request.error))
    targets = dict.fromkeys(prepared.members, nothing)
    for member in request.members:
        targets[member.member_id] = InstalledTarget(
            Given(by_topic(_pairs_of(answer[member.member_id]))),
            TargetAnswer(request.error, member.metadata_version, bytes(member.metadata)),
        )
    return targets


def _topic_name(prepared: PreparedGroup, topic_id: bytes, member: InstalledMember) -> str:
    """Return the name of a topic in an installed assignment.

    Errors: INVALID_REQUEST for a topic of which the chosen member was not told.
    """
    topic = prepared.topics.get(topic_id)
    if topic is None:
        raise checks.invalid_assignment(
            f"gives partitions of topic {topic_id.hex()} to {member.member_id!r}, but the group "
            "has no such topic"
        )
    return topic.name


def _pairs_of(given: Given) -> list[tuple[str, int]]:
    """Return the partitions of an assignment one by one."""
    return [(topic, number) for topic, numbers in given.partitions for number in numbers]
