"""Apache Kafka's own kafka-groups.sh and kafka-consumer-groups.sh print the same for our broker as
for a real Kafka.

kafka-groups.sh of Kafka 4.4.0 lists groups, and does nothing else.
"""

import re
import subprocess
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import pytest

import apportion
from apportion.client.cluster import Cluster
from apportion.errors import Code
from apportion.server.embedded import EmbeddedBroker
from apportion.testing.kafka import RealKafka
from apportion.topics import partitions_of
from apportion.wire.batch import encode_batch
from apportion.wire.fields import replaced
from apportion.wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from apportion.wire.messages.sync_group import SyncGroupRequest
from tests.client import changes
from tests.kafka.conftest import until
from tests.kafka.java import tool_command

GROUPS = "org.apache.kafka.tools.GroupsCommand"
CONSUMER_GROUPS = "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand"
BEGIN = "tools-"
"""So the names of this module's groups begin; the real Kafka has those of other tests, too."""
TOPIC = "tools-topic"
MODERN, CLASSIC, EMPTY, SIMPLE, CONNECT, NONE = (
    f"{BEGIN}{kind}" for kind in ("modern", "classic", "empty", "simple", "connect", "none")
)
PATIENCE_MS = 600_000
"""How long members stay without a poll or a heartbeat of the test."""
MASKS = (  # what no two brokers have in common
    (r"127\.0\.0\.1:\d+\s+\(\d+\)", "COORDINATOR"),
    (r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}|(?<= )[\w-]{22}(?= )", "ID"),
)


class Printed(NamedTuple):
    """What a tool printed: its exit code, and its lines as single-spaced words, sorted."""

    code: int
    lines: list[str]


Both = Callable[..., Printed]


@pytest.fixture(scope="module")
def brokers(kafka: RealKafka) -> Iterator[tuple[str, str]]:
    """Where our broker and the real one listen, each with a group of every kind."""
    with ExitStack() as stack:
        ours = stack.enter_context(EmbeddedBroker(group_consumer_session_timeout_ms=6_000))
        for bootstrap in (ours.bootstrap, kafka.bootstrap):
            fill(bootstrap)
            for group, protocol in ((MODERN, "consumer"), (CLASSIC, "classic")):
                enter_two_members(stack, bootstrap, group, protocol)
        yield ours.bootstrap, kafka.bootstrap


def fill(bootstrap: str) -> None:
    """Make a topic with records, and the groups that have no member of ours."""
    cluster = Cluster(bootstrap, client_id="tools")
    partitions = partitions_of(cluster.create_topic(TOPIC, 2))
    for partition in partitions:
        cluster.produce(partition, encode_batch([(None, b"a", ())] * 3, timestamp_ms=1))
    changes.commit(cluster, SIMPLE, {partitions[0]: 2})
    enter_connect(cluster)
    cluster.close()
    with apportion.Consumer(
        bootstrap, EMPTY, topics=[TOPIC], auto_offset_reset="earliest"
    ) as consumer:
        left = 6
        while left:
            left -= len(consumer.poll())
        consumer.commit()


def enter_connect(cluster: Cluster) -> None:
    """Let one member of another protocol than consumers have join a classic group."""
    join = JoinGroupRequest(
        group_id=CONNECT,
        session_timeout_ms=PATIENCE_MS,
        rebalance_timeout_ms=PATIENCE_MS,
        protocol_type="connect",
        protocols=(JoinGroupRequestProtocol(name="v1", metadata=b""),),
    )
    named = cluster.call(join, coordinator=CONNECT)
    assert named.error_code == Code.MEMBER_ID_REQUIRED
    joined = cluster.call(replaced(join, member_id=named.member_id), coordinator=CONNECT)
    synced = cluster.call(
        SyncGroupRequest(
            group_id=CONNECT,
            generation_id=joined.generation_id,
            member_id=joined.member_id,
            protocol_type="connect",
            protocol_name="v1",
        ),
        coordinator=CONNECT,
    )
    assert synced.error_code == Code.NONE


def has_all(member: apportion.Consumer) -> bool:
    member.poll(100)
    return len(member.assignment) == 2


def enter_two_members(stack: ExitStack, bootstrap: str, group: str, protocol: Any) -> None:
    """Let two members of a group share the topic, the second a static one."""
    members: list[apportion.Consumer] = []
    for name, instance in (("one", None), ("two", f"seat-of-{group}")):
        member = apportion.Consumer(
            bootstrap,
            group,
            topics=[TOPIC],
            auto_offset_reset="earliest",
            group_protocol=protocol,
            client_id=name,
            instance_id=instance,
            max_poll_interval_ms=PATIENCE_MS,
        )
        members.append(stack.enter_context(member))
        if len(members) == 1:
            # The first has all of it before the second comes. If both were there when the target is
            # computed, their ids would decide who gets which partition, and they are random.
            until(partial(has_all, member))

    def have_read_their_share() -> bool:
        for member in members:
            member.poll(100)
        return all(
            len(member.assignment) == 1 and member.position(*member.assignment) == 3
            for member in members
        )

    until(have_read_their_share)
    for member in members:
        member.commit()


