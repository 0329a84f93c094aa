"""`apportion doctor`: each check finds what is there, and says what to do where something lacks."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import write_deltalake
from typer.testing import CliRunner

from apportion import __version__
from apportion.broker import AclOperation, BrokerSecurity, EmbeddedBroker
from apportion.cli.doctor.finding import Finding, Result
from apportion.cli.doctor.programs import check_java, check_packages
from apportion.cli.main import app
from apportion.client.cluster import Cluster
from apportion.member.batch.span import sorted_span
from apportion.member.group_claims import metadata_of
from apportion.topics import partitions_of
from tests.cli.members import join
from tests.cli.programs import program
from tests.client import changes
from tests.node.acl_requests import acl

HERE = ".".join(map(str, sys.version_info[:3]))
OTHER = "delta.Writer(..., adopt=True)"


def examined(*arguments: str) -> tuple[int, dict[str, list[Any]]]:
    """The exit code, and result, finding and remedy of each check of a query's parts."""
    result = CliRunner().invoke(app, ["doctor", *arguments, "--json"], env={"SPARK_HOME": None})
    checks = json.loads(result.stdout)["checks"]
    assert [each["check"] for each in checks[:4]] == ["Python", "Spark", "Java", "workers' Python"]
    return result.exit_code, {
        each["check"]: [each["result"], each["found"], each["remedy"]] for each in checks[4:]
    }


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    """A broker with `t`, whose group `g` has a member, and `lake` the offsets of a table."""
    with EmbeddedBroker() as broker:
        cluster = Cluster(broker.bootstrap)
        (partition,) = partitions_of(cluster.create_topic("t", 1))
        join(cluster, "g", "member-1")
        changes.commit(cluster, "lake", {partition: 0}, metadata=metadata_of(("/lake/a",)))
        both = metadata_of(("/lake/a", "/lake/b"))
        changes.commit(cluster, "lakes", {partition: 0}, metadata=both)
        changes.commit(cluster, "plain", {partition: 0})
        yield cluster
        cluster.close()


# programs


def test_the_packages_of_spark_are_named_with_their_versions() -> None:
    finding = check_packages()
    assert finding.result is Result.OK
    assert [each.split()[0] for each in finding.found.split(", ")] == [
        *("pyspark", "pyarrow", "numba", "pandas", "deltalake", "confluent-kafka")
    ]


def test_java_must_be_new_enough(tmp_path: Path) -> None:
    remedy = "install Java 17, 21 or 25 and set JAVA_HOME to its directory"
    java = tmp_path / "java"
    assert check_java({"PATH": str(tmp_path)}) == Finding(
        "Java", Result.FAILED, "JAVA_HOME is not set, and no java is on the PATH", remedy
    )
    for printed, found in (
        ("echo '    java.specification.version = 21' >&2", f"21, {java}, of the PATH"),
        (
            "echo '    java.specification.version = 1.8' >&2",
            f"{java}, of the PATH, is version 8",
        ),
        ("exit 1", f"{java}, of the PATH, does not start"),
    ):
        assert check_java(program(tmp_path, "java", printed)).found == found


# the cluster


