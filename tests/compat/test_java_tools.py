"""Apache Kafka's own command-line tools, and so its Java clients, on our broker and on its files."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from apportion.testing.kafka import KafkaMissing, jars_of

JVM = ("-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto")
TOOLS = "org.apache.kafka.tools."
GROUPS = "consumer.group.ConsumerGroupCommand"
COUNT = 2000

pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # kafka-python's, of another module


@pytest.fixture(scope="session")
def java(lane_missing):
    """`java(tool, *arguments)` gives what the tool prints, as lines of single-spaced words."""
    if not shutil.which("java"):
        lane_missing("java is not on the PATH; Apache Kafka's tools need it.")
    try:
        jars = jars_of(Path(__file__).with_name("pom.xml"))
    except KafkaMissing as problem:
        lane_missing(str(problem))

    def run(tool, *arguments):
        command = ["java", *JVM, "-cp", f"{jars.resolve()}/*", TOOLS + tool, *arguments]
        done = subprocess.run(command, capture_output=True, text=True, timeout=120, stdin=subprocess.DEVNULL)
        assert done.returncode == 0, done.stdout + done.stderr
        return [" ".join(line.split()) for line in done.stdout.splitlines() if line.strip()]

    return run


def batches_in(data):
    """`data` up to the zeros behind its last batch."""
    end = 0
    while size := int.from_bytes(data[end + 8 : end + 12], "big"):
        end += 12 + size
    return data[:end]


def test_java_producers_consumers_and_admins_work(served, java, tmp_path):
    to = ("--bootstrap-server", served.bootstrap)
    java("TopicCommand", *to, "--create", "--topic", "t", "--partitions", "3", "--replication-factor", "1")
    described = java("TopicCommand", *to, "--describe", "--topic", "t")
    assert re.fullmatch(r"Topic: t TopicId: \S{22} PartitionCount: 3 ReplicationFactor: 1 Configs:.*", described[0])

    props = (f"bootstrap.servers={served.bootstrap}", "compression.type=lz4")
    load = ("--num-records", str(COUNT), "--record-size", "100", "--throughput", "-1")
    said = java("ProducerPerformance", "--topic", "t", *load, "--producer-props", *props)
    assert any(line.startswith(f"{COUNT} records sent") for line in said)
    ends = [line.split(":") for line in java("GetOffsetShell", *to, "--topic", "t")]
    assert sum(int(end) for _, _, end in ends) == COUNT

    member = ("--group", "g", "--consumer-property", "group.protocol=consumer")
    read = ("--from-beginning", "--max-messages", str(COUNT), "--timeout-ms", "60000")
    assert (
        len([line for line in java("consumer.ConsoleConsumer", *to, "--topic", "t", *read, *member) if len(line) == 100]) == COUNT
    )

    assert java(GROUPS, *to, "--list") == ["g"]
    lags = [line.split()[2:6] for line in java(GROUPS, *to, "--describe", "--group", "g") if line.startswith("g t ")]
    assert sorted(lags) == sorted([partition, end, end, "0"] for _, partition, end in ends)
    java(GROUPS, *to, "--group", "g", "--topic", "t", "--reset-offsets", "--to-earliest", "--execute")
    lags = [line.split()[3] for line in java(GROUPS, *to, "--describe", "--group", "g") if line.startswith("g t ")]
    assert lags == ["0"] * 3
    assert "successful" in java(GROUPS, *to, "--delete", "--group", "g")[-1]
    features = java("FeatureCommand", *to, "describe")
    assert any(line.startswith("Feature: group.version SupportedMinVersion: 0 SupportedMaxVersion: 1") for line in features)

    grown = next(path for path in sorted((served.data_dir / "topics").glob("*/__consumer_offsets-*/*.log")))
    log = tmp_path / grown.name  # without the room that the file has grown by, which the tool takes for a broken batch
    log.write_bytes(batches_in(grown.read_bytes()))
    dumped = "\n".join(java("DumpLogSegments", "--offsets-decoder", "--files", str(log)))
    assert '"groupId":"g"' in dumped
    assert "could not be decoded" not in dumped
