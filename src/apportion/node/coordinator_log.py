"""A partition of `__consumer_offsets` as the records that a coordinator shard replays.

The shard writes them itself, as batches like any others; only reading them back wants the schemas
of keys and values.
"""

from collections.abc import Iterable

from apportion.coord.records import CoordinatorRecord
from apportion.errors import DecodeError
from apportion.node.partitions import Partition
from apportion.store.disk import Damaged
from apportion.wire.batch import decode_batch
from apportion.wire.records.codec import decode_key, decode_value


def stored_records(partition: Partition, start_offset: int = 0) -> Iterable[CoordinatorRecord]:
    """Yield a coordinator shard's records from its partition of `__consumer_offsets`, oldest first.

    Records of unknown kinds are left out. `start_offset` may be below the start of the log, or in a
    batch that was compacted away.
    Errors: Damaged, with the offset, for a record that cannot be decoded: without it a commit or an
    epoch would be lost.
    """
    offset = max(start_offset, partition.log.start_offset)
    try:
        for view in partition.log.batches(offset):
            offset = int.from_bytes(view[:8], "big")
            for record in decode_batch(view):
                offset = record.offset
                is_before_start = offset < start_offset  # in a batch that holds `start_offset`
                key = None if record.key is None or is_before_start else decode_key(record.key)
                if key is not None:
                    value = None if record.value is None else decode_value(key, record.value)
                    yield CoordinatorRecord(key, value)
    except DecodeError as error:
        raise Damaged(
            f"{partition.topic.name}-{partition.index}, offset {offset}: {error}"
        ) from None