def test_a_query_that_can_run_fails_no_check(
    cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bootstrap = cluster.bootstrap_servers
    table, checkpoint = str(tmp_path / "table"), str(tmp_path / "v1")
    monkeypatch.setenv("PYSPARK_PYTHON", sys.executable)
    code, found = examined(
        *("--bootstrap", bootstrap, "--group", "g", "--topic", "t"),
        *("--table", table, "--checkpoint", checkpoint),
    )
    assert code == 0
    assert found == {
        "cluster": ["ok", f"{bootstrap}: 1 broker, plain, without a login", None],
        "topic t": ["ok", "1 partition, 0 offsets from their beginning to their end", None],
        "KIP-848": ["ok", "the brokers have consumer groups", None],
        "group g": ["ok", "consumer, Stable, 1 member, lag 0", None],
        "sink": ["ok", "the group belongs to no table yet", None],
        "checkpoint": ["ok", f"{checkpoint} does not exist yet: a query begins with it", None],
        "table": ["ok", f"{table} does not exist yet: the writer creates the table", None],
    }


def test_parts_of_a_query_without_a_name_are_skipped(cluster: Cluster) -> None:
    _, found = examined("--bootstrap", cluster.bootstrap_servers)
    assert {check: each[0] for check, each in found.items()} == {
        "cluster": "ok",
        "group": "skipped",
        "KIP-848": "skipped",
        "sink": "skipped",
        "checkpoint": "skipped",
        "table": "skipped",
    }


def test_a_topic_and_a_group_may_be_new(cluster: Cluster) -> None:
    at = cluster.bootstrap_servers
    _, found = examined("--bootstrap", at, "--group", "new", "--topic", "nowhere")
    assert found["topic nowhere"] == [
        "warning",
        "does not exist: a query waits for it, and reads it from its beginning",
        f"see that the name is right, or create it: apportion topics create nowhere "
        f"--bootstrap {at}",
    ]
    assert found["group new"] == ["ok", "does not exist yet: the first query creates it", None]


def test_a_group_of_another_table_fails(cluster: Cluster) -> None:
    asked = ("--bootstrap", cluster.bootstrap_servers, "--group", "lake", "--topic", "t")
    code, found = examined(*asked, "--table", "/lake/b")
    assert (code, found["sink"]) == (
        1,
        [
            "failed",
            "the group belongs to /lake/a, as its committed offsets say",
            "give this query a group of its own (kafka.group.id), or the group's table",
        ],
    )
    asked = ("--bootstrap", cluster.bootstrap_servers, "--group", "lakes", "--topic", "t")
    assert examined(*asked, "--table", "/lake/b")[1]["sink"] == [
        *("ok", "the group belongs to /lake/a and /lake/b", None)
    ]
    asked = ("--bootstrap", cluster.bootstrap_servers, "--group", "lake", "--topic", "t")
    for also in (("--table", "/lake/a"), ()):
        assert examined(*asked, *also)[1]["sink"] == [*("ok", "the group belongs to /lake/a", None)]


def test_offsets_that_came_from_no_table_are_a_warning(cluster: Cluster) -> None:
    asked = ("--bootstrap", cluster.bootstrap_servers, "--group", "plain", "--topic", "t")
    result, found, remedy = examined(*asked, "--table", "/lake/b")[1]["sink"]
    assert (result, found) == (
        "warning",
        "the group has committed offsets that did not come from a table",
    )
    assert OTHER in remedy


def test_a_cluster_that_cannot_be_reached_fails() -> None:
    code, found = examined("--bootstrap", "127.0.0.1:1", "--topic", "t", "--group", "g")
    assert (code, found["cluster"][0]) == (1, "failed")
    assert "127.0.0.1:1" in found["cluster"][1]
    assert "see that a broker runs there" in found["cluster"][2]
    why = ["skipped", "the cluster was not reached", None]
    assert (found["topic t"], found["group g"]) == (why, why)


def test_a_host_that_nobody_knows_fails() -> None:
    code, found = examined("--bootstrap", "no.such.host.invalid:9092")
    assert (code, found["cluster"][0]) == (1, "failed")
    assert "no.such.host.invalid" in found["cluster"][1]
    assert "see that a broker runs there" in found["cluster"][2]


def test_a_spark_that_is_too_old_is_a_finding(tmp_path: Path) -> None:
    (tmp_path / "pyspark").mkdir()
    (tmp_path / "pyspark" / "__init__.py").touch()
    (tmp_path / "pyspark" / "version.py").write_text("__version__ = '3.5.9'")
    path = os.pathsep.join([str(tmp_path), *sys.path])
    command = [sys.executable, "-m", "apportion.cli.main", "doctor", "--json"]
    done = subprocess.run(
        [*command, "--bootstrap", "127.0.0.1:1", "--table", "lake"],
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
    )
    checks = {each["check"]: each for each in json.loads(done.stdout)["checks"]}
    assert (done.returncode, checks["Spark"]["result"]) == (1, "failed")
    assert "this Python has pyspark 3.5.9: pip install" in checks["Spark"]["remedy"]
    assert checks["table"]["result"] == "skipped"


def test_a_bootstrap_that_makes_no_sense_fails() -> None:
    code, found = examined("--bootstrap", "localhost")
    assert (code, found["cluster"][0]) == (1, "failed")
    assert "localhost" in found["cluster"][1]


def test_a_permission_that_is_missing_is_named(tmp_path: Path) -> None:
    security = BrokerSecurity(
        protocol="SASL_PLAINTEXT",
        users={"alice": "a-secret", "bob": "b-secret"},
        mechanisms=["PLAIN"],
        super_users=["User:alice"],
    )
    path = tmp_path / "bob.properties"
    with EmbeddedBroker(security=security) as broker:
        properties = broker.client_properties("bob")
        path.write_text("\n".join(f"{name}={value}" for name, value in properties.items()))
        at = ("--bootstrap-server", broker.bootstrap, "--command-config", str(path))
        code, found = examined(*at, "--group", "g", "--topic", "t")
    assert code == 1
    assert found["cluster"] == ["ok", f"{broker.bootstrap}: 1 broker, reached as {path} says", None]
    assert found["sink"] == ["skipped", "no topic was found", None]
    for check, kind in (("topic t", "TOPIC"), ("group g", "GROUP"), ("KIP-848", "GROUP")):
        assert found[check][0] == "failed"
        said = found[check][1]
        assert said.startswith(f"{kind}_AUTHORIZATION_FAILED: ")
        assert said.endswith(f" --bootstrap {broker.bootstrap}`")


def test_a_topic_that_may_be_described_and_not_read_names_what_is_missing(tmp_path: Path) -> None:
    security = BrokerSecurity(
        protocol="SASL_PLAINTEXT",
        users={"alice": "a-secret", "bob": "b-secret"},
        mechanisms=["PLAIN"],
        super_users=["User:alice"],
        acls=[acl(principal="User:bob", operation=AclOperation.DESCRIBE, name="t")],
    )
    path = tmp_path / "bob.properties"
    with EmbeddedBroker(security=security) as broker:
        for user in ("alice", "bob"):
            properties = broker.client_properties(user)
            path.write_text("\n".join(f"{name}={value}" for name, value in properties.items()))
            at = ("--bootstrap-server", broker.bootstrap, "--command-config", str(path))
            if user == "alice":
                CliRunner().invoke(app, ["topics", "create", "t", "--partitions", "1", *at])
        result, found, _ = examined(*at, "--topic", "t")[1]["topic t"]
    assert result == "failed"
    assert "no permission for READ on the topic 't'" in found


# the paths


def checkpoint_with(directory: Path, *lines: str, version: str = "v1") -> str:
    for log in ("offsets", "commits"):
        (directory / log).mkdir(parents=True)
        (directory / log / "7").write_text("\n".join([version, "{}", *lines]))
    return str(directory)


def looked_at(cluster: Cluster, *arguments: str) -> dict[str, list[Any]]:
    return examined("--bootstrap", cluster.bootstrap_servers, *arguments)[1]


def test_a_checkpoint_belongs_to_one_query_and_its_table(cluster: Cluster, tmp_path: Path) -> None:
    span = sorted_span("id", {})._replace(sinks=("/lake/a",)).canonical_json()
    ours = checkpoint_with(tmp_path / "ours", span)
    named = checkpoint_with(tmp_path / "named", f"flights:{span}", version="v2")
    foreign = checkpoint_with(tmp_path / "foreign", '{"logOffset":0}')
    own = "give the query a checkpoint of its own"
    for path in (ours, named):
        assert looked_at(cluster, "--checkpoint", path)["checkpoint"] == [
            *("ok", f"{path}: a query goes on after batch 7", None)
        ]
    (Path(named) / "commits" / "7").unlink()
    assert looked_at(cluster, "--checkpoint", named)["checkpoint"] == [
        *("ok", f"{named}: a query begins with batch 7 again, which has not ended", None)
    ]
    assert looked_at(cluster, "--checkpoint", ours, "--table", "/lake/b")["checkpoint"] == [
        *("failed", f"{ours} belongs to a query of /lake/a", own)
    ]
    assert looked_at(cluster, "--checkpoint", foreign)["checkpoint"] == [
        *("failed", f"{foreign} belongs to a query without a source of apportion", own)
    ]
    assert looked_at(cluster, "--checkpoint", "s3://bucket/v1")["checkpoint"] == [
        *("skipped", "s3://bucket/v1 is not on this machine, so it was not looked at", None)
    ]


def test_a_checkpoint_is_a_directory(cluster: Cluster, tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.touch()
    found = looked_at(cluster, "--checkpoint", f"file://{path}")["checkpoint"]
    assert found == ["failed", f"{path} is a file", "name a directory"]


def test_a_table_is_one_that_the_writer_can_write_to(cluster: Cluster, tmp_path: Path) -> None:
    plain, partitioned, files, unfit, damaged = (f"{tmp_path}/{number}" for number in range(5))
    rows = pa.table({"topic": ["t"], "partition": pa.array([0], pa.int32()), "value": ["v"]})
    write_deltalake(plain, rows)
    write_deltalake(unfit, pa.table({"offset": [0], "partition": [0]}))
    write_deltalake(partitioned, rows, partition_by=["partition"])
    Path(files).mkdir()
    Path(files, "readme.txt").touch()
    write_deltalake(damaged, rows)
    Path(damaged, "_delta_log", f"{0:020}.json").write_text("")
    assert looked_at(cluster, "--table", plain)["table"] == [
        "warning",
        f"{plain}, version 0, columns topic, partition, value",
        "the writer adds offset: each row says which record it came from",
    ]
    refused = (  # in the writer's own words, which say what to do
        f"the Delta table {partitioned} is partitioned by partition, but the writer makes a file "
        "for each Kafka partition: write to a table that is not partitioned",
        "the Delta table holds column partition as long, the query writes integer; cast it in the "
        "query or write to another table",
        f"the Delta table {damaged} cannot be opened: Kernel error: No table metadata or protocol "
        "found in delta log; restore what is damaged or cannot be read, drop a table feature that "
        "is not supported, or give the Delta writer another path",
        f"{files} is not a Delta table and not empty, it holds readme.txt: give the Delta writer "
        "the path of a table or of a directory that is new",
    )
    for path, said in zip((partitioned, unfit, damaged, files), refused, strict=True):
        assert looked_at(cluster, "--table", path)["table"] == ["failed", said, None]
    elsewhere = ["skipped", "s3://bucket/t is not on this machine, so it was not looked at", None]
    assert looked_at(cluster, "--table", "s3://bucket/t")["table"] == elsewhere


# as lines


def test_lines_say_each_finding_and_the_next_step(cluster: Cluster) -> None:
    result = CliRunner().invoke(app, ["doctor", "--bootstrap", "127.0.0.1:1"])
    lines = result.stdout.splitlines()
    assert lines[0] == f"ok       Python: {HERE}, apportion {__version__}, {sys.executable}"
    failed = next(number for number, line in enumerate(lines) if "failed   cluster" in line)
    assert lines[failed + 1].startswith("         -> see that a broker runs there")
    assert lines[-1].endswith("failed: a query would not run.")
