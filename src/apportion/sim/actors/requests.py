"""What an application asks the broker, as parts of its story: requests, the codes in their answers, and how often to ask again.

Which code means what is `member.reactions`; this is the simulated sister of `client.Cluster`, which needs sockets.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from apportion.errors import Code, Refused
from apportion.member.batch.offsets import NO_MEMBER, Membership, commit_errors, commit_request, fetch_request, parse_fetch_response
from apportion.member.reactions import Reaction, reaction
from apportion.sim.kernel.clock import Process, Story
from apportion.topics import Topic, TopicId, TopicIdPartition, Topics
from apportion.wire.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from apportion.wire.messages.describe_groups import DescribeGroupsRequest
from apportion.wire.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from apportion.wire.messages.metadata import MetadataRequest, MetadataRequestTopic

if TYPE_CHECKING:
    from apportion.sim.actors.member import Application

COMMIT, FETCH, METADATA, OFFSETS, DESCRIBE, DESCRIBE_CLASSIC = 10, 10, 12, 9, 1, 6  # the versions that are spoken
GONE = "Dead"
AGAIN_MS = 100
PATIENCE_MS = 5_000
EPOCH_MS = 1_000  # so long a member waits for its next epoch before it commits again


class Request(NamedTuple):
    """Ask the broker. The answer, or None if none will come."""

    body: Any
    version: int


class Pause(NamedTuple):
    """Let so much time pass."""

    span_ms: int


class News(NamedTuple):
    """Wait until `ready` holds of the member, or so long."""

    span_ms: int
    ready: Callable[[Any], bool]


class NoAnswer(Exception):
    """Nobody answered in time."""


def insist(who: Process, api: str, ask: Request, read: Callable[[Any], tuple[Code, Any]], until_ms: int) -> Story:
    """What `read` makes of the answer, once its code is NONE; asked again as the table of reactions says.

    Raises Refused, or NoAnswer at `until_ms` of the application's clock.
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
            if reaction(api, code) not in (Reaction.RETRY, Reaction.SEEK, Reaction.REFRESH):
                raise failure
        if who.mono_ms() >= until_ms:
            raise failure
        yield Pause(AGAIN_MS)


def as_member(who: "Application", life: int, ask: Callable[[Membership, int], Story]) -> Story:
    """What `ask` comes to, said by the member in that life (0: by nobody); said again if its epoch moves on meanwhile."""
    until_ms = who.mono_ms() + PATIENCE_MS
    if life == 0:
        return (yield from ask(NO_MEMBER, until_ms))
    while True:
        view = who.member.view()
        if view.epoch <= 0 or view.incarnation != life:
            raise Refused(Code.UNKNOWN_MEMBER_ID, f"{who.name} has no place in the group now")
        try:
            return (yield from ask(Membership(view.member_id, view.epoch, who.instance_id), until_ms))
        except Refused as refused:
            if reaction("OffsetCommit", refused.code) is not Reaction.AGAIN or who.mono_ms() >= until_ms:
                raise
        yield News(EPOCH_MS, lambda member, epoch=view.epoch: member.view().epoch != epoch)  # type: ignore[misc]


def commit(who: "Application", offsets: Mapping[TopicIdPartition, int], life: int, metadata: str = "") -> Story:
    """The group has stored these offsets."""

    def said(membership: Membership, until_ms: int) -> Story:
        request = Request(commit_request(who.group, offsets, membership, metadata), COMMIT)
        return insist(who, "OffsetCommit", request, lambda answer: (worst(commit_errors(answer, offsets).values()), None), until_ms)

    if offsets:
        yield from as_member(who, life, said)


def committed(who: "Application", places: Iterable[TopicIdPartition], life: int) -> Story:
    """The group's offset of each place; None where it has none."""
    found = yield from stored(who, places, life)
    return {place: one.offset for place, one in found.items()}


def stored(who: "Application", places: Iterable[TopicIdPartition], life: int) -> Story:
    """What the group has stored of each place, with its metadata."""
    wanted = tuple(places)

    def read(answer: Any) -> tuple[Code, Any]:
        code, found = parse_fetch_response(answer, wanted)
        return worst([code, *found.codes.values()]), found.committed

    def said(membership: Membership, until_ms: int) -> Story:
        return insist(who, "OffsetFetch", Request(fetch_request(who.group, wanted, membership), FETCH), read, until_ms)

    return (yield from as_member(who, life, said)) if wanted else {}


def worst(codes: Iterable[Code]) -> Code:
    """The first code that is not NONE."""
    return next((code for code in codes if code is not Code.NONE), Code.NONE)


def offsets_at(who: Process, places: Iterable[TopicIdPartition], when: int) -> Story:
    """Where the logs of these places begin (EARLIEST) or end (LATEST)."""
    wanted: dict[str, list[TopicIdPartition]] = {}
    for place in places:
        wanted.setdefault(place.topic, []).append(place)
    if not wanted:
        return {}
    topics = tuple(
        ListOffsetsTopic(
            name=name, partitions=tuple(ListOffsetsPartition(partition_index=each.partition, timestamp=when) for each in some)
        )
        for name, some in wanted.items()
    )

    def read(answer: Any) -> tuple[Code, dict[TopicIdPartition, int]]:
        found, codes = {}, []
        for topic in answer.topics:
            for place, said in zip(wanted[topic.name], topic.partitions, strict=True):
                found[place] = said.offset
                codes.append(Code.of(said.error_code))
        return worst(codes), found

    request = Request(ListOffsetsRequest(replica_id=-1, isolation_level=1, topics=topics), OFFSETS)
    return (yield from insist(who, "ListOffsets", request, read, who.mono_ms() + PATIENCE_MS))


def topics_of(who: Process, wanted: Iterable[str | TopicId]) -> Story:
    """Those of these topics (by name or by id) that exist, as Topics."""
    asked = tuple(
        MetadataRequestTopic(name=each) if isinstance(each, str) else MetadataRequestTopic(topic_id=each, name=None)
        for each in wanted
    )

    def read(answer: Any) -> tuple[Code, Topics]:
        return Code.NONE, Topics(
            Topic(topic.name, bytes(topic.topic_id), len(topic.partitions)) for topic in answer.topics if not topic.error_code
        )

    request = Request(MetadataRequest(topics=asked, allow_auto_topic_creation=False), METADATA)
    return (yield from insist(who, "Metadata", request, read, who.mono_ms() + PATIENCE_MS)) if asked else Topics()


def described_classic(who: "Application") -> Story:
    """The classic group as its coordinator describes it; in state GONE where it is none."""
    request = Request(DescribeGroupsRequest(groups=(who.group,)), DESCRIBE_CLASSIC)

    def read(answer: Any) -> tuple[Code, Any]:
        group, code = answer.groups[0], Code.of(answer.groups[0].error_code)
        return Code.NONE if code is Code.GROUP_ID_NOT_FOUND else code, group

    return (yield from insist(who, "DescribeGroups", request, read, who.mono_ms() + PATIENCE_MS))


def described(who: "Application") -> Story:
    """The group as its coordinator describes it."""
    request = Request(ConsumerGroupDescribeRequest(group_ids=(who.group,)), DESCRIBE)
    until_ms = who.mono_ms() + PATIENCE_MS
    return (
        yield from insist(
            who,
            "ConsumerGroupDescribe",
            request,
            lambda answer: (Code.of(answer.groups[0].error_code), answer.groups[0]),
            until_ms,
        )
    )
