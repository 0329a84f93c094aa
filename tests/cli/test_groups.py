"""`apportion groups` shows what a running broker knows."""

import json
from collections.abc import Iterator
from typing import Any

import pytest
from typer.testing import CliRunner

from apportion.cli.main import app
from apportion.client.cluster import Cluster
from apportion.errors import Code
from apportion.member.group_claims import metadata_of
from apportion.server.embedded import EmbeddedBroker
from apportion.topics import partitions_of
from apportion.wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from apportion.wire.messages.delete_groups import DeleteGroupsRequest
from tests.cli.groups_on_a_broker import as_json, broker_with_groups, join, run
from tests.cli.loading_broker import LoadingBroker
from tests.client import changes


@pytest.fixture(scope="module")
def bootstrap() -> Iterator[str]:
    """A broker with the groups `g` and `h`."""
    with broker_with_groups() as bootstrap:
        yield bootstrap


LISTED = """\
GROUP  TYPE      STATE   MEMBERS  LAG
g      consumer  Stable        1    1
h      classic   Empty         0    0
"""


def test_the_list_names_every_group_with_its_state_members_and_lag(bootstrap: str) -> None:
    result = CliRunner().invoke(app, ["groups", "list", "--bootstrap", bootstrap])
    assert (result.exit_code, result.output) == (0, LISTED)


@pytest.mark.parametrize(
    ("options", "groups"),
    [
        (["--state", "stable"], ["g"]),
        (["--state", "Empty,Stable"], ["g", "h"]),
        (["--state", "empty", "--state", "dead"], ["h"]),
        (["--type", "CONSUMER"], ["g"]),
        (["--type", "classic", "--state", "stable"], []),
    ],
)
def test_the_list_is_filtered_by_state_and_type(
    bootstrap: str, options: list[str], groups: list[str]
) -> None:
    rows = as_json("list", *options, "--bootstrap", bootstrap)
    assert [row["group"] for row in rows] == groups


def test_a_cluster_without_groups_has_a_sentence_and_no_table() -> None:
    with EmbeddedBroker() as broker:
        listed, as_json, described = (
            CliRunner().invoke(app, ["groups", *command, "--bootstrap", broker.bootstrap])
            for command in (["list"], ["list", "--json"], ["describe", "--all-groups"])
        )
    assert (listed.exit_code, listed.stdout) == (0, "There are no groups.\n")
    assert (as_json.exit_code, as_json.stdout) == (0, "[]\n")
    assert (described.exit_code, described.stdout) == (0, "There are no groups.\n")


DESCRIBED = """\
g: a consumer group, Stable, epoch 2, assignor uniform, 1 member, total lag 1
TOPIC  PARTITION  COMMITTED  END  LAG  OWNER     CLIENT  HOST
t              0          1    2    1  member-1  reader  127.0.0.1
"""
MEMBERS = """\
MEMBER    CLIENT  HOST       EPOCH  OWNS
member-1  reader  127.0.0.1      2  t 0
"""
VERBOSE_MEMBERS = """\
MEMBER    CLIENT  HOST       EPOCH  OWNS  TOPICS
member-1  reader  127.0.0.1      2  t 0   t
"""
VERBOSE_EPOCH = "epoch 2, assignment epoch 2,"
TITLE, OFFSETS = DESCRIBED.split("\n", 1)


