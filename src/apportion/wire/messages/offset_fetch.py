"""OffsetFetch: the committed offsets of groups."""

from apportion.wire.fields import array, boolean, int16, int32, int64, message, string, uuid


@message()
class OffsetFetchRequestTopic:
    """Partitions of one topic, which is named up to version 9, and has an id from 10 on."""

    name: str = string(until=9, ignorable=True)
    topic_id: bytes = uuid(since=10, ignorable=True)
    partition_indexes: tuple[int, ...] = array(int32())


@message()
class OffsetFetchRequestGroup:
    """The requested partitions of one group; all if `topics` is null."""

    group_id: str = string()
    # KIP-848: a member of another epoch gets STALE_MEMBER_EPOCH instead of offsets.
    member_id: str | None = string(since=9, nullable=9, default=None, ignorable=True)
    member_epoch: int = int32(since=9, default=-1, ignorable=True)
    topics: tuple[OffsetFetchRequestTopic, ...] | None = array(OffsetFetchRequestTopic, nullable=0)


@message(key=9, versions=range(1, 11), flexible=6, type="request")
class OffsetFetchRequest:
    """Request the committed offsets of groups.

    From version 8 on `groups` names them, before it `group_id` and `topics`.
    """

    group_id: str = string(until=7)
    topics: tuple[OffsetFetchRequestTopic, ...] | None = array(
        OffsetFetchRequestTopic, until=7, nullable=2
    )
    groups: tuple[OffsetFetchRequestGroup, ...] = array(OffsetFetchRequestGroup, since=8)
    # KIP-447: wait until no transaction has an offset pending. There are no transactions here.
    require_stable: bool = boolean(since=7)


@message()
class OffsetFetchResponsePartition:
    """The offset of one partition; -1 if none was committed."""

    partition_index: int = int32()
    committed_offset: int = int64()
    committed_leader_epoch: int = int32(since=5, default=-1, ignorable=True)
    metadata: str | None = string(nullable=0)
    error_code: int = int16()


@message()
class OffsetFetchResponseTopic:
    """The offsets of one topic, which is named up to version 9, and has an id from 10 on."""

    name: str = string(until=9, ignorable=True)
    topic_id: bytes = uuid(since=10, ignorable=True)
    partitions: tuple[OffsetFetchResponsePartition, ...] = array(OffsetFetchResponsePartition)


@message()
class OffsetFetchResponseGroup:
    """The offsets of one group."""

    group_id: str = string()
    topics: tuple[OffsetFetchResponseTopic, ...] = array(OffsetFetchResponseTopic)
    error_code: int = int16()


@message(key=9, versions=range(1, 11), flexible=6, type="response")
class OffsetFetchResponse:
    """The committed offsets of the requested groups."""

    throttle_time_ms: int = int32(since=3, ignorable=True)
    topics: tuple[OffsetFetchResponseTopic, ...] = array(OffsetFetchResponseTopic, until=7)
    error_code: int = int16(since=2, until=7, ignorable=True)
    groups: tuple[OffsetFetchResponseGroup, ...] = array(OffsetFetchResponseGroup, since=8)
