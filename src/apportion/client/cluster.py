"""A cluster's operations: read and write logs, a group's offsets, topics.

Each retries what `member/reactions.py` calls retriable until its timeout, then raises the last
error: `Refused` with Kafka's code, or `Disconnected`. Thread-safe.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, NamedTuple, TypeVar

from apportion.client.connection import Disconnected
from apportion.client.network_client import Leader, NetworkClient, RetryTimer
from apportion.client.visible import visible
from apportion.errors import Code, Refused
from apportion.member.batch.offsets import (
    NO_MEMBER,
    Membership,
    OffsetAndMetadata,
    commit_errors,
    commit_request,
    fetch_request,
    parse_fetch_response,
)
from apportion.member.batch.plan import EARLIEST as EARLIEST
from apportion.member.batch.plan import LATEST as LATEST
from apportion.member.reactions import Reaction, reaction
from apportion.topics import Topic, TopicIdPartition
from apportion.wire.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from apportion.wire.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from apportion.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from apportion.wire.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from apportion.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic, PartitionData
from apportion.wire.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from apportion.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData

FETCH_BYTES = 8 << 20
LEAST_FETCH_BYTES = 64 << 10
# before the first answer tells: a range asks for about what it needs, not for all that follows it
GUESSED_RECORD_BYTES = 256
BROKER_RESOURCE = 4
V = TypeVar("V")


class Fetch(NamedTuple):
    """One partition's part of a Fetch response.

    batches: visible data; the first may begin below the requested position. next_offset: the
    position to fetch next.
    log_start, stable_end: the bounds of what can be read now.
    code: OFFSET_OUT_OF_RANGE, or a retriable code (the position stays); NONE otherwise.
    """

    batches: tuple[memoryview, ...]
    next_offset: int
    log_start: int
    stable_end: int
    code: Code


class Cluster(NetworkClient):
    """A Kafka cluster, ours or Apache's, as a client sees it. Connects with the first operation."""

    # offsets of logs

    def list_offsets(
        self, places: Iterable[TopicIdPartition], when: int, *, timeout_ms: int | None = None
    ) -> dict[TopicIdPartition, int]:
        """Return the offset of each partition at `when`: EARLIEST, LATEST or a time in ms.

        LATEST is the last stable offset. A time means the first record at or after it, -1 if none.
        """
        retry_timer = RetryTimer(self.timeout_ms if timeout_ms is None else timeout_ms)
        found: dict[TopicIdPartition, int] = {}
        left = dict.fromkeys(places)
        while left:
            failure = self._by_leader(
                left,
                lambda node, asked: self._list_offsets(
                    node, asked, when, found, retry_timer.left_ms()
                ),
            )
            left = dict.fromkeys(place for place in left if place not in found)
            if left:
                retry_timer.pause(
                    failure
                    or Refused(
                        Code.UNKNOWN_SERVER_ERROR, "the broker left partitions out of its answer"
                    )
                )
        return found

    def _list_offsets(
        self,
        node: int,
        asked: dict[TopicIdPartition, Leader],
        when: int,
        found: dict[TopicIdPartition, int],
        timeout_ms: int,
    ) -> Refused | None:
        topics = tuple(
            ListOffsetsTopic(
                name=topic,
                partitions=tuple(
                    ListOffsetsPartition(
                        partition_index=place.partition,
                        current_leader_epoch=leader.epoch,
                        timestamp=when,
                    )
                    for place, leader in places
                ),
            )
            for (topic, _), places in _by_topic(asked).items()
        )
        answer = self.call(
            ListOffsetsRequest(replica_id=-1, isolation_level=1, topics=topics),
            node=node,
            timeout_ms=timeout_ms,
        )
        by_name = {(place.topic, place.partition): place for place in asked}
        failure = None
        for topic in answer.topics:
            for said in topic.partitions:
                place = by_name[topic.name, said.partition_index]
                if said.error_code == Code.NONE:
                    found[place] = said.offset
                else:
                    failure = self._react("ListOffsets", said.error_code, place)
        return failure

    def _by_leader(
        self,
        places: Iterable[TopicIdPartition],
        ask: Callable[[int, dict[TopicIdPartition, Leader]], Exception | None],
    ) -> Exception | None:
        """Call `ask` once for each leader; return the last retriable error."""
        failure: Exception | None = None
        by_node: dict[int, dict[TopicIdPartition, Leader]] = {}
        for place in places:
            try:
                leader = self.leader(place)
                by_node.setdefault(leader.node_id, {})[place] = leader
            except Disconnected as error:
                failure = error
            except Refused as error:
                if not error.code.retriable or error.code is Code.UNKNOWN_TOPIC_ID:
                    raise
                failure = error
        for node, asked in by_node.items():
            try:
                failure = ask(node, asked) or failure
            except Disconnected as error:
                for place in asked:
                    self.forget_leader(place)
                failure = error
        return failure

    def _react(self, api: str, error_code: int, place: TopicIdPartition) -> Refused:
        """Return the error if it is retriable, else raise it; forget a leader that moved."""
        code = Code.of(error_code)
        refused = Refused(code, f"{api} of {place}: {code.sentence}")
        meant = reaction(api, code)
        if meant is Reaction.REFRESH_METADATA:
            self.forget_leader(place)
        elif meant is not Reaction.RETRY:
            raise refused
        return refused

    # reading

    def fetch(
        self,
        positions: Mapping[TopicIdPartition, int],
        *,
        max_wait_ms: int,
        max_bytes: int = FETCH_BYTES,
    ) -> dict[TopicIdPartition, Fetch]:
        """Fetch what can be read at these positions; wait up to `max_wait_ms` if nothing.

        A partition whose leader could not be asked is left out.
        """
        got: dict[TopicIdPartition, Fetch] = {}

        def ask(node: int, asked: dict[TopicIdPartition, Leader]) -> None:
            wait_ms = (
                0
                if any(fetch.batches for fetch in got.values())
                else max_wait_ms // max(1, len(self._nodes))
            )
            got.update(
                self._fetch(
                    node,
                    {place: (positions[place], leader) for place, leader in asked.items()},
                    wait_ms,
                    max_bytes,
                )
            )

        failure = self._by_leader(positions, ask)
        if failure is not None and not got:
            raise failure
        return got

    def _fetch(
        self,
        node: int,
        asked: dict[TopicIdPartition, tuple[int, Leader]],
        wait_ms: int,
        max_bytes: int,
        before: int | None = None,
    ) -> dict[TopicIdPartition, Fetch]:
        topics = tuple(
            FetchTopic(
                topic=topic,
                topic_id=topic_id,
                partitions=tuple(
                    FetchPartition(
                        partition=place.partition,
                        current_leader_epoch=leader.epoch,
                        fetch_offset=position,
                        partition_max_bytes=max_bytes,
                    )
                    for place, (position, leader) in places
                ),
            )
            for (topic, topic_id), places in _by_topic(asked).items()
        )
        request = FetchRequest(
            max_wait_ms=wait_ms, min_bytes=1, max_bytes=max_bytes, isolation_level=1, topics=topics
        )
        answer = self.call(request, node=node, timeout_ms=wait_ms + self.timeout_ms)
        if answer.error_code != Code.NONE:
            raise Refused(
                Code.of(answer.error_code),
                f"fetch from broker {node}: {Code.of(answer.error_code).sentence}",
            )
        found: dict[TopicIdPartition, Fetch] = {}
        for topic in answer.responses:
            for data in topic.partitions:
                place = next(
                    place
                    for place in asked
                    if _is_named(place, topic.topic, topic.topic_id, data.partition_index)
                )
                found[place] = self._fetched(place, asked[place][0], data, before)
        return found

    def _fetched(
        self, place: TopicIdPartition, position: int, data: PartitionData, before: int | None
    ) -> Fetch:
        code = Code.of(data.error_code)
        if code not in (Code.NONE, Code.OFFSET_OUT_OF_RANGE):
            self._react("Fetch", code, place)
        seen = visible(data.records or b"", data.aborted_transactions or (), position, before)
        return Fetch(
            seen.batches, seen.next_offset, data.log_start_offset, data.last_stable_offset, code
        )

    def fetch_range(
        self,
        place: TopicIdPartition,
        start: int,
        before: int,
        *,
        timeout_ms: int | None = None,
        max_bytes: int = FETCH_BYTES,
    ) -> Iterator[memoryview]:
        """Yield every visible batch with records in [start, before), in order, each once.

        The caller trims the ends.

        Raises Refused(OFFSET_OUT_OF_RANGE) if the range no longer exists, and the last error if
        nothing comes for `timeout_ms`: it never ends early without one.
        """
        position = start
        limit_ms = self.timeout_ms if timeout_ms is None else timeout_ms
        retry_timer = RetryTimer(limit_ms)
        bytes_each: float = GUESSED_RECORD_BYTES
        while position < before:
            ask_bytes = min(
                max(int((before - position) * bytes_each * 1.1), LEAST_FETCH_BYTES), max_bytes
            )
            try:
                leader = self.leader(place)
                fetch = self._fetch(
                    leader.node_id, {place: (position, leader)}, 500, ask_bytes, before
                )[place]
            except Disconnected as error:
                self.forget_leader(place)
                retry_timer.pause(error)
                continue
            except Refused as error:
                if not error.code.retriable or error.code is Code.UNKNOWN_TOPIC_ID:
                    raise
                retry_timer.pause(error)
                continue
            if fetch.code is Code.OFFSET_OUT_OF_RANGE:
                bounds = (
                    self.list_offsets([place], EARLIEST)[place],
                    self.list_offsets([place], LATEST)[place],
                )
                why = (
                    f"{place}: offset {position} of [{start}, {before}) is not there; the log "
                    f"holds [{bounds[0]}, {bounds[1]})"
                )
                raise Refused(fetch.code, why)
            yield from fetch.batches
            if fetch.next_offset > position:
                bytes_each = (
                    sum(map(len, fetch.batches)) / (fetch.next_offset - position) or bytes_each
                )
                position, retry_timer = fetch.next_offset, RetryTimer(limit_ms)
            else:
                code = Code.REQUEST_TIMED_OUT if fetch.code is Code.NONE else fetch.code
                retry_timer.pause(
                    Refused(
                        code, f"{place}: nothing came at offset {position} of [{start}, {before})"
                    )
                )

    # writing

    def produce(self, place: TopicIdPartition, batch: bytes) -> int:
        """Append a batch with acks=all; return the offset of its first record.

        A batch without a producer id may be appended twice if a response is lost.
        """
        retry_timer = RetryTimer(self.timeout_ms)
        data = TopicProduceData(
            name=place.topic,
            topic_id=place.topic_id,
            partition_data=(PartitionProduceData(index=place.partition, records=batch),),
        )
        request = ProduceRequest(acks=-1, timeout_ms=self.timeout_ms, topic_data=(data,))
        while True:
            try:
                node = self.leader(place).node_id
                said = (
                    self.call(request, node=node, timeout_ms=retry_timer.left_ms())
                    .responses[0]
                    .partition_responses[0]
                )
            except Disconnected as error:
                self.forget_leader(place)
                retry_timer.pause(error)
                continue
            if said.error_code == Code.NONE:
                return int(said.base_offset)
            retry_timer.pause(self._react("Produce", said.error_code, place))

    # groups

    def ask_coordinator(
        self,
        api: str,
        request: Any,
        group_id: str,
        read: Callable[[Any], tuple[Code, V]],
        timeout_ms: int,
    ) -> V:
        """Send a request to the group's coordinator, with retries.

        Return what `read` makes of it.
        """
        retry_timer = RetryTimer(timeout_ms)
        while True:
            try:
                code, value = read(
                    self.call(request, coordinator=group_id, timeout_ms=retry_timer.left_ms())
                )
                if code is Code.NONE:
                    return value
                failure: Exception = Refused(code, f"{api} of group {group_id!r}: {code.sentence}")
                meant = reaction(api, code)
            except Disconnected as error:
                failure, meant = error, Reaction.FIND_COORDINATOR
            except Refused as error:
                failure, meant = error, reaction("FindCoordinator", error.code)
            if meant is Reaction.FIND_COORDINATOR:
                self.forget_coordinator(group_id)
            elif meant is not Reaction.RETRY:
                raise failure
            retry_timer.pause(failure)

    def commit(
        self,
        group_id: str,
        offsets: Mapping[TopicIdPartition, int],
        who: Membership = NO_MEMBER,
        *,
        metadata: str = "",
        timeout_ms: int | None = None,
    ) -> None:
        """Commit all these offsets. Raises Refused if any was not committed."""
        if not offsets:
            return
        request = commit_request(group_id, offsets, who, metadata)

        def read(answer: Any) -> tuple[Code, None]:
            codes = commit_errors(answer, offsets).values()
            return next((code for code in codes if code is not Code.NONE), Code.NONE), None

        self.ask_coordinator(
            "OffsetCommit",
            request,
            group_id,
            read,
            self.timeout_ms if timeout_ms is None else timeout_ms,
        )

    def committed(
        self,
        group_id: str,
        places: Iterable[TopicIdPartition],
        who: Membership = NO_MEMBER,
        *,
        timeout_ms: int | None = None,
    ) -> dict[TopicIdPartition, int | None]:
        """Return the group's committed offset of each partition. Raises Refused if any fails."""
        stored = self.committed_offsets(group_id, places, who, timeout_ms=timeout_ms)
        return {place: one.offset for place, one in stored.items()}

    def committed_offsets(
        self,
        group_id: str,
        places: Iterable[TopicIdPartition],
        who: Membership = NO_MEMBER,
        *,
        timeout_ms: int | None = None,
    ) -> dict[TopicIdPartition, OffsetAndMetadata]:
        """Return committed offsets with their metadata. Raises Refused if any fails."""
        wanted = tuple(places)
        if not wanted:
            return {}

        def read(answer: Any) -> tuple[Code, dict[TopicIdPartition, OffsetAndMetadata]]:
            code, said = parse_fetch_response(answer, wanted)
            return next(
                iter(said.codes.values()), code
            ) if code is Code.NONE else code, said.committed

        request = fetch_request(group_id, wanted, who)
        return self.ask_coordinator(
            "OffsetFetch",
            request,
            group_id,
            read,
            self.timeout_ms if timeout_ms is None else timeout_ms,
        )

    # topics and settings

    def create_topic(
        self,
        name: str,
        partitions: int,
        *,
        replication_factor: int = 1,
        config: Mapping[str, str] | None = None,
    ) -> Topic:
        """Create a topic and wait for its leaders."""
        configs = tuple(
            CreatableTopicConfig(name=key, value=value) for key, value in (config or {}).items()
        )
        wanted = CreatableTopic(
            name=name,
            num_partitions=partitions,
            replication_factor=replication_factor,
            configs=configs,
        )
        said = self.call(CreateTopicsRequest(topics=(wanted,), timeout_ms=self.timeout_ms)).topics[
            0
        ]
        if said.error_code != Code.NONE:
            raise Refused(Code.of(said.error_code), said.error_message or "")
        return self._await_topic(name, partitions)

    def grow_topic(self, name: str, partitions: int) -> Topic:
        """Increase the topic to `partitions` partitions and wait for their leaders."""
        wanted = CreatePartitionsTopic(name=name, count=partitions, assignments=None)
        said = self.call(
            CreatePartitionsRequest(topics=(wanted,), timeout_ms=self.timeout_ms)
        ).results[0]
        if said.error_code != Code.NONE:
            raise Refused(Code.of(said.error_code), said.error_message or "")
        return self._await_topic(name, partitions)

    def delete_topic(self, name: str) -> None:
        """Delete the topic; another broker may show it for a moment longer."""
        state = DeleteTopicState(name=name)
        said = self.call(
            DeleteTopicsRequest(topics=(state,), topic_names=(name,), timeout_ms=self.timeout_ms)
        ).responses[0]
        if said.error_code != Code.NONE:
            raise Refused(Code.of(said.error_code), said.error_message or "")
        retry_timer = RetryTimer(self.timeout_ms)
        while self.topics([name], fresh=True):
            retry_timer.pause(
                Refused(
                    Code.REQUEST_TIMED_OUT, f"topic {name!r} is still shown after it was deleted"
                )
            )

    def _await_topic(self, name: str, partitions: int) -> Topic:
        retry_timer = RetryTimer(self.timeout_ms)
        while True:
            topic = self.topics([name], fresh=True).named(name)
            if topic is not None and topic.partitions >= partitions:
                leaders = [self._leaders.get((topic.id, number)) for number in range(partitions)]
                if None not in leaders:
                    return topic
            retry_timer.pause(
                Refused(Code.UNKNOWN_TOPIC_OR_PARTITION, f"topic {name!r} does not show up")
            )

    def broker_setting(self, name: str, *, node: int | None = None) -> str | None:
        """Return the value of a broker configuration; None if there is none."""
        node = min(self.nodes()) if node is None else node
        resource = DescribeConfigsResource(
            resource_type=BROKER_RESOURCE, resource_name=str(node), configuration_keys=(name,)
        )
        for result in self.call(DescribeConfigsRequest(resources=(resource,)), node=node).results:
            for config in result.configs:
                if config.name == name:
                    return None if config.value is None else str(config.value)
        return None


def partitions_of(topic: Topic) -> tuple[TopicIdPartition, ...]:
    """Return every partition of the topic."""
    return tuple(
        TopicIdPartition(topic.name, topic.id, number) for number in range(topic.partitions)
    )


def _is_named(place: TopicIdPartition, topic: str, topic_id: bytes, partition: int) -> bool:
    return place.partition == partition and (
        place.topic == topic if topic else place.topic_id == bytes(topic_id)
    )


def _by_topic(
    values: Mapping[TopicIdPartition, V],
) -> dict[tuple[str, bytes], list[tuple[TopicIdPartition, V]]]:
    topics: dict[tuple[str, bytes], list[tuple[TopicIdPartition, V]]] = {}
    for place, value in values.items():
        topics.setdefault((place.topic, place.topic_id), []).append((place, value))
    return topics
