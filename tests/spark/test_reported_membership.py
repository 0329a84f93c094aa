"""What two members of a group log and report of a rebalance, against what the group says of them.

They run on a broker in this process and without Spark, by both protocols.
"""

import json
import re
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from typer.testing import CliRunner

from apportion.cli.main import app
from apportion.client.cluster import Cluster
from apportion.member.batch.span import EMPTY_SPAN, Span
from apportion.server.embedded import EmbeddedBroker
from apportion.spark.membership.batch_member import BatchMember
from apportion.spark.processes import stop_requests
from apportion.spark.processes.stop_requests import StopRequest
from apportion.topics import TopicPartition, partitions_of, ranges
from tests.spark.batch_members import SHORT_SESSIONS, GroupProtocol, produce


@pytest.fixture(scope="module")
def broker(protocol: GroupProtocol) -> Iterator[EmbeddedBroker]:
    # The first member of a classic group is alone, and not together with the second.
    with EmbeddedBroker(group_initial_rebalance_delay_ms=0, **SHORT_SESSIONS) as running:
        yield running


@pytest.fixture(autouse=True)
def shown(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", "apportion.spark.rebalance")


def rebalances(caplog: pytest.LogCaptureFixture) -> list[str]:
    """The lines about rebalances so far, which are then forgotten."""
    lines = [
        each.getMessage() for each in caplog.records if each.name == "apportion.spark.rebalance"
    ]
    caplog.clear()
    return lines


def described(broker: EmbeddedBroker, group: str) -> Any:
    """The one group that `apportion groups describe --json` prints."""
    words = ["groups", "describe", group, "--bootstrap-server", broker.bootstrap, "--json"]
    result = CliRunner().invoke(app, words)
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


def play_until(
    members: dict[BatchMember, Span], ready: Callable[[], bool], limit: int | None = None
) -> None:
    """Ask each member in turn for its next batch, as two queries do, until `ready` holds."""
    for _ in range(600):
        for member, previous in members.items():
            members[member] = member.next_span(previous, limit)
        if ready():
            return
    raise AssertionError(members)


def owned(member: BatchMember) -> set[int]:
    return {partition.partition for partition in member.planner.ownership.partitions}


@pytest.fixture
def pair(
    request: pytest.FixtureRequest,
    cluster: Cluster,
    protocol: GroupProtocol,
    batch_member_of: Callable[..., BatchMember],
) -> tuple[str, str, BatchMember, BatchMember]:
    """A topic of four partitions with records, a group, and two members of it to be played."""
    topic = f"{request.function.__name__[-9:]}-{protocol}"
    group = f"{topic}-group"
    for partition in partitions_of(cluster.create_topic(topic, 4)):
        produce(cluster, partition, 5)
    first, second = (batch_member_of(group, topic, startingOffsets="earliest") for _ in range(2))
    return topic, group, first, second


def test_the_log_says_at_each_rebalance_what_came_and_what_went(
    pair: tuple[str, str, BatchMember, BatchMember],
    protocol: GroupProtocol,
    caplog: pytest.LogCaptureFixture,
) -> None:
    topic, group, first, second = pair
    members = {first: EMPTY_SPAN}
    word = "generation" if protocol == "classic" else "member epoch"
    play_until(members, lambda: owned(first) == {0, 1, 2, 3})
    assert rebalances(caplog) == [
        f"group {group}: rebalance: gained {topic} 0-3; has 4 partitions now, "
        f"{word} {epoch_of(first)}"
    ]

    members[second] = EMPTY_SPAN
    play_until(members, lambda: len(owned(first)) == len(owned(second)) == 2)
    moved = ranges(owned(second))
    joined, given, gained = rebalances(caplog)
    start = f"group {group}: rebalance:"
    assert re.fullmatch(rf"{start} joined; has 0 partitions now, {word} \d", joined)
    assert re.fullmatch(rf"{start} gave up {topic} {moved}; has 2 partitions now, {word} \d", given)
    assert gained == (
        f"{start} gained {topic} {moved}; has 2 partitions now, {word} {epoch_of(second)}"
    )
    if protocol == "consumer":
        # The answer to the revocation has brought the epoch that the line shows.
        assert given.endswith(f"member epoch {epoch_of(first)}")

    second.close()
    assert rebalances(caplog) == [f"group {group}: left the group: gave up {topic} {moved}"]
    del members[second]
    play_until(members, lambda: len(owned(first)) == 4)
    assert rebalances(caplog) == [
        f"{start} gained {topic} {moved}; has 4 partitions now, {word} {epoch_of(first)}"
    ]


def test_a_query_that_is_stopped_in_order_says_once_what_it_leaves(
    pair: tuple[str, str, BatchMember, BatchMember], caplog: pytest.LogCaptureFixture
) -> None:
    topic, group, first, _ = pair
    members = {first: EMPTY_SPAN}
    play_until(members, lambda: owned(first) == {0, 1, 2, 3})
    rebalances(caplog)
    planned = members[first]
    stop_requests.write_request(planned.id, StopRequest(None))
    try:
        assert first.next_span(planned, None) == planned
        first.close()
    finally:
        stop_requests.delete_both(planned.id)
    assert rebalances(caplog) == [f"group {group}: left the group: gave up {topic} 0-3"]


def test_the_reports_say_what_the_group_says(
    pair: tuple[str, str, BatchMember, BatchMember],
    broker: EmbeddedBroker,
    protocol: GroupProtocol,
) -> None:
    topic, group, first, second = pair
    assert first.source_report() is None
    members = {first: EMPTY_SPAN, second: EMPTY_SPAN}
    play_until(members, lambda: len(owned(first)) == len(owned(second)) == 2)
    # One more batch, so that all that was planned is committed.
    play_until(members, lambda: True)
    report = described(broker, group)
    rows = {TopicPartition(row["topic"], row["partition"]): row for row in report["offsets"]}
    by_id = {member["member"]: member for member in report["members"]}
    for member in members:
        told = member.source_report()
        assert told is not None
        assert told.member is not None
        its = by_id[told.member.id]
        if protocol == "consumer":
            assert told.member.epoch == its["epoch"] == report["epoch"]
        assert (told.group_id, told.member.max_poll_interval_ms) == (group, 300_000)
        assert told.positions.keys() == {TopicPartition(topic, each) for each in its["owns"][topic]}
        assert {
            each: (position.next, position.log.end, position.log.lag(position.next))
            for each, position in told.positions.items()
        } == {
            each: (rows[each]["committed"], rows[each]["end"], rows[each]["lag"])
            for each in told.positions
        }


def epoch_of(member: BatchMember) -> int:
    told = member.source_report()
    assert told is not None
    assert told.member is not None
    return told.member.epoch
