"""What tests of topic settings ask a broker for: topics with settings, one batch, its answer, and
what is stored.
"""

from typing import Any

from crc32c import crc32c

from apportion.wire.batch import BatchHeader, Record, decode_batch, read_header, split_batches
from apportion.wire.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from apportion.wire.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from apportion.wire.messages.produce import PartitionProduceResponse, ProduceRequest
from tests.node import kit
from tests.node.kit import NodeDriver

VERSION = 12
LATEST, EARLIEST, YOUNGEST = -1, -2, -3


def create(driver: Any, name: str = "t", partitions: int = 1, **config: Any) -> tuple[Any, ...]:
    """Create a topic with these settings, dots as underscores; return its code and sentence."""
    configs = tuple(
        CreatableTopicConfig(name=key.replace("_", "."), value=value)
        for key, value in config.items()
    )
    wanted = CreatableTopic(
        name=name, num_partitions=partitions, replication_factor=1, configs=configs
    )
    [made] = driver.call(CreateTopicsRequest(topics=(wanted,))).topics
    return made.error_code, made.error_message


def produced(
    driver: Any, request: ProduceRequest, version: int = VERSION
) -> PartitionProduceResponse:
    """Send a request of one batch; return the answer for its partition."""
    result: PartitionProduceResponse = (
        driver.call(request, version).responses[0].partition_responses[0]
    )
    return result


def stored(
    driver: NodeDriver, topic: str = "t", offset: int = 0
) -> list[tuple[BatchHeader, list[Record]]]:
    """Every batch that a client reads from `offset` on: its header and its records."""
    partition = driver.call(kit.fetch(topic, offset), VERSION).responses[0].partitions[0]
    assert partition.error_code == 0, partition
    return [(read_header(view), decode_batch(view)) for view in split_batches(partition.records)]


def from_crc(batch: bytearray) -> None:
    """Let the batch have the CRC that its bytes ask for."""
    batch[17:21] = crc32c(bytes(batch[21:])).to_bytes(4, "big")


def claiming(batch: bytes, max_timestamp_ms: int) -> bytes:
    """Return the batch with another largest timestamp in its header."""
    claimed = bytearray(batch)
    claimed[35:43] = max_timestamp_ms.to_bytes(8, "big", signed=True)
    from_crc(claimed)
    return bytes(claimed)


def listed(driver: Any, when: int, topic: str = "t", index: int = 0) -> tuple[int, int]:
    """Offset and timestamp of the partition at a time, or at one of the words above."""
    wanted = ListOffsetsTopic(
        name=topic, partitions=(ListOffsetsPartition(partition_index=index, timestamp=when),)
    )
    partition = driver.call(ListOffsetsRequest(topics=(wanted,)), 10).topics[0].partitions[0]
    assert partition.error_code == 0, partition
    return partition.offset, partition.timestamp
