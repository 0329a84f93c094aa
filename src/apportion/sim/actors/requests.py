"""The requests of a simulated application, as parts of its script, with their retries.

`member.reactions` says which error codes are retried. `client.cluster.Cluster` does the same over
sockets.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple, Protocol

from apportion.errors import Code, Refused, Unanswerable
from apportion.member.batch.offsets import (
    NO_MEMBER,
    Membership,
    commit_errors,
    commit_request,
    fetch_request,
    parse_fetch_response,
)
from apportion.member.reactions import Reaction, reaction
from apportion.sim.kernel.client import SendRequest, Sleep
from apportion.sim.kernel.clock import Script
from apportion.sim.kernel.observer import PartitionOwner
from apportion.topics import Topic, TopicId, TopicIdPartition, Topics
from apportion.wire.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from apportion.wire.messages.describe_groups import DescribeGroupsRequest
from apportion.wire.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from apportion.wire.messages.metadata import MetadataRequest, MetadataRequestTopic

(
    OFFSET_COMMIT_VERSION,
    OFFSET_FETCH_VERSION,
    METADATA_VERSION,
    LIST_OFFSETS_VERSION,
    CONSUMER_GROUP_DESCRIBE_VERSION,
    DESCRIBE_GROUPS_VERSION,
) = 10, 10, 12, 9, 1, 6  # the request versions that applications use
DEAD = "Dead"
RETRY_MS = 100
TIMEOUT_MS = 5_000
EPOCH_WAIT_MS = 1_000  # how long to wait for the member's next epoch before committing again


class AwaitMember(NamedTuple):
    """Effect: wait until the condition holds of the member, with False at the timeout."""

    timeout_ms: int
    condition: Callable[[Any], bool]


class Clocked(Protocol):
    """Anything with a monotonic clock."""

    def mono_ms(self) -> int:
        """Return the clock's milliseconds."""
        ...


def send_until_accepted(
    process: Clocked,
    api: str,
    request: SendRequest,
    *,
    read: Callable[[Any], tuple[Code, Any]],
    until_ms: int,
) -> Script:
    """Send a process's request until it is accepted; return the answer's value.

    Accepted is an answer with the error code NONE.
    read: returns the error code of an answer, and its value. `member.reactions` says which codes
    are retried. Raises Refused for any other code, or Unanswerable at `until_ms` of the process's
    clock.
    """
    while True:
        answer = yield request
        failure: Exception
        # Lost on the way there or back: every request of these scripts may be sent twice without
        # harm.
        if answer is None:
            failure = Unanswerable(api)
        else:
            code, value = read(answer)
            if code is Code.NONE:
                return value
            failure = Refused(code, api)
            if reaction(api, code) not in (
                Reaction.RETRY,
                Reaction.FIND_COORDINATOR,
                Reaction.REFRESH_METADATA,
            ):
                raise failure
        if process.mono_ms() >= until_ms:
            raise failure
        yield Sleep(RETRY_MS)


def as_member(
    application: PartitionOwner, incarnation: int, send: Callable[[Membership, int], Script]
) -> Script:
    """Send a member's request with its id and epoch; again if the epoch changes.

    incarnation: of the member that may send it. 0 sends it without a member, as tools do.
    """
    until_ms = application.mono_ms() + TIMEOUT_MS
    if incarnation == 0:
        return (yield from send(NO_MEMBER, until_ms))
    while True:
        view = application.member.view()
        # As in `GroupMembership`: what was owned in an earlier incarnation must not be committed in
        # a later one.
        if view.epoch <= 0 or view.incarnation != incarnation:
            raise Refused(
                Code.UNKNOWN_MEMBER_ID, f"{application.name} has no place in the group now"
            )
        try:
            return (
                yield from send(
                    Membership(view.member_id, view.epoch, application.instance_id), until_ms
                )
            )
        except Refused as refused:
            if (
                reaction("OffsetCommit", refused.code) is not Reaction.RETRY_WITH_NEW_EPOCH
                or application.mono_ms() >= until_ms
            ):
                raise
        # KIP-848: a stale epoch is no loss; the next heartbeat's answer has the new one.
        yield AwaitMember(EPOCH_WAIT_MS, _has_another_epoch(view.epoch))


def _has_another_epoch(epoch: int) -> Callable[[Any], bool]:
    return lambda member: member.view().epoch != epoch


def commit(
    application: PartitionOwner,
    offsets: Mapping[TopicIdPartition, int],
    incarnation: int,
    metadata: str = "",
) -> Script:
    """Commit offsets with OffsetCommit, for a simulated application."""

    def send(membership: Membership, until_ms: int) -> Script:
        """Send OffsetCommit with this member's id and epoch."""
        request = SendRequest(
            commit_request(application.group, offsets, membership, metadata), OFFSET_COMMIT_VERSION
        )
        return send_until_accepted(
            application,
            "OffsetCommit",
            request,
            read=lambda answer: (first_error(commit_errors(answer, offsets).values()), None),
            until_ms=until_ms,
        )

    if offsets:
        yield from as_member(application, incarnation, send)


