"""Read and write the logs of partitions: ListOffsets, Fetch and Produce, each to the leader.

Operations retry until their timeout, then raise the last error: `Refused` with Kafka's code, or
`Disconnected`. `list_offsets` and `produce` run the rule of `member/partition_leaders.py`, which
retries by the table of `member/reactions.py`; `fetch_range` retries whatever is not permanent
there. `fetch` is sent once: the next poll of a consumer is its retry. Thread-safe.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from apportion.client.connection import Disconnected
from apportion.client.network_client import NetworkClient, RetryTimer
from apportion.errors import Code, Refused
from apportion.member.cluster_queries.records import (
    FETCH_BYTES,
    FetchPosition,
    FetchQuery,
    PartitionFetch,
    ProduceQuery,
    refusals,
)
from apportion.member.partition_leaders import (
    ask_leaders,
    find_leaders,
    list_offsets,
    raise_unless_retriable,
)
from apportion.member.reactions import Reaction, is_permanent, reaction
from apportion.topics import TopicIdPartition
from apportion.wire.messages.list_offsets import EARLIEST, LATEST

LEAST_FETCH_BYTES = 64 << 10
# Before the first response shows the real size: `fetch_range` asks for about as many bytes as its
# range needs, and not for everything that follows the range.
GUESSED_RECORD_BYTES = 256
RANGE_FETCH_WAIT_MS = 500


class PartitionLogs(NetworkClient):
    """The logs of a cluster's partitions, as `Cluster` reads and writes them."""

    # ListOffsets

    def list_offsets(
        self,
        partitions: Iterable[TopicIdPartition],
        timestamp: int,
        *,
        timeout_ms: int | None = None,
    ) -> dict[TopicIdPartition, int]:
        """Return the offset of each partition at `timestamp`: EARLIEST, LATEST or a time in ms.

        LATEST is the last stable offset. A time means the first record at or after it, -1 if none.
        """
        rule = list_offsets(self.metadata, partitions, timestamp)
        return self.run(rule, timeout_ms=timeout_ms)

    def _call_leader(
        self, node: int, partitions: Iterable[TopicIdPartition], request: Any, timeout_ms: int
    ) -> Any:
        """Send a request to the leader of these partitions; return the response."""
        try:
            return self.call(request, node=node, timeout_ms=timeout_ms)
        except Disconnected:
            # The leader may have moved to another broker when this one went down.
            for partition in partitions:
                self.metadata.forget_leader(partition)
            raise

    # Fetch

    def fetch(
        self,
        positions: Mapping[TopicIdPartition, int],
        *,
        max_wait_ms: int,
        timeout_ms: int | None = None,
    ) -> dict[TopicIdPartition, PartitionFetch]:
        """Fetch records from these positions on; wait up to `max_wait_ms` while there are none.

        An error of one partition, or of its leader's whole response, is in the partition's part, so
        that nothing holds back what others have. A partition whose leader did not answer, or whose
        topic was deleted, is left out; that error is raised if nothing came at all. For
        `Consumer.poll`.

        timeout_ms: for the metadata of all partitions, and for the response of each leader.
        """
        limit_ms = self.timeout_ms if timeout_ms is None else timeout_ms
        by_node, errors = self.run(find_leaders(self.metadata, positions), timeout_ms=limit_ms)
        fetched = {
            partition: _failed(positions[partition], error)
            for partition, error in errors.items()
            if isinstance(error, Refused) and error.code is not Code.UNKNOWN_TOPIC_ID
        }
        for node, leaders in by_node.items():
            # One leader after the other: the waits add up, so they share `max_wait_ms`, and nobody
            # waits any more once there is something to return.
            wait_ms = (
                0
                if any(fetch.batches for fetch in fetched.values())
                else max_wait_ms // max(1, len(self.metadata.nodes))
            )
            requested = {
                partition: FetchPosition(positions[partition], each.epoch)
                for partition, each in leaders.items()
            }
            try:
                fetched |= self._fetch(
                    node, requested, wait_ms=wait_ms, max_bytes=FETCH_BYTES, timeout_ms=limit_ms
                )
            except Refused as refused:
                fetched |= {each: _failed(positions[each], refused) for each in leaders}
            except Disconnected as error:
                errors.update(dict.fromkeys(leaders, error))
        if errors and not fetched:
            raise [*errors.values()][-1]
        return fetched

    def _fetch(
        self,
        node: int,
        positions: dict[TopicIdPartition, FetchPosition],
        *,
        wait_ms: int,
        max_bytes: int,
        timeout_ms: int,
        end: int | None = None,
    ) -> dict[TopicIdPartition, PartitionFetch]:
        """Send one Fetch request; batches that start at or after `end` are left out.

        Raises Refused for an error of the whole response; forgets leaders that have moved.
        """
        # The broker may hold the response for wait_ms (fetch.max.wait.ms), so that comes on top of
        # the timeout.
        query = FetchQuery(positions, wait_ms, max_bytes, end)
        response = self._call_leader(node, positions, query.request(), wait_ms + timeout_ms)
        try:
            fetched = query.parse(response)
        except Refused as refused:
            raise Refused(
                refused.code, f"fetch from broker {node}: {refused.code.sentence}"
            ) from None
        for partition, fetch in fetched.items():
            if reaction(query.api, fetch.code) is Reaction.REFRESH_METADATA:
                self.metadata.forget_leader(partition)
        return fetched

    def fetch_range(
        self,
        partition: TopicIdPartition,
        start: int,
        end: int,
        *,
        timeout_ms: int | None = None,
    ) -> Iterator[memoryview]:
        """Yield every visible batch with records in [start, end), in order, each once.

        The caller trims the ends. For a task of a Spark micro-batch.

        Raises Refused(OFFSET_OUT_OF_RANGE) if the range no longer exists, and the last error if
        nothing comes for `timeout_ms`: it never ends early without one.
        """
        position = start
        limit_ms = self.timeout_ms if timeout_ms is None else timeout_ms
        retry_timer = RetryTimer(limit_ms)
        record_bytes: float = GUESSED_RECORD_BYTES
        while position < end:
            # A tenth more than the estimate, so that a range mostly ends in one request; at least
            # 64 KiB, as tiny ranges need no precision.
            fetch_bytes = min(
                max(int((end - position) * record_bytes * 1.1), LEAST_FETCH_BYTES), FETCH_BYTES
            )
            try:
                leader = self.leader(partition)
                fetch = self._fetch(
                    leader.node_id,
                    {partition: FetchPosition(position, leader.epoch)},
                    wait_ms=RANGE_FETCH_WAIT_MS,
                    max_bytes=fetch_bytes,
                    timeout_ms=self.timeout_ms,
                    end=end,
                )[partition]
            except (Disconnected, Refused) as error:
                raise_unless_retriable(error)
                retry_timer.pause(error)
                continue
            # Never skipped here: a batch that yields less than its range would not be the same on a
            # replay (failOnDataLoss decides above).
            if fetch.code is Code.OFFSET_OUT_OF_RANGE:
                raise self._range_is_gone(partition, position, (start, end))
            for refused in refusals({partition: fetch}).values():
                if is_permanent(refused):
                    raise refused
            yield from fetch.batches
            if fetch.next_offset > position:
                size_bytes = sum(map(len, fetch.batches))
                record_bytes = size_bytes / (fetch.next_offset - position) or record_bytes
                # The timeout is for silence: with every step forward it starts anew.
                position, retry_timer = fetch.next_offset, RetryTimer(limit_ms)
            else:
                code = Code.REQUEST_TIMED_OUT if fetch.code is Code.NONE else fetch.code
                why = f"{partition}: nothing came at offset {position} of [{start}, {end})"
                # The leader is not at the end of the range yet: after a failover a new leader may
                # lag in what it shows.
                retry_timer.pause(Refused(code, why))

    def _range_is_gone(
        self, partition: TopicIdPartition, position: int, range_: tuple[int, int]
    ) -> Refused:
        """Return the error of a range that the log does not hold, with what the log holds."""
        log_start = self.list_offsets([partition], EARLIEST)[partition]
        log_end = self.list_offsets([partition], LATEST)[partition]
        return Refused(
            Code.OFFSET_OUT_OF_RANGE,
            f"{partition}: offset {position} of [{range_[0]}, {range_[1]}) is not there; the log "
            f"holds [{log_start}, {log_end})",
        )

    # Produce

    def produce(self, partition: TopicIdPartition, batch: bytes) -> int:
        """Append a batch with acks=all; return the offset of its first record.

        A batch without a producer id may be appended twice if a response is lost.
        """
        query = ProduceQuery({partition: batch}, self.timeout_ms)
        rule = ask_leaders(self.metadata, [partition], lambda _leaders: query)
        return self.run(rule)[partition]


def _failed(position: int, refused: Refused) -> PartitionFetch:
    """Return the part of a partition that could not be fetched."""
    return PartitionFetch((), position, refused.code, refused.why)
