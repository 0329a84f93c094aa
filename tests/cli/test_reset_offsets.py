"""`apportion groups reset-offsets` on a running broker."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from apportion.cli.main import app
from apportion.client.cluster import Cluster
from apportion.member.cluster_queries.offsets import AllOffsetsQuery
from apportion.member.group_claims import metadata_of
from apportion.server.embedded import EmbeddedBroker
from apportion.topics import partitions_of
from apportion.wire.batch import encode_batch
from tests.cli.groups_on_a_broker import join
from tests.client import changes

FIRST_MS, MINUTE_MS = 1_700_000_000_000, 60_000


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    """A broker with `t`, of three partitions with three records each, a minute apart; and a group
    `g` that has read two records of partitions 0 and 1.
    """
    with EmbeddedBroker() as broker:
        cluster = Cluster(broker.bootstrap, client_id="reader")
        partitions = partitions_of(cluster.create_topic("t", 3))
        for partition in partitions:
            for minute in range(3):
                batch = encode_batch([(None, b"a", ())], timestamp_ms=FIRST_MS + minute * MINUTE_MS)
                cluster.produce(partition, batch)
        changes.commit(cluster, "g", dict.fromkeys(partitions[:2], 2))
        yield cluster
        cluster.close()


def reset(cluster: Cluster, *arguments: str, group: str = "g") -> tuple[int, str, str]:
    """Exit code, stdout and stderr of the command."""
    at = ["--bootstrap", cluster.bootstrap_servers]
    result = CliRunner().invoke(app, ["groups", "reset-offsets", group, *arguments, *at])
    return result.exit_code, result.stdout, result.stderr


def committed(cluster: Cluster, group: str = "g") -> dict[int, int | None]:
    found = cluster.ask_coordinator(AllOffsetsQuery(group))
    return {partition.partition: each.offset for partition, each in found.items()}


PLANNED = """\
TOPIC  PARTITION  COMMITTED  NEW
t              0          2    0
t              1          2    0
t              2          -    0
"""
DRY_RUN = "Nothing was changed: add --execute to commit these offsets.\n"


def test_new_offsets_are_shown_first_and_committed_on_request(cluster: Cluster) -> None:
    for options in ([], ["--dry-run"]):
        shown = reset(cluster, "--topic", "t", "--to-earliest", *options)
        assert shown == (0, PLANNED + DRY_RUN, "")
        assert committed(cluster) == {0: 2, 1: 2}
    assert reset(cluster, "--topic", "t", "--to-earliest", "--execute") == (0, PLANNED, "")
    assert committed(cluster) == {0: 0, 1: 0, 2: 0}


@pytest.mark.parametrize(
    ("options", "offsets"),
    [
        (["--topic", "t:0", "--to-latest"], {0: 3, 1: 2}),
        (["--topic", "t:2", "--to-current"], {0: 2, 1: 2, 2: 3}),
        (["--topic", "t:0-1", "--to-offset", "1"], {0: 1, 1: 1}),
        (["--all-topics", "--to-earliest"], {0: 0, 1: 0, 2: 0}),
        (["--topic", "t:0,1", "--shift-by", "-1"], {0: 1, 1: 1}),
        (["--topic", "t:0", "--topic", "t:1", "--shift-by", "1"], {0: 3, 1: 3}),
        (["--topic", "t:1", "--to-datetime", "2023-11-14T22:14:00"], {0: 2, 1: 1}),
        (["--topic", "t:1", "--to-datetime", "2024-01-01T00:00:00"], {0: 2, 1: 3}),
        (["--topic", "t:1", "--by-duration", "PT1S"], {0: 2, 1: 3}),
    ],
)
def test_each_target_is_committed(
    cluster: Cluster, options: list[str], offsets: dict[int, int]
) -> None:
    code, _, stderr = reset(cluster, *options, "--execute")
    assert (code, stderr) == (0, "")
    assert committed(cluster) == offsets


def test_an_offset_outside_of_the_log_becomes_the_nearest_in_it(cluster: Cluster) -> None:
    code, stdout, _ = reset(cluster, "--topic", "t:0,1", "--shift-by", "9", "--execute", "--json")
    row = {"topic": "t", "committed": 2, "new": 3, "note": "limited to the log"}
    assert (code, json.loads(stdout)) == (
        0,
        {"group": "g", "executed": True, "offsets": [row | {"partition": n} for n in (0, 1)]},
    )
    shown = reset(cluster, "--topic", "t:0", "--to-offset", "9")
    assert shown == (
        0,
        "TOPIC  PARTITION  COMMITTED  NEW  NOTE\n"
        "t              0          3    3  limited to the log\n" + DRY_RUN,
        "",
    )


def test_offsets_of_a_file_are_committed(cluster: Cluster, tmp_path: Path) -> None:
    file = tmp_path / "offsets.csv"
    file.write_text('"g","t",0,1\n"t",2,0\n\n')
    code, _, stderr = reset(cluster, "--from-file", str(file), "--execute")
    assert (code, stderr) == (0, "")
    assert committed(cluster) == {0: 1, 1: 2, 2: 0}
    file.write_text("h,t,0,1\n")
    code, _, stderr = reset(cluster, "--from-file", str(file), "--execute")
    assert (code, stderr) == (
        2,
        f"apportion groups: line 1 of {file} must be TOPIC,PARTITION,OFFSET, or have the group 'g' "
        "before that, not 'h,t,0,1'\n",
    )


def test_the_claim_of_a_sink_outlives_a_reset(cluster: Cluster) -> None:
    topic = cluster.topics(["t"]).named("t")
    assert topic is not None
    partition = partitions_of(topic)[0]
    claim = metadata_of(("/lake/a",))
    changes.commit(cluster, "g", {partition: 2}, metadata=claim)
    assert reset(cluster, "--topic", "t", "--to-earliest", "--execute")[0] == 0
    found = cluster.ask_coordinator(AllOffsetsQuery("g"))
    assert {each.partition: (*stored,) for each, stored in found.items()} == {
        0: (0, claim),
        1: (0, ""),
        2: (0, ""),
    }


def test_a_group_with_members_is_not_reset(cluster: Cluster) -> None:
    join(cluster, "g", "m")
    at = cluster.bootstrap_servers
    message = (
        "group 'g' has 1 member: m (client reader, host 127.0.0.1). Stop its applications first. "
        "One that was killed stays a member until its session ends, 45 s after its last heartbeat; "
        f"`apportion groups remove-members g --all --bootstrap {at}` removes it at once"
    )
    options = ["--topic", "t", "--to-earliest"]
    assert reset(cluster, *options) == (1, "", f"apportion groups: {message}\n")
    code, stdout, stderr = reset(cluster, *options, "--execute", "--json")
    assert (code, stdout, json.loads(stderr)) == (
        1,
        "",
        {"error": "NON_EMPTY_GROUP", "message": message},
    )
    assert committed(cluster) == {0: 2, 1: 2}


def test_the_session_of_its_members_is_the_one_that_the_group_has(cluster: Cluster) -> None:
    join(cluster, "g", "m")
    at = ["--bootstrap", cluster.bootstrap_servers]
    session = ["--config", "consumer.session.timeout.ms=50000"]
    assert CliRunner().invoke(app, ["groups", "alter", "g", *session, *at]).exit_code == 0
    refused = reset(cluster, "--topic", "t", "--to-earliest")
    assert "until its session ends, 50 s after its last heartbeat" in refused[2]


def test_a_new_group_is_made_on_request_alone(cluster: Cluster) -> None:
    options = ["--topic", "t:0", "--to-offset", "1", "--execute"]
    at = cluster.bootstrap_servers
    assert reset(cluster, *options, group="new") == (
        1,
        "",
        f"apportion groups: there is no group 'new': `apportion groups list --bootstrap {at}` "
        "shows what there is; --new-group makes a new one with these offsets\n",
    )
    assert reset(cluster, *options, "--new-group", group="new")[0] == 0
    assert committed(cluster, "new") == {0: 1}


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (
            ["--topic", "nosuch", "--to-latest"],
            1,
            "there is no topic 'nosuch': `apportion topics list --bootstrap {at}` shows what there "
            "is",
        ),
        (
            ["--topic", "t:1-4", "--to-latest"],
            1,
            "topic 't' has the partitions 0-2, and no 3-4",
        ),
        (
            ["--topic", "t", "--shift-by", "1"],
            1,
            "t-2: there is no committed offset to shift; give --to-offset or the like",
        ),
        (
            ["--topic", "t", "--shift-by", "x"],
            2,
            "--shift-by must be a whole number, not 'x'",
        ),
        (["--to-latest"], 2, "name partitions as --topic TOPIC[:0,1], or say --all-topics"),
        (
            ["--topic", "t"],
            2,
            "say where to: --to-earliest, --to-latest, --to-current, --to-offset, --to-datetime, "
            "--by-duration, --shift-by, or --from-file",
        ),
        (
            ["--topic", "t", "--to-latest", "--dry-run", "--execute"],
            2,
            "say --dry-run or --execute, not both",
        ),
        (
            ["--topic", "t", "--from-file", "nosuch.csv"],
            2,
            "--from-file names its partitions: leave --topic and --all-topics out",
        ),
        (
            ["--from-file", "nosuch.csv"],
            2,
            "--from-file nosuch.csv cannot be read: [Errno 2] No such file or directory: "
            "'nosuch.csv'",
        ),
    ],
)
def test_a_wrong_reset_is_refused_with_the_next_step(
    cluster: Cluster, arguments: list[str], code: int, message: Any
) -> None:
    expected = message.format(at=cluster.bootstrap_servers)
    assert reset(cluster, *arguments) == (code, "", f"apportion groups: {expected}\n")
    exit_code, stdout, stderr = reset(cluster, *arguments, "--json")
    assert (exit_code, stdout, json.loads(stderr)["message"]) == (code, "", expected)
    assert committed(cluster) == {0: 2, 1: 2}


def test_all_topics_of_a_group_without_offsets_are_none(cluster: Cluster) -> None:
    code, _, stderr = reset(cluster, "--all-topics", "--to-latest", "--new-group", group="new")
    assert (code, stderr) == (
        1,
        "apportion groups: group 'new' has no committed offsets, so --all-topics means none: name "
        "topics with --topic\n",
    )