def committed_offsets(
    application: PartitionOwner, partitions: Iterable[TopicIdPartition], incarnation: int
) -> Script:
    """Fetch the group's committed offset of each partition; None where there is none."""
    committed = yield from committed_with_metadata(application, partitions, incarnation)
    return {partition: offset.offset for partition, offset in committed.items()}


def committed_with_metadata(
    application: PartitionOwner, partitions: Iterable[TopicIdPartition], incarnation: int
) -> Script:
    """Fetch the committed offsets with their metadata, for a simulated application."""
    requested = tuple(partitions)

    def read(answer: Any) -> tuple[Code, Any]:
        code, fetched = parse_fetch_response(answer, requested)
        return first_error([code, *fetched.codes.values()]), fetched.committed

    def send(membership: Membership, until_ms: int) -> Script:
        """Send OffsetFetch with this member's id and epoch."""
        return send_until_accepted(
            application,
            "OffsetFetch",
            SendRequest(
                fetch_request(application.group, requested, membership), OFFSET_FETCH_VERSION
            ),
            read=read,
            until_ms=until_ms,
        )

    return (yield from as_member(application, incarnation, send)) if requested else {}


def first_error(codes: Iterable[Code]) -> Code:
    """Return the first code that is not NONE, or NONE."""
    return next((code for code in codes if code is not Code.NONE), Code.NONE)


def list_offsets(process: Clocked, partitions: Iterable[TopicIdPartition], when: int) -> Script:
    """Fetch the start (EARLIEST) or end offsets (LATEST) of partitions, for a simulated process."""
    by_topic: dict[str, list[TopicIdPartition]] = {}
    for partition in partitions:
        by_topic.setdefault(partition.topic, []).append(partition)
    if not by_topic:
        return {}
    topics = tuple(
        ListOffsetsTopic(
            name=name,
            partitions=tuple(
                ListOffsetsPartition(partition_index=partition.partition, timestamp=when)
                for partition in of_topic
            ),
        )
        for name, of_topic in by_topic.items()
    )

    def read(answer: Any) -> tuple[Code, dict[TopicIdPartition, int]]:
        offsets, codes = {}, []
        for topic in answer.topics:
            for partition, result in zip(by_topic[topic.name], topic.partitions, strict=True):
                offsets[partition] = result.offset
                codes.append(Code.of(result.error_code))
        return first_error(codes), offsets

    request = SendRequest(
        ListOffsetsRequest(replica_id=-1, isolation_level=1, topics=topics), LIST_OFFSETS_VERSION
    )
    return (
        yield from send_until_accepted(
            process, "ListOffsets", request, read=read, until_ms=process.mono_ms() + TIMEOUT_MS
        )
    )


def fetch_topics(process: Clocked, names_or_ids: Iterable[str | TopicId]) -> Script:
    """Fetch the topics that exist of these names or ids, for a simulated process."""
    requested = tuple(
        MetadataRequestTopic(name=name_or_id)
        if isinstance(name_or_id, str)
        else MetadataRequestTopic(topic_id=name_or_id, name=None)
        for name_or_id in names_or_ids
    )

    def read(answer: Any) -> tuple[Code, Topics]:
        return Code.NONE, Topics(
            Topic(topic.name, bytes(topic.topic_id), len(topic.partitions))
            for topic in answer.topics
            if not topic.error_code
        )

    request = SendRequest(
        MetadataRequest(topics=requested, allow_auto_topic_creation=False), METADATA_VERSION
    )
    return (
        (
            yield from send_until_accepted(
                process, "Metadata", request, read=read, until_ms=process.mono_ms() + TIMEOUT_MS
            )
        )
        if requested
        else Topics()
    )


def describe_classic_group(application: PartitionOwner) -> Script:
    """Describe a simulated application's group with DescribeGroups.

    The state is DEAD where the group does not exist or is a consumer group.
    """
    request = SendRequest(
        DescribeGroupsRequest(groups=(application.group,)), DESCRIBE_GROUPS_VERSION
    )

    def read(answer: Any) -> tuple[Code, Any]:
        group, code = answer.groups[0], Code.of(answer.groups[0].error_code)
        return Code.NONE if code is Code.GROUP_ID_NOT_FOUND else code, group

    return (
        yield from send_until_accepted(
            application,
            "DescribeGroups",
            request,
            read=read,
            until_ms=application.mono_ms() + TIMEOUT_MS,
        )
    )


def describe_consumer_group(application: PartitionOwner) -> Script:
    """Describe a simulated application's group with ConsumerGroupDescribe."""
    request = SendRequest(
        ConsumerGroupDescribeRequest(group_ids=(application.group,)),
        CONSUMER_GROUP_DESCRIBE_VERSION,
    )
    until_ms = application.mono_ms() + TIMEOUT_MS
    return (
        yield from send_until_accepted(
            application,
            "ConsumerGroupDescribe",
            request,
            read=lambda answer: (Code.of(answer.groups[0].error_code), answer.groups[0]),
            until_ms=until_ms,
        )
    )
