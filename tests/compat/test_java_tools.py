"""Apache Kafka's own command-line tools, and so its Java clients, on our broker and on its
files.
"""

import json
import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

import pytest

from apportion.testing.kafka import KafkaMissing, jars_of
from tests.compat.java.group_under_test import GroupUnderTest
from tests.compat.java.history import all_read, committed_by, settled, until
from tests.compat.java.jvm import Jvm, classic

if TYPE_CHECKING:
    from tests.compat.conftest import Served


JVM = ("-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto")
TOOLS = "org.apache.kafka.tools."
GROUPS = "consumer.group.ConsumerGroupCommand"
COUNT = 2000

# kafka-python's, of another module
pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")


@pytest.fixture(scope="session")
def java(lane_missing: Callable[[str], NoReturn]) -> Callable[..., list[str]]:
    """`java(tool, *arguments)` gives what the tool prints, as lines of single-spaced words."""
    if not shutil.which("java"):
        lane_missing("java is not on the PATH; Apache Kafka's tools need it.")
    try:
        jars = jars_of(Path(__file__).with_name("pom.xml"))
    except KafkaMissing as problem:
        lane_missing(str(problem))

    def run(tool: str, *arguments: str) -> list[str]:
        command = ["java", *JVM, "-cp", f"{jars.resolve()}/*", TOOLS + tool, *arguments]
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=120, stdin=subprocess.DEVNULL
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return [" ".join(line.split()) for line in done.stdout.splitlines() if line.strip()]

    return run


def batches_in(data: bytes) -> bytes:
    """`data` up to the zeros behind its last batch."""
    end = 0
    while size := int.from_bytes(data[end + 8 : end + 12], "big"):
        end += 12 + size
    return data[:end]


def create_topic(java: Callable[..., list[str]], served: "Served") -> tuple[str, str]:
    """The topic `t` with three partitions, made by Kafka's own tool."""
    to = ("--bootstrap-server", served.bootstrap)
    counts = ("--partitions", "3", "--replication-factor", "1")
    java("TopicCommand", *to, "--create", "--topic", "t", *counts)
    return to


def produce_and_consume(
    java: Callable[..., list[str]], served: "Served", to: tuple[str, str]
) -> list[tuple[str, ...]]:
    """`COUNT` records are written to `t` and read by the group `g`: (topic, partition, end)."""
    props = (f"bootstrap.servers={served.bootstrap}", "compression.type=lz4")
    load = ("--num-records", str(COUNT), "--record-size", "100", "--throughput", "-1")
    printed = java("ProducerPerformance", "--topic", "t", *load, "--producer-props", *props)
    assert any(line.startswith(f"{COUNT} records sent") for line in printed)
    member = ("--group", "g", "--consumer-property", "group.protocol=consumer")
    read = ("--from-beginning", "--max-messages", str(COUNT), "--timeout-ms", "60000")
    lines = java("consumer.ConsoleConsumer", *to, "--topic", "t", *read, *member)
    assert len([line for line in lines if len(line) == 100]) == COUNT
    return [tuple(line.split(":")) for line in java("GetOffsetShell", *to, "--topic", "t")]


def described_partitions(
    java: Callable[..., list[str]], to: tuple[str, str]
) -> list[tuple[str, ...]]:
    """(partition, committed offset, end, lag) of each partition that the group `g` reads."""
    lines = java(GROUPS, *to, "--describe", "--group", "g")
    return [tuple(line.split()[2:6]) for line in lines if line.startswith("g t ")]


def test_java_admins_create_topics_and_see_features(
    served: "Served", java: Callable[..., list[str]]
) -> None:
    to = create_topic(java, served)
    described = java("TopicCommand", *to, "--describe", "--topic", "t")
    assert re.fullmatch(
        r"Topic: t TopicId: \S{22} PartitionCount: 3 ReplicationFactor: 1 Configs:.*", described[0]
    )
    features = java("FeatureCommand", *to, "describe")
    assert any(
        line.startswith("Feature: group.version SupportedMinVersion: 0 SupportedMaxVersion: 1")
        for line in features
    )


def test_java_producers_and_consumers_work_and_admins_reset_and_delete_their_group(
    served: "Served", java: Callable[..., list[str]]
) -> None:
    to = create_topic(java, served)
    ends = produce_and_consume(java, served, to)
    assert sum(int(end) for _, _, end in ends) == COUNT
    assert java(GROUPS, *to, "--list") == ["g"]
    assert sorted(described_partitions(java, to)) == sorted(
        (partition, end, end, "0") for _, partition, end in ends
    )
    reset = ("--reset-offsets", "--to-earliest", "--execute")
    java(GROUPS, *to, "--group", "g", "--topic", "t", *reset)
    assert [offset for _, offset, _, _ in described_partitions(java, to)] == ["0"] * 3
    assert "successful" in java(GROUPS, *to, "--delete", "--group", "g")[-1]


