"""The command line on a real Apache Kafka, beside its own kafka-consumer-groups."""

import json
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from typer.testing import CliRunner

import apportion
from apportion.cli.main import app
from apportion.client.cluster import Cluster
from apportion.testing.kafka import RealKafka
from apportion.topics import partitions_of
from apportion.wire.batch import encode_batch
from tests.kafka.conftest import until
from tests.kafka.java import tool_output

CONSUMER_GROUPS = "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand"
FIRST_MS = 1_700_000_000_000


@pytest.fixture
def name() -> str:
    return f"cli-{uuid4().hex[:8]}"


def run(kafka: RealKafka, *arguments: str) -> tuple[int, str, str]:
    """Exit code, stdout and stderr of a command of ours."""
    result = CliRunner().invoke(app, [*arguments, "--bootstrap-server", kafka.bootstrap])
    return result.exit_code, result.stdout, result.stderr


def as_json(kafka: RealKafka, *arguments: str) -> Any:
    code, stdout, stderr = run(kafka, *arguments, "--json")
    assert (code, stderr) == (0, "")
    return json.loads(stdout)


def fill(cluster: Cluster, topic: str) -> None:
    """Three records, a minute apart, in each partition."""
    found = cluster.topics([topic], fresh=True).named(topic)
    assert found is not None
    for partition in partitions_of(found):
        for minute in range(3):
            batch = encode_batch([(None, b"a", ())], timestamp_ms=FIRST_MS + minute * 60_000)
            cluster.produce(partition, batch)


def read_and_commit(consumer: apportion.Consumer, count: int) -> None:
    """The consumer reads that many records, and commits."""
    while count:
        count -= len(consumer.poll())
    consumer.commit()


def rows_of_java(tools: Path, bootstrap: str, group: str) -> list[list[str]]:
    """The rows of kafka-consumer-groups --describe: topic, partition, offset, end, lag, member,
    host and client.
    """
    given = ("--bootstrap-server", bootstrap, "--describe", "--group", group)
    printed = tool_output(tools, CONSUMER_GROUPS, *given)
    rows = [line.split()[1:] for line in printed.splitlines() if line.startswith(group)]
    return sorted(rows)


@pytest.mark.parametrize("protocol", ["consumer", "classic"])
def test_a_group_is_described_as_by_kafkas_own_tool(
    kafka: RealKafka, tools: Path, cluster: Cluster, name: str, protocol: Any
) -> None:
    code, stdout, _ = run(kafka, "topics", "create", name, "--partitions", "2")
    assert (code, stdout) == (0, f"{name} is created: 2 partitions, replication factor 1.\n")
    fill(cluster, name)
    with apportion.Consumer(
        kafka.bootstrap,
        name,
        topics=[name],
        auto_offset_reset="earliest",
        group_protocol=protocol,
        client_id=f"client-of-{name}",
    ) as consumer:
        read_and_commit(consumer, 6)
        fill(cluster, name)
        described = as_json(kafka, "groups", "describe", name)
        text = run(kafka, "groups", "describe", name)[1]
        of_java = rows_of_java(tools, kafka.bootstrap, name)
    member = described["members"][0]["member"]
    assert [described[each] for each in ("group", "type", "state", "lag")] == [
        name,
        protocol,
        "Stable",
        6,
    ]
    client = f"client-of-{name}"
    partitions = [[name, str(number), "3", "6", "3", member] for number in range(2)]
    assert of_java == [[*each, "/127.0.0.1", client] for each in partitions]
    # Ours has the client first: it tells more than the host.
    assert [line.split() for line in text.splitlines()[2:]] == [
        [*each, client, "127.0.0.1"] for each in partitions
    ]


@pytest.mark.parametrize("protocol", ["consumer", "classic"])
def test_a_group_that_its_members_have_left_is_reset_and_deleted(
    kafka: RealKafka, tools: Path, cluster: Cluster, name: str, protocol: Any
) -> None:
    run(kafka, "topics", "create", name, "--partitions", "2")
    fill(cluster, name)
    with apportion.Consumer(
        kafka.bootstrap,
        name,
        topics=[name],
        auto_offset_reset="earliest",
        group_protocol=protocol,
    ) as consumer:
        read_and_commit(consumer, 6)
    until(lambda: as_json(kafka, "groups", "describe", name)["state"] == "Empty")
    command = ["groups", "reset-offsets", name, "--all-topics", "--shift-by", "-2", "--execute"]
    row = {"topic": name, "committed": 3, "new": 1, "note": None}
    assert as_json(kafka, *command) == {
        "group": name,
        "executed": True,
        "offsets": [row | {"partition": number} for number in range(2)],
    }
    assert rows_of_java(tools, kafka.bootstrap, name) == [
        [name, str(number), "1", "3", "2", "-", "-", "-"] for number in range(2)
    ]
    assert run(kafka, "groups", "delete", name, "--execute") == (0, f"{name} is deleted.\n", "")