@pytest.mark.parametrize(
    ("command", "output"),
    [
        (["describe", "g"], DESCRIBED),
        (["describe", "--group", "g", "--offsets"], DESCRIBED),
        (["describe", "g", "--members"], f"{TITLE}\n{MEMBERS}"),
        (
            ["describe", "g", "--verbose"],
            DESCRIBED.replace("epoch 2,", VERBOSE_EPOCH) + VERBOSE_MEMBERS,
        ),
        (
            ["describe", "g", "--members", "--verbose"],
            f"{TITLE}\n{VERBOSE_MEMBERS}".replace("epoch 2,", VERBOSE_EPOCH),
        ),
        (["members", "g", "--verbose"], VERBOSE_MEMBERS),
        (
            ["describe", "g", "h", "--state", "--verbose"],
            "GROUP  TYPE      STATE   EPOCH  ASSIGNMENT-EPOCH  ASSIGNOR  MEMBERS  LAG\n"
            "g      consumer  Stable      2                 2  uniform         1    1\n"
            "h      classic   Empty       -                 -  -               0    0\n",
        ),
        (
            ["describe", "--all-groups", "--state"],
            "GROUP  TYPE      STATE   EPOCH  ASSIGNOR  MEMBERS  LAG\n"
            "g      consumer  Stable      2  uniform         1    1\n"
            "h      classic   Empty       -  -               0    0\n",
        ),
        (
            ["describe", "h", "g"],
            "h: a classic group, Empty, 0 members, total lag 0\n"
            "TOPIC  PARTITION  COMMITTED  END  LAG  OWNER  CLIENT  HOST\n"
            "t              0          2    2    0  -      -       -\n"
            f"\n{DESCRIBED}",
        ),
        (["members", "g"], MEMBERS),
        (["members", "--group", "h"], "Group h has no members.\n"),
        (["offsets", "g"], OFFSETS),
        (["offsets", "g", "--topic", "t:0"], OFFSETS),
    ],
)
def test_a_group_is_described_with_owners_and_lag(
    bootstrap: str, command: list[str], output: str
) -> None:
    result = CliRunner().invoke(app, ["groups", *command, "--bootstrap", bootstrap])
    assert (result.exit_code, result.output) == (0, output)


def test_json_holds_the_same_as_the_tables(bootstrap: str) -> None:
    at = ["--bootstrap", bootstrap]
    assert as_json("list", *at) == [
        {"group": "g", "type": "consumer", "state": "Stable", "members": 1, "lag": 1},
        {"group": "h", "type": "classic", "state": "Empty", "members": 0, "lag": 0},
    ]
    group = {
        "group": "g",
        "type": "consumer",
        "state": "Stable",
        "epoch": 2,
        "assignment_epoch": 2,
        "assignor": "uniform",
        "members": [
            {
                "member": "member-1",
                "instance": None,
                "client": "reader",
                "host": "/127.0.0.1",
                "protocol": "consumer",
                "rack": None,
                "epoch": 2,
                "owns": {"t": [0]},
                "target": {"t": [0]},
                "topics": ["t"],
                "regex": None,
            }
        ],
    }
    offsets = {
        "sinks": [],
        "lag": 1,
        "offsets": [
            {
                "topic": "t",
                "partition": 0,
                "committed": 1,
                "end": 2,
                "lag": 1,
                "owner": "member-1",
            }
        ],
    }
    assert as_json("describe", "g", *at) == group | offsets
    assert as_json("offsets", "g", *at) == group | offsets
    assert as_json("members", "g", *at) == group
    assert [each["group"] for each in as_json("describe", "--all-groups", *at)] == ["g", "h"]


def test_a_group_of_offsets_alone_is_described_too(bootstrap: str) -> None:
    result = CliRunner().invoke(
        app, ["groups", "describe", "h", "--json", "--bootstrap", bootstrap]
    )
    assert (result.exit_code, json.loads(result.stdout)) == (
        0,
        {
            "group": "h",
            "type": "classic",
            "state": "Empty",
            "members": [],
            "sinks": [],
            "lag": 0,
            "offsets": [
                {
                    "topic": "t",
                    "partition": 0,
                    "committed": 2,
                    "end": 2,
                    "lag": 0,
                    "owner": None,
                }
            ],
        },
    )