@pytest.fixture(scope="module")
def both(brokers: tuple[str, str], tools: Path) -> Both:
    """`both(tool, *arguments)` gives what a tool prints for both brokers, which is the same."""

    def run(tool: str, *arguments: str) -> Printed:
        running = [
            subprocess.Popen(
                tool_command(tools, tool, "--bootstrap-server", bootstrap, *arguments),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
            )
            for bootstrap in brokers
        ]
        printed = []
        for each in running:
            lines = plain(each.communicate(timeout=120)[0])
            if "--list" in arguments and each.returncode == 0:
                # without the groups of other tests
                lines = [line for line in lines if line.startswith(("GROUP ", BEGIN))]
            printed.append(Printed(each.returncode, lines))
        ours, theirs = printed
        assert ours == theirs
        return ours

    return run


def plain(output: str) -> list[str]:
    """The lines without what no two brokers have in common: ids, addresses, and an order of hashes;
    and without stacks of the tool's own classes.
    """
    lines = []
    for line in output.splitlines():
        masked = f" {line} "
        for pattern, name in MASKS:
            masked = re.sub(pattern, name, masked)
        if masked.strip() and not line.startswith(("SLF4J", "\t")):
            lines.append(" ".join(masked.split()))
    return sorted(lines)


def groups_in(printed: Printed) -> list[str]:
    """The groups of this module in a list, with what the list says of each."""
    assert printed.code == 0
    return [line.removeprefix(BEGIN) for line in printed.lines if line.startswith(BEGIN)]


def named(*groups: str) -> list[str]:
    """The options that name groups."""
    return [word for group in groups for word in ("--group", group)]


def reset(group: str) -> list[str]:
    """The options that reset a group's offsets to 1."""
    return ["--reset-offsets", *named(group), "--topic", TOPIC, "--to-offset", "1"]


ALL = [
    "classic Classic consumer",
    "connect Classic connect",
    "empty Consumer consumer",
    "modern Consumer consumer",
    "simple Classic",
]
OF_CONSUMERS = [each for each in ALL if "connect" not in each]


@pytest.mark.parametrize(
    ("filters", "listed"),
    [
        ("", ALL),
        ("--group-type classic", [each for each in ALL if "Classic" in each]),
        ("--group-type Consumer", [each for each in ALL if "Consumer" in each]),
        ("--group-type streams", []),
        ("--protocol consumer", [each for each in OF_CONSUMERS if "simple" not in each]),
        ("--protocol connect", ["connect Classic connect"]),
        ("--group-type classic --protocol consumer", ["classic Classic consumer"]),
        ("--consumer", OF_CONSUMERS),
        ("--share", []),
        ("--streams", []),
    ],
)
def test_kafka_groups_lists_alike(both: Both, filters: str, listed: list[str]) -> None:
    assert groups_in(both(GROUPS, "--list", *filters.split())) == listed


@pytest.mark.parametrize(
    ("filters", "listed"),
    [
        ("--state", ["classic Stable", "empty Empty", "modern Stable", "simple Empty"]),
        ("--type classic", ["classic Classic", "simple Classic"]),
        ("--state Stable --type consumer", ["modern Consumer Stable"]),
    ],
)
def test_kafka_consumer_groups_lists_alike(both: Both, filters: str, listed: list[str]) -> None:
    assert groups_in(both(CONSUMER_GROUPS, "--list", *filters.split())) == listed


@pytest.mark.parametrize("view", ["--offsets", "--members", "--state"])
def test_kafka_consumer_groups_describes_alike(both: Both, view: str) -> None:
    # The target of a group that is empty follows its epoch here, as since Kafka 4.4 (KAFKA-20442).
    groups = (MODERN, CLASSIC, SIMPLE) if view == "--state" else (MODERN, CLASSIC, EMPTY, SIMPLE)
    printed = both(CONSUMER_GROUPS, "--describe", *named(*groups), view, "--verbose")
    assert [group for group in groups if group not in " ".join(printed.lines)] == []


@pytest.mark.parametrize("group", [CONNECT, NONE])
def test_kafka_consumer_groups_cannot_describe_others_alike(both: Both, group: str) -> None:
    assert both(CONSUMER_GROUPS, "--describe", *named(group)).lines != []


def test_kafka_consumer_groups_keeps_groups_with_members_alike(both: Both) -> None:
    deleted = both(CONSUMER_GROUPS, "--delete", *named(MODERN, CLASSIC, CONNECT, NONE))
    assert "GroupNotEmptyException" in " ".join(deleted.lines)
    both(CONSUMER_GROUPS, *reset(MODERN), "--execute")
    for group in (MODERN, CLASSIC):
        both(CONSUMER_GROUPS, "--delete-offsets", *named(group), "--topic", TOPIC)
    described = both(CONSUMER_GROUPS, "--describe", *named(MODERN))
    assert len([line for line in described.lines if f"{TOPIC} " in line and " 3 3 0 " in line]) == 2


def test_kafka_consumer_groups_changes_and_deletes_groups_alike(both: Both) -> None:
    for group in (EMPTY, SIMPLE):
        both(CONSUMER_GROUPS, *reset(group), "--execute")
        both(CONSUMER_GROUPS, "--delete-offsets", *named(group), "--topic", f"{TOPIC}:1")
    described = both(CONSUMER_GROUPS, "--describe", *named(EMPTY, SIMPLE))
    assert [line for line in described.lines if TOPIC in line] == [
        f"{group} {TOPIC} 0 1 3 2 - - -" for group in (EMPTY, SIMPLE)
    ]
    deleted = both(CONSUMER_GROUPS, "--delete", *named(EMPTY, SIMPLE))
    assert "successful" in " ".join(deleted.lines)
    kept = [each for each in ALL if not each.startswith(("empty", "simple"))]
    assert groups_in(both(GROUPS, "--list")) == kept