def test_offsets_are_reset_and_groups_are_deleted(
    kafka: RealKafka, tools: Path, cluster: Cluster, name: str
) -> None:
    run(kafka, "topics", "create", name, "--partitions", "2")
    fill(cluster, name)
    command = ["groups", "reset-offsets", name, "--topic", name]
    assert run(kafka, *command, "--to-latest", "--execute", "--new-group")[0] == 0
    listed = {row["group"]: row for row in as_json(kafka, "groups", "list", "--state", "empty")}
    assert listed[name] == {
        "group": name,
        "type": "classic",
        "state": "Empty",
        "members": 0,
        "lag": 0,
        "out_of_range": 0,
    }
    assert run(kafka, *command, "--to-datetime", "2023-11-14T22:14:00", "--execute")[0] == 0
    assert rows_of_java(tools, kafka.bootstrap, name) == [
        [name, str(number), "1", "3", "2", "-", "-", "-"] for number in range(2)
    ]
    assert run(kafka, "groups", "delete-offsets", name, "--topic", f"{name}:1", "--execute") == (
        0,
        f"{name} has no offsets any more in {name} 1.\n",
        "",
    )
    described = as_json(kafka, "groups", "offsets", name)
    assert [row["partition"] for row in described["offsets"]] == [0]
    assert run(kafka, "groups", "delete", name, "--execute") == (0, f"{name} is deleted.\n", "")
    assert run(kafka, "groups", "describe", name)[0] == 1


@pytest.mark.parametrize("protocol", ["consumer", "classic"])
@pytest.mark.parametrize("instance", [None, "seat-7"])
def test_members_are_removed_and_a_group_with_members_is_kept(
    kafka: RealKafka, cluster: Cluster, name: str, protocol: Any, instance: Any
) -> None:
    run(kafka, "topics", "create", name, "--partitions", "2")
    fill(cluster, name)
    static = {} if instance is None else {"instance_id": instance}
    with apportion.Consumer(
        kafka.bootstrap, name, topics=[name], group_protocol=protocol, **static
    ) as consumer:
        until(lambda: bool(consumer.poll() or len(consumer.assignment) == 2))
        command = ["groups", "reset-offsets", name, "--topic", name, "--to-earliest"]
        for refused in (command, ["groups", "delete", name, "--execute"]):
            code, _, stderr = run(kafka, *refused, "--json")
            assert (code, json.loads(stderr)["error"]) == (1, "NON_EMPTY_GROUP")
        (member,) = as_json(kafka, "groups", "members", name)["members"]
        removed = as_json(kafka, "groups", "remove-members", name, "--all", "--execute")
    assert removed == [{"member": member["member"], "instance": instance, "removed": True}]


def test_settings_of_a_group_are_altered_and_shown(kafka: RealKafka, name: str) -> None:
    session = "consumer.session.timeout.ms"

    def described() -> Any:
        code, stdout, _ = run(kafka, "groups", "describe", name, "--configs", "--json")
        rows = json.loads(stdout)["configs"] if code == 0 else ()
        return {row["name"]: (row["value"], row["source"]) for row in rows}.get(session)

    command = ["groups", "alter", name, "--new-group", "--config"]
    code, _, stderr = run(kafka, *command, f"{session}=61000", "--json")
    assert (code, json.loads(stderr)["error"]) == (1, "INVALID_CONFIG")
    code, _, stderr = run(kafka, *command, "session.timeout=20000")
    assert (code, "did you mean" in stderr) == (1, True)
    changes = [{"name": session, "before": "6000", "new": "20000"}]
    altered = {"group": name, "type": None, "altered": True, "configs": changes}
    assert as_json(kafka, *command, f"{session}=20000") == altered
    until(lambda: described() == ("20000", "group"))
    back = [{"name": session, "before": "20000", "new": "6000"}]
    deleted = as_json(kafka, "groups", "alter", name, "--delete-config", session)
    assert deleted == altered | {"configs": back}
    until(lambda: described() is None)


def test_topics_are_described_grown_and_deleted(kafka: RealKafka, name: str) -> None:
    create = ["topics", "create", name, "--partitions", "1", "--config", "retention.ms=5000"]
    assert run(kafka, *create)[0] == 0
    assert run(kafka, *create, "--if-not-exists") == (0, f"{name} exists already.\n", "")
    assert run(kafka, "topics", "alter", name, "--partitions", "3") == (
        0,
        f"{name} has 3 partitions now.\n",
        "",
    )
    until(lambda: len(as_json(kafka, "topics", "describe", name)["partitions"]) == 3)
    described = as_json(kafka, "topics", "describe", name)
    assert (described["config"], described["replication_factor"]) == ({"retention.ms": "5000"}, 1)
    assert name in [row["topic"] for row in as_json(kafka, "topics", "list")]
    command = ["topics", "alter", name, "--config", "segment.bytes=2097152"]
    command += ["--delete-config", "retention.ms"]
    changes = [
        {"name": "segment.bytes", "before": "1073741824", "new": "2097152"},
        {"name": "retention.ms", "before": "5000", "new": "-1"},
    ]
    altered = {"topic": name, "altered": False, "exists": True, "configs": changes}
    assert as_json(kafka, *command, "--dry-run") == altered
    assert as_json(kafka, "topics", "describe", name)["config"] == {"retention.ms": "5000"}
    assert as_json(kafka, *command) == altered | {"altered": True}
    until(
        lambda: as_json(kafka, "topics", "describe", name)["config"] == {"segment.bytes": "2097152"}
    )
    assert run(kafka, "topics", "delete", name, "--execute") == (0, f"{name} is deleted.\n", "")
    until(lambda: run(kafka, "topics", "describe", name)[0] == 1)
