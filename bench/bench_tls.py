"""What TLS costs the server: produce, fetch and small requests beside a plain listener.

One broker has both listeners. A client in this process sends one request after the other; work is
divided by the processor time of the server alone. The small request is a heartbeat of a member that
does not exist, which is answered at once.
"""

import json
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from bench.bench_server import cpu_seconds

from apportion.client.cluster import Cluster
from apportion.client.security_options import client_security
from apportion.server.certificates import CertificateAuthority
from apportion.topics import TopicIdPartition, partitions_of
from apportion.wire.batch import encode_batch
from apportion.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from apportion.wire.messages.find_coordinator import FindCoordinatorRequest
from apportion.wire.messages.heartbeat import HeartbeatRequest

VALUE_BYTES, VALUES = 1_000, 500
BATCHES = 100
FETCHED_BYTES = 1 << 20
REQUESTS = 3_000
ROUNDS = 3
PLAIN, TLS = "PLAINTEXT", "SSL"


def produced(cluster: Cluster, partition: TopicIdPartition) -> int:
    """Produce batches one after the other; return their bytes."""
    batch = encode_batch([(None, bytes(VALUE_BYTES), ())] * VALUES, timestamp_ms=1)
    for _ in range(BATCHES):
        cluster.produce(partition, batch)
    return BATCHES * len(batch)


def fetched(cluster: Cluster, partition: TopicIdPartition) -> int:
    """Fetch the same bytes again and again; return how many there were."""
    wanted = FetchPartition(
        partition=partition.partition, fetch_offset=0, partition_max_bytes=FETCHED_BYTES
    )
    request = FetchRequest(
        max_wait_ms=0,
        min_bytes=1,
        max_bytes=FETCHED_BYTES,
        topics=(FetchTopic(topic_id=partition.topic_id, partitions=(wanted,)),),
    )
    count = 0
    for _ in range(BATCHES):
        [topic] = cluster.call(request).responses
        count += len(topic.partitions[0].records)
    assert count > BATCHES * FETCHED_BYTES // 2
    return count


def answered(cluster: Cluster, _partition: TopicIdPartition) -> int:
    """Send heartbeats of a member that does not exist; return how many were answered."""
    cluster.call(FindCoordinatorRequest(key_type=0, coordinator_keys=("bench",)))
    for _ in range(REQUESTS):
        cluster.call(HeartbeatRequest(group_id="bench", member_id="nobody", generation_id=1))
    return REQUESTS


WORKS: dict[str, Callable[[Cluster, TopicIdPartition], int]] = {
    "produce": produced,
    "fetch": fetched,
    "heartbeats": answered,
}


def median_rate(process: int, work: Callable[[], int]) -> float:
    """Return how much of the work is done in a second of the process's time, a median."""
    rates = []
    for _ in range(ROUNDS):
        before = cpu_seconds(process)
        done = work()
        rates.append(done / (cpu_seconds(process) - before))
    return sorted(rates)[ROUNDS // 2]


def measured(directory: Path) -> dict[str, float]:
    """Return what the server does in a second of its processor time, by work and protocol."""
    authority = CertificateAuthority()
    issued = authority.issue("broker", ("127.0.0.1",))
    store = directory / "broker.pem"
    store.write_text(issued.key_pem() + issued.chain_pem())
    command = [sys.executable, "-m", "apportion.cli.main", "serve"]
    command += ["--data-dir", str(directory / "data")]
    command += ["--listen", f"{PLAIN}://127.0.0.1:0,{TLS}://127.0.0.1:0"]
    for setting in ("ssl.keystore.type=PEM", f"ssl.keystore.location={store}"):
        command += ["--set", setting]
    found = {}
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        line = process.stdout.readline().removeprefix("listening on ")
        for protocol, address in (each.strip().split("://") for each in line.split(",")):
            security = client_security(
                {"security_protocol": protocol}
                | ({"ssl_ca_pem": authority.pem} if protocol == TLS else {})
            )
            cluster = Cluster(address, security=security)
            topic = cluster.create_topic(f"bench-{protocol}", 1)
            partition = partitions_of(topic)[0]
            for name, work in WORKS.items():
                work(cluster, partition)  # warm
                found[f"{name}_{protocol}"] = median_rate(
                    process.pid, partial(work, cluster, partition)
                )
            cluster.close()
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(30)
        if process.stdout is not None:
            process.stdout.close()
    return found


def run() -> list[dict[str, Any]]:
    """Return the rows of `make bench`: the work of a second of the server's processor time."""
    with tempfile.TemporaryDirectory(prefix="bench-") as directory:
        found = measured(Path(directory))
    rows = []
    for name, value in found.items():
        work, _, protocol = name.partition("_")
        is_count = work == "heartbeats"
        kind = "tls" if protocol == TLS else "plain"
        per = "per_s" if is_count else "mb_s"
        rows.append(
            {
                "name": f"serve_{work}_{per}_{kind}",
                "value": round(value) if is_count else round(value / 1e6, 1),
                "unit": "1/s" if is_count else "MB/s",
                "target": None,
                "better": "higher",
            }
        )
    return rows


if __name__ == "__main__":
    print(json.dumps(run(), indent=1))
