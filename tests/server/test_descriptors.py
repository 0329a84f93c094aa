"""A process that may open few files: connections leave some for what the broker writes."""

import socket
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path

from apportion.client.cluster import Cluster
from apportion.errors import Code
from apportion.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from tests.server.peer import Peer, addresses_of

SERVE = (
    "ulimit -n 220; exec {python} -m apportion.cli.main serve --data-dir {data} "
    "--listen PLAINTEXT://127.0.0.1:0,SASL_PLAINTEXT://127.0.0.1:0 "
    "--set sasl.enabled.mechanisms=SCRAM-SHA-512 --set apportion.authentication.timeout.ms=60000"
)


def created(cluster: Cluster, name: str) -> int:
    topic = CreatableTopic(name=name, num_partitions=3, replication_factor=1)
    answer = cluster.call(CreateTopicsRequest(topics=(topic,), timeout_ms=10_000))
    return int(answer.topics[0].error_code)


def test_silent_connections_leave_files_to_the_broker(tmp_path: Path) -> None:
    serve = SERVE.format(python=sys.executable, data=tmp_path / "data")
    with subprocess.Popen(["sh", "-c", serve], stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            addresses = addresses_of(process.stdout.readline())
            cluster = Cluster(addresses["PLAINTEXT"])
            assert created(cluster, "before") == Code.NONE
            host, _, port = addresses["SASL_PLAINTEXT"].rpartition(":")
            with ExitStack() as stack:
                for _ in range(300):
                    stack.enter_context(socket.create_connection((host, int(port)), timeout=10))
                # It was turned away, as those before it.
                with Peer(addresses["SASL_PLAINTEXT"]) as last:
                    assert last.is_closed()
                for number in range(5):
                    assert created(cluster, f"beside-{number}") == Code.NONE
            cluster.close()
            assert process.poll() is None
        finally:
            process.kill()
