"""What a consumer has fetched, and its positions, batch by batch."""

from apportion.errors import Code
from apportion.member.cluster_queries.records import PartitionFetch
from apportion.member.records.fetch_buffer import FetchBuffer
from apportion.topics import TopicIdPartition
from apportion.wire.batch import encode_records

P0 = TopicIdPartition("t", b"i" * 16, 0)


def test_a_batch_that_compaction_has_emptied_is_passed() -> None:
    buffer = FetchBuffer()
    buffer.positions[P0] = 5
    emptied = encode_records([], base_offset=5, last_offset_delta=2)
    buffer.add(P0, PartitionFetch((memoryview(emptied),), 8, Code.NONE))
    assert buffer.take(1) == []
    assert buffer.positions == {P0: 8}
