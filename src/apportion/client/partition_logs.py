"""Read and write the logs of partitions: ListOffsets, Fetch and Produce, each to the leader.

What is asked of which leader, and when again, the rules decide that are run here: those of
`member/partition_leaders.py`, `member/fetches.py` and `member/batch/range_reader.py`. Operations
retry until their timeout, then raise the last error: `Refused` with Kafka's code, or
`Disconnected`. Only `fetch` asks each leader once: the next poll of a consumer is its retry.
Thread-safe.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from apportion.client.network_client import NetworkClient
from apportion.member.batch.range_reader import DeliverBatches, RangeReader, ReaderTimeouts
from apportion.member.cluster_queries.records import PartitionFetch, ProduceQuery
from apportion.member.fetches import fetch_records
from apportion.member.partition_leaders import ask_leaders, list_offsets
from apportion.rules import Rule, rule_script, run_rule
from apportion.topics import TopicIdPartition
from apportion.wire.messages.list_offsets import LATEST


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

    def high_watermarks(
        self, partitions: Iterable[TopicIdPartition]
    ) -> dict[TopicIdPartition, int]:
        """Return the end of each partition's log, with the records of open transactions."""
        return self.run(list_offsets(self.metadata, partitions, LATEST, read_uncommitted=True))

    # Fetch

    def fetch(
        self,
        positions: Mapping[TopicIdPartition, int],
        *,
        max_wait_ms: int,
        timeout_ms: int | None = None,
        turn: int = 0,
    ) -> dict[TopicIdPartition, PartitionFetch]:
        """Fetch records by the rule `fetch_records`, for `Consumer.poll`.

        timeout_ms: for the metadata of all partitions, and for the response of each leader. turn:
        see `FetchRecords`.
        """
        rule = fetch_records(
            self.metadata,
            positions,
            max_wait_ms=max_wait_ms,
            timeout_ms=self.timeout_ms if timeout_ms is None else timeout_ms,
            turn=turn,
        )
        return run_rule(rule, self.answer)

    def fetch_range(
        self,
        partition: TopicIdPartition,
        start: int,
        end: int,
        *,
        timeout_ms: int | None = None,
    ) -> Iterator[memoryview]:
        """Yield every visible batch with records in [start, end), in order, each once.

        The caller trims the ends.

        Raises as `RangeReader.read` does, after `timeout_ms` in which nothing came.
        """
        return self.deliver(self.range_reader(partition, (start, end), timeout_ms).read())

    def range_reader(
        self, partition: TopicIdPartition, bounds: tuple[int, int], timeout_ms: int | None = None
    ) -> RangeReader:
        """Return the reader of a range, whose rules `deliver` runs."""
        silence_ms = self.timeout_ms if timeout_ms is None else timeout_ms
        timeouts = ReaderTimeouts(self.timeout_ms, silence_ms)
        return RangeReader(self.metadata, partition, bounds, timeouts)

    def deliver(self, rule: Rule[None]) -> Iterator[memoryview]:
        """Run a rule of a reader, and yield each batch that it delivers before the rule goes on."""

        def answer(query: Any) -> Rule[Any]:
            if isinstance(query, DeliverBatches):
                yield from query.batches
                return None
            return self.answer(query)

        return rule_script(rule, answer)

    # Produce

    def produce(self, partition: TopicIdPartition, batch: bytes) -> int:
        """Append a batch with acks=all; return the offset of its first record.

        A batch without a producer id may be appended twice if a response is lost.
        """
        query = ProduceQuery({partition: batch}, self.timeout_ms)
        rule = ask_leaders(self.metadata, [partition], lambda _leaders: query)
        return self.run(rule)[partition]
