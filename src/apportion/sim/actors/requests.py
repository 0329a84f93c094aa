"""The requests of a simulated application, as parts of its script: send, read the error code,
retry.

`member.reactions` says which code is retried. `client.cluster.Cluster` does the same over sockets.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple, Protocol

from apportion.errors import Code, Refused
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
) = 10, 10, 12, 9, 1, 6  # the versions that are spoken
DEAD = "Dead"
RETRY_MS = 100
TIMEOUT_MS = 5_000
EPOCH_WAIT_MS = 1_000  # how long to wait for the member's next epoch before committing again


class AwaitMember(NamedTuple):
    """Effect: wait until the condition holds of the member, or the timeout passes; its result says
    which.
    """

    timeout_ms: int
    condition: Callable[[Any], bool]


class Clocked(Protocol):
    """Anything with a monotonic clock."""

    def mono_ms(self) -> int:
        """Return the clock's milliseconds."""
        ...


class NoAnswer(Exception):
    """No answer came in time."""


def send_until_accepted(
    process: Clocked,
    api: str,
    ask: SendRequest,
    read: Callable[[Any], tuple[Code, Any]],
    until_ms: int,
) -> Script:
    """What `read` makes of the answer, once its code is NONE; asked again as the table of reactions
    says.

    Raises Refused, or NoAnswer at `until_ms` of the process's clock.
    """
    while True:
        answer = yield ask
        failure: Exception
        if answer is None:
            failure = NoAnswer(api)
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
    application: PartitionOwner, incarnation: int, ask: Callable[[Membership, int], Script]
) -> Script:
    """Send a request with the member's id and epoch; send it again if the epoch changes meanwhile.

    incarnation: of the member that may send it. 0 sends it without a member, as tools do.
    """
    until_ms = application.mono_ms() + TIMEOUT_MS
    if incarnation == 0:
        return (yield from ask(NO_MEMBER, until_ms))
    while True:
        view = application.member.view()
        if view.epoch <= 0 or view.incarnation != incarnation:
            raise Refused(
                Code.UNKNOWN_MEMBER_ID, f"{application.name} has no place in the group now"
            )
        try:
            return (
                yield from ask(
                    Membership(view.member_id, view.epoch, application.instance_id), until_ms
                )
            )
        except Refused as refused:
            if (
                reaction("OffsetCommit", refused.code) is not Reaction.RETRY_WITH_NEW_EPOCH
                or application.mono_ms() >= until_ms
            ):
                raise
        yield AwaitMember(EPOCH_WAIT_MS, _has_another_epoch(view.epoch))


def _has_another_epoch(epoch: int) -> Callable[[Any], bool]:
    return lambda member: member.view().epoch != epoch


def commit(
    application: PartitionOwner,
    offsets: Mapping[TopicIdPartition, int],
    incarnation: int,
    metadata: str = "",
) -> Script:
    """Commit these offsets."""

    def send(membership: Membership, until_ms: int) -> Script:
        request = SendRequest(
            commit_request(application.group, offsets, membership, metadata), OFFSET_COMMIT_VERSION
        )
        return send_until_accepted(
            application,
            "OffsetCommit",
            request,
            lambda answer: (first_error(commit_errors(answer, offsets).values()), None),
            until_ms,
        )

    if offsets:
        yield from as_member(application, incarnation, send)


def committed_offsets(
    application: PartitionOwner, partitions: Iterable[TopicIdPartition], incarnation: int
) -> Script:
    """Fetch the group's committed offset of each partition; None where there is none."""
    found = yield from committed_with_metadata(application, partitions, incarnation)
    return {partition: one.offset for partition, one in found.items()}


def committed_with_metadata(
    application: PartitionOwner, partitions: Iterable[TopicIdPartition], incarnation: int
) -> Script:
    """Fetch the committed offset of each partition with its metadata."""
    wanted = tuple(partitions)

    def read(answer: Any) -> tuple[Code, Any]:
        code, found = parse_fetch_response(answer, wanted)
        return first_error([code, *found.codes.values()]), found.committed

    def send(membership: Membership, until_ms: int) -> Script:
        return send_until_accepted(
            application,
            "OffsetFetch",
            SendRequest(fetch_request(application.group, wanted, membership), OFFSET_FETCH_VERSION),
            read,
            until_ms,
        )

    return (yield from as_member(application, incarnation, send)) if wanted else {}


def first_error(codes: Iterable[Code]) -> Code:
    """Return the first code that is not NONE, or NONE."""
    return next((code for code in codes if code is not Code.NONE), Code.NONE)


def list_offsets(process: Clocked, partitions: Iterable[TopicIdPartition], when: int) -> Script:
    """Fetch where the logs of these partitions begin (EARLIEST) or end (LATEST)."""
    wanted: dict[str, list[TopicIdPartition]] = {}
    for partition in partitions:
        wanted.setdefault(partition.topic, []).append(partition)
    if not wanted:
        return {}
    topics = tuple(
        ListOffsetsTopic(
            name=name,
            partitions=tuple(
                ListOffsetsPartition(partition_index=each.partition, timestamp=when)
                for each in some
            ),
        )
        for name, some in wanted.items()
    )

    def read(answer: Any) -> tuple[Code, dict[TopicIdPartition, int]]:
        found, codes = {}, []
        for topic in answer.topics:
            for partition, result in zip(wanted[topic.name], topic.partitions, strict=True):
                found[partition] = result.offset
                codes.append(Code.of(result.error_code))
        return first_error(codes), found

    request = SendRequest(
        ListOffsetsRequest(replica_id=-1, isolation_level=1, topics=topics), LIST_OFFSETS_VERSION
    )
    return (
        yield from send_until_accepted(
            process, "ListOffsets", request, read, process.mono_ms() + TIMEOUT_MS
        )
    )


def fetch_topics(process: Clocked, wanted: Iterable[str | TopicId]) -> Script:
    """Fetch those of these topics, by name or id, that exist."""
    asked = tuple(
        MetadataRequestTopic(name=each)
        if isinstance(each, str)
        else MetadataRequestTopic(topic_id=each, name=None)
        for each in wanted
    )

    def read(answer: Any) -> tuple[Code, Topics]:
        return Code.NONE, Topics(
            Topic(topic.name, bytes(topic.topic_id), len(topic.partitions))
            for topic in answer.topics
            if not topic.error_code
        )

    request = SendRequest(
        MetadataRequest(topics=asked, allow_auto_topic_creation=False), METADATA_VERSION
    )
    return (
        (
            yield from send_until_accepted(
                process, "Metadata", request, read, process.mono_ms() + TIMEOUT_MS
            )
        )
        if asked
        else Topics()
    )


def describe_classic_group(application: PartitionOwner) -> Script:
    """Describe the classic group; its state is DEAD where it does not exist or is of another
    type.
    """
    request = SendRequest(
        DescribeGroupsRequest(groups=(application.group,)), DESCRIBE_GROUPS_VERSION
    )

    def read(answer: Any) -> tuple[Code, Any]:
        group, code = answer.groups[0], Code.of(answer.groups[0].error_code)
        return Code.NONE if code is Code.GROUP_ID_NOT_FOUND else code, group

    return (
        yield from send_until_accepted(
            application, "DescribeGroups", request, read, application.mono_ms() + TIMEOUT_MS
        )
    )


def describe_consumer_group(application: PartitionOwner) -> Script:
    """Describe the consumer group."""
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
            lambda answer: (Code.of(answer.groups[0].error_code), answer.groups[0]),
            until_ms,
        )
    )
