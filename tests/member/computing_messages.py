"""Requests, responses and members of the scripts about client-side assignors of KIP-848."""

from collections.abc import Mapping
from typing import Any

from apportion.assign.by_name import Given, Subscription, TopicShape
from apportion.errors import Code
from apportion.machine import Tick
from apportion.member.assignors.interface import Assignor, FollowUp, MemberFailure
from apportion.member.assignors.runs import AssignorRun
from apportion.member.cluster_queries.topics import TopicDescription
from apportion.member.consumer.machine import ConsumerMember
from apportion.member.membership import (
    Adopted,
    Answered,
    CoordinatorFound,
    MemberAssignment,
    MetadataFetched,
    RunAssignor,
    SendToCoordinator,
    Subscribe,
    to_id_parts,
)
from apportion.topics import IdPartition
from apportion.wire.messages.consumer_group_heartbeat import (
    Assignment,
    ClientAssignor,
    ConsumerGroupHeartbeatResponse,
)
from apportion.wire.messages.consumer_group_install_assignment import (
    ConsumerGroupInstallAssignmentRequest,
    ConsumerGroupInstallAssignmentResponse,
    InstalledMember,
    InstalledPartitions,
)
from apportion.wire.messages.consumer_group_prepare_assignment import (
    AssignableMember,
    AssignablePartition,
    AssignableTopic,
    AssignorMetadata,
    ConsumerGroupPrepareAssignmentRequest,
    ConsumerGroupPrepareAssignmentResponse,
    TargetPartitions,
)
from tests.member.consumer_messages import P0, T, accepted, at, new_member

COMPUTATION_REQUESTS = (
    ConsumerGroupPrepareAssignmentRequest,
    ConsumerGroupInstallAssignmentRequest,
)


class CountingAssignor(Assignor):
    """Answers what it is told to; its user data count how often they were asked for.

    given: its answer; an exception is raised instead. reply: of `on_assignment`, likewise.
    """

    name = "counting"

    def __init__(
        self, given: Any = None, reply: FollowUp | MemberFailure | Exception | None = None
    ) -> None:
        self.given: Any = {} if given is None else given
        self.reply = reply
        self.encoded = 0
        self.told: list[tuple[Given, int]] = []

    def user_data(self, topics: tuple[str, ...]) -> bytes | None:
        self.encoded += 1
        return f"{','.join(topics)} {self.encoded}".encode()

    def assign(self, cluster: Mapping[str, TopicShape], members: Mapping[str, Subscription]) -> Any:
        if isinstance(self.given, Exception):
            raise self.given
        return self.given

    def on_assignment(self, given: Given, generation: int) -> FollowUp | MemberFailure | None:
        self.told.append((given, generation))
        if isinstance(self.reply, Exception):
            raise self.reply
        return self.reply


class AgingAssignor(CountingAssignor):
    """An assignor whose user data have versions 2 to 5."""

    name = "aging"
    minimum_version = 2
    maximum_version = 5

    def versioned_user_data(self, topics: tuple[str, ...], version: int) -> bytes | None:
        return f"in {version}".encode()


def offer(
    metadata: bytes, *, name: str = "counting", reason: int = 0, versions: tuple[int, ...] = (0, 0)
) -> tuple[ClientAssignor, ...]:
    """What a heartbeat offers of one assignor; versions: minimum, maximum, and of the metadata."""
    return (
        ClientAssignor(
            name=name,
            minimum_version=versions[0],
            maximum_version=versions[1],
            reason=reason,
            version=versions[-1],
            metadata=metadata,
        ),
    )


def prepare(epoch: int) -> ConsumerGroupPrepareAssignmentRequest:
    return ConsumerGroupPrepareAssignmentRequest(group_id="g", member_id="m", member_epoch=epoch)


CHECK = prepare(0)
"""The request that shows whether the broker has client-side assignors."""


def refused_computation(code: Code, why: str | None = None) -> Any:
    return ConsumerGroupPrepareAssignmentResponse(error_code=code, error_message=why)


def refused_install(code: Code, why: str | None = None) -> ConsumerGroupInstallAssignmentResponse:
    return ConsumerGroupInstallAssignmentResponse(error_code=code, error_message=why)


