"""The memory of a Python worker of Spark does not grow with what its task reads."""

import subprocess
import sys

from apportion.client.cluster import Cluster
from apportion.server.embedded import EmbeddedBroker
from apportion.topics import partitions_of
from apportion.wire.batch import encode_batch

MOST_MB = 300
WORKER = """
import sys
from pathlib import Path
import pyspark.worker
from pyspark.sql.types import StructType
from apportion.client.cluster import Cluster
from apportion.spark.reading.slices import PartitionSlice, TaskSlices
from apportion.spark.source import GroupSource
from apportion.topics import partitions_of

bootstrap, end = sys.argv[1], int(sys.argv[2])
options = {"kafka.bootstrap.servers": bootstrap, "kafka.group.id": "g", "subscribe": "large"}
reader = GroupSource(options).streamReader(StructType())
(topic,) = Cluster(bootstrap).topics(("large",), fresh=True)
task = TaskSlices((PartitionSlice(partitions_of(topic)[0], 0, end),))
sizes = [batch.nbytes for batch in reader.read(task)]
status = Path("/proc/self/status").read_text().splitlines()
peak_kb = next(int(line.split()[1]) for line in status if line.startswith("VmHWM"))
print(sum(sizes) >> 20, max(sizes) >> 20, peak_kb >> 10)
"""


def test_a_worker_reads_large_records_in_little_memory() -> None:
    records, value = 8, bytes(100_000)
    batch = encode_batch([(None, value, ())] * records, timestamp_ms=1)
    with EmbeddedBroker() as broker:
        cluster = Cluster(broker.bootstrap)
        (partition,) = partitions_of(cluster.create_topic("large", 1))
        for _ in range(500):
            cluster.produce(partition, batch)
        cluster.close()
        done = subprocess.run(
            [sys.executable, "-c", WORKER, broker.bootstrap, str(500 * records)],
            capture_output=True,
            text=True,
            check=True,
        )
    read_mb, largest_mb, peak_mb = map(int, done.stdout.split())
    assert read_mb >= 380
    assert largest_mb <= 16
    assert peak_mb < MOST_MB