def test_the_sink_to_which_a_group_belongs_is_shown(bootstrap: str) -> None:
    cluster: Any = Cluster(bootstrap)
    (partition,) = partitions_of(cluster.topics(["t"]).named("t"))
    claim = metadata_of(("/lake/b", "/lake/a"))
    try:
        changes.commit(cluster, "of-a-sink", {partition: 1}, metadata=claim)
        result = CliRunner().invoke(
            app, ["groups", "describe", "of-a-sink", "--json", "--bootstrap", bootstrap]
        )
        assert json.loads(result.stdout)["sinks"] == ["/lake/a", "/lake/b"]
        _, lines = run("describe", "of-a-sink", "--bootstrap", bootstrap)
        assert lines[0] == [
            "of-a-sink:",
            "a",
            "classic",
            "group,",
            "Empty,",
            "of",
            "the",
            "sink",
            "/lake/a",
            "and",
            "/lake/b,",
            "0",
            "members,",
            "total",
            "lag",
            "1",
        ]
    finally:
        cluster.call(DeleteGroupsRequest(groups_names=("of-a-sink",)), coordinator="of-a-sink")
        cluster.close()


def test_a_partition_with_an_owner_and_no_committed_offset_is_shown(bootstrap: str) -> None:
    cluster = Cluster(bootstrap, client_id="reader")
    join(cluster, "i", "member-2")
    described = json.loads(
        CliRunner()
        .invoke(app, ["groups", "describe", "i", "--json", "--bootstrap", bootstrap])
        .stdout
    )
    cluster.call(
        ConsumerGroupHeartbeatRequest(group_id="i", member_id="member-2", member_epoch=-1),
        coordinator="i",
    )
    cluster.close()
    assert described["lag"] is None
    assert described["offsets"] == [
        {
            "topic": "t",
            "partition": 0,
            "committed": None,
            "end": 2,
            "lag": None,
            "owner": "member-2",
        }
    ]


def test_names_are_shown_as_they_are_and_the_terminal_obeys_none(bootstrap: str) -> None:
    odd = "[/x][bold]odd[/bold] :fire: \x1b[2J\nline"
    cluster = Cluster(bootstrap, client_id=odd)
    join(cluster, odd, "m")
    listed = CliRunner().invoke(app, ["groups", "list", "--bootstrap", bootstrap])
    described = CliRunner().invoke(app, ["groups", "describe", odd, "--bootstrap", bootstrap])
    refused = CliRunner().invoke(app, ["groups", "describe", odd + "er", "--bootstrap", bootstrap])
    leave = ConsumerGroupHeartbeatRequest(group_id=odd, member_id="m", member_epoch=-1)
    assert cluster.call(leave, coordinator=odd).error_code == Code.NONE
    assert (
        cluster.call(DeleteGroupsRequest(groups_names=(odd,)), coordinator=odd)
        .results[0]
        .error_code
        == Code.NONE
    )
    cluster.close()
    name = r"[/x][bold]odd[/bold] :fire: \x1b[2J\nline"
    assert sum(name in line for line in listed.stdout.splitlines()) == 1
    # the group, and its client
    assert [name in line for line in described.stdout.splitlines() if "odd" in line] == [True, True]
    assert name in refused.stderr


def test_an_address_that_is_none_is_refused_in_one_sentence() -> None:
    code, lines = run("list", "--bootstrap", "bogus")
    assert (code, lines) == (
        2,
        [["apportion", "groups:", "bootstrap", "server", "'bogus'", "is", "not", "host:port"]],
    )


def test_a_missing_group_and_a_missing_broker_are_reported_in_one_sentence(bootstrap: str) -> None:
    code, lines = run("describe", "no-such-group", "--bootstrap", bootstrap)
    assert code == 1
    assert lines[0][:2] == ["apportion", "groups:"]
    code, lines = run("list", "--bootstrap", "127.0.0.1:1", "--timeout-ms", "300")
    assert code == 1
    assert lines[0][:2] == ["apportion", "groups:"]


@pytest.fixture
def loading_broker() -> Iterator[LoadingBroker]:
    """A broker that refuses the first two requests for its groups."""
    broker = LoadingBroker(loading=2)
    broker.start()
    yield broker
    broker.close()


def test_a_broker_that_loads_its_groups_is_asked_until_it_knows_them(
    loading_broker: LoadingBroker,
) -> None:
    code, lines = run("list", "--bootstrap", loading_broker.bootstrap)
    assert code == 0
    assert ["g", "classic", "Empty", "-", "-"] in lines