def heard(
    epoch: int, assignment: Assignment | None = None, **fields: Any
) -> ConsumerGroupHeartbeatResponse:
    """The response to a heartbeat, with a field of client-side assignors."""
    return ConsumerGroupHeartbeatResponse(
        member_id="m",
        member_epoch=epoch,
        heartbeat_interval_ms=1_000,
        assignment=assignment,
        **fields,
    )


def chosen(epoch: int, *assigned: IdPartition) -> ConsumerGroupHeartbeatResponse:
    """The response that has its member compute the target. assigned: nothing if unchanged."""
    assignment = Assignment(topic_partitions=to_id_parts(assigned)) if assigned else None
    return heard(epoch, assignment, should_compute_assignment=True)


def group_member(member_id: str, *owned: int, epoch: int = 1, **fields: Any) -> AssignableMember:
    return AssignableMember(
        member_id=member_id,
        member_epoch=epoch,
        subscribed_topic_ids=(T,),
        assignor=AssignorMetadata(),
        topic_partitions=(TargetPartitions(topic_id=T, partitions=owned),) if owned else (),
        **fields,
    )


def prepared(
    *members: AssignableMember, epoch: int = 1, partitions: int = 3, name: str = "counting"
) -> ConsumerGroupPrepareAssignmentResponse:
    return ConsumerGroupPrepareAssignmentResponse(
        group_epoch=epoch,
        assignor_name=name,
        members=members,
        topics=(
            AssignableTopic(
                topic_id=T,
                topic_name="t",
                partitions=tuple(
                    AssignablePartition(partition=number) for number in range(partitions)
                ),
            ),
        ),
    )


def runs(
    request_id: int, assignor: Assignor, members: Mapping[str, Subscription], partitions: int = 3
) -> RunAssignor:
    return RunAssignor(request_id, AssignorRun(assignor, {"t": TopicShape(partitions)}, members))


def installs(
    epoch: int, group_epoch: int, *targets: tuple[str, tuple[int, ...]], error: int = 0
) -> ConsumerGroupInstallAssignmentRequest:
    return ConsumerGroupInstallAssignmentRequest(
        group_id="g",
        member_id="m",
        member_epoch=epoch,
        group_epoch=group_epoch,
        error=error,
        members=tuple(
            InstalledMember(
                member_id=member_id,
                topic_partitions=(InstalledPartitions(topic_id=T, partitions=numbers),)
                if numbers
                else (),
            )
            for member_id, numbers in targets
        ),
    )


def offering(*assignors: Assignor, **settings: Any) -> ConsumerMember:
    """A member that is about to join: its broker has client-side assignors (requests 1 and 2)."""
    member = new_member(assignors=assignors, **settings)
    member.step(Subscribe(("t",)), at(0))
    member.step(CoordinatorFound(1), at(0))
    member.step(Answered(2, refused_computation(Code.GROUP_ID_NOT_FOUND)), at(0))
    return member


def stable(assignor: Assignor, *owned: IdPartition, **settings: Any) -> ConsumerMember:
    """A STABLE member at epoch 1 that has adopted `owned` (requests 1 to 5) and nothing in flight.

    Its assignor was told of the assignment: the first look-up has named the topic.
    """
    member = offering(assignor, **settings)
    member.step(Answered(3, accepted(1, *owned)), at(0))
    learn_names(member, 4)
    member.step(Adopted(1, assignment(*owned)), at(0))
    member.step(Answered(5, accepted(1, unchanged=True)), at(0))
    return member


def assignment(*owned: IdPartition) -> MemberAssignment:
    return tuple(sorted(owned))


def learn_names(member: ConsumerMember, request_id: int) -> list[Any]:
    """Answer a member's look-up of its topics' names."""
    return member.step(MetadataFetched(request_id, (TopicDescription("t", T, 3),)), at(0))


def computes(assignor: Assignor, *members: AssignableMember) -> Any:
    """A STABLE member that has been chosen and has prepared; and the action that runs its assignor
    (request 8).
    """
    member = stable(assignor, P0)
    member.step(Tick(), at(1_000))
    assert member.step(Answered(6, chosen(1)), at(1_000)) == [
        SendToCoordinator(7, prepare(1), 30_000)
    ]
    group = members or (group_member("m", 0),)
    (run,) = member.step(Answered(7, prepared(*group, epoch=2, name=assignor.name)), at(1_001))
    return member, run