def test_javas_tool_reads_the_log_of_the_offsets_topic(
    served: "Served", java: Callable[..., list[str]], tmp_path: Path
) -> None:
    produce_and_consume(java, served, create_topic(java, served))
    grown = next(
        path
        for path in sorted((served.data_dir / "topics").glob("*/__consumer_offsets-*/*.log"))
        if batches_in(path.read_bytes())
    )
    # without the zeros by which the file has grown in advance: the tool takes them for a torn batch
    log = tmp_path / grown.name
    log.write_bytes(batches_in(grown.read_bytes()))
    dumped = "\n".join(java("DumpLogSegments", "--offsets-decoder", "--files", str(log)))
    assert '"groupId":"g"' in dumped
    assert "could not be decoded" not in dumped


def test_java_admins_delete_records(
    bootstrap: str, java: Callable[..., list[str]], shared_jvm: Jvm, tmp_path: Path
) -> None:
    tested = GroupUnderTest(bootstrap, shared_jvm, 2)
    tested.produce(200)
    ends = [[each[1] for each in tested.sent].count(partition) for partition in range(2)]
    wanted = [
        {"topic": tested.topic, "partition": partition, "offset": offset}
        for partition, offset in enumerate((5, -1))
    ]
    (tmp_path / "wanted.json").write_text(json.dumps({"version": 1, "partitions": wanted}))
    to = ("--bootstrap-server", bootstrap)
    output = java("DeleteRecordsCommand", *to, "--offset-json-file", str(tmp_path / "wanted.json"))
    assert sorted(output[-2:]) == [
        f"partition: {tested.topic}-0 low_watermark: 5",
        f"partition: {tested.topic}-1 low_watermark: {ends[1]}",
    ]
    starts = java("GetOffsetShell", *to, "--topic", tested.topic, "--time", "earliest")
    assert sorted(starts) == [f"{tested.topic}:0:5", f"{tested.topic}:1:{ends[1]}"]


def test_java_admins_see_and_change_classic_groups(
    bootstrap: str, java: Callable[..., list[str]], shared_jvm: Jvm
) -> None:
    tested = GroupUnderTest(bootstrap, shared_jvm, 4)
    topic, group = tested.topic, tested.group
    tested.produce(200)
    ends = [[each[1] for each in tested.sent].count(partition) for partition in range(4)]
    both = [
        tested.join(shared_jvm, name, classic("range", client_id=name)) for name in ("one", "two")
    ]
    settled(tested.partitions, *both)
    all_read(tested.sent, both)
    until(
        lambda: (
            committed_by(both) == {(topic, partition): end for partition, end in enumerate(ends)}
        ),
        "everything is committed",
    )
    to = ("--bootstrap-server", bootstrap)
    of_group = (*to, "--group", group)

    def run_tool(tool: str, *arguments: str) -> list[str]:
        return [re.sub(r"(one|two)-\S+ ", r"\1-ID ", line) for line in java(tool, *arguments)[1:]]

    assert sorted(run_tool(GROUPS, *of_group, "--describe")) == [
        f"{group} {topic} {partition} {end} {end} 0 {name}-ID /127.0.0.1 {name}"
        for partition, (end, name) in enumerate(
            zip(ends, ("one", "one", "two", "two"), strict=True)
        )
    ]
    assert sorted(run_tool(GROUPS, *of_group, "--describe", "--members", "--verbose")) == [
        f"{group} one-ID /127.0.0.1 one 2 - {topic}:0,1 - -",
        f"{group} two-ID /127.0.0.1 two 2 - {topic}:2,3 - -",
    ]
    described = run_tool(GROUPS, *of_group, "--describe", "--state")
    assert [re.sub(r"\(\d+\)", "(N)", line) for line in described] == [
        f"{group} {bootstrap} (N) range Stable 2"
    ]
    assert run_tool(GROUPS, *to, "--list", "--state", "--type") == [f"{group} Classic Stable"]
    assert run_tool(
        "GroupsCommand", *to, "--list", "--group-type", "classic", "--protocol", "consumer"
    ) == [f"{group} Classic consumer"]
    assert "GroupNotEmptyException" in run_tool(GROUPS, *of_group, "--delete")[0]

    for member in both:
        member.leave()
    reset = ("--topic", topic, "--reset-offsets", "--to-offset", "1", "--execute")
    assert sorted(run_tool(GROUPS, *of_group, *reset)) == [
        f"{group} {topic} {partition} 1" for partition in range(4)
    ]
    assert sorted(run_tool(GROUPS, *of_group, "--describe")) == [
        f"{group} {topic} {partition} 1 {end} {end - 1} - - -" for partition, end in enumerate(ends)
    ]
    assert "successful" in java(GROUPS, *of_group, "--delete")[-1]
    assert java(GROUPS, *to, "--list") == []
