"""On a terminal of 80 columns nothing is cut, and sentences break between words."""

from collections.abc import Iterator
from typing import Any

import pytest

from apportion.client.cluster import Cluster
from apportion.errors import Code
from apportion.server.embedded import EmbeddedBroker
from apportion.topics import partitions_of
from apportion.wire.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from tests.cli.terminal import on_terminal
from tests.client import changes

WORKERS = [f"analytics-nightly-worker-eu-west-1-{number}-0f61d9a2" for number in range(3)]


def beat(
    cluster: Cluster, member_id: str, epoch: int, owned: tuple[Any, ...] = ()
) -> ConsumerGroupHeartbeatResponse:
    request = ConsumerGroupHeartbeatRequest(
        group_id="g",
        member_id=member_id,
        member_epoch=epoch,
        rebalance_timeout_ms=60_000,
        subscribed_topic_names=("analytics-events",),
        topic_partitions=owned,
    )
    answer = cluster.call(request, coordinator="g")
    assert answer.error_code == Code.NONE
    result: ConsumerGroupHeartbeatResponse = answer
    return result


@pytest.fixture(scope="module")
def bootstrap() -> Iterator[str]:
    """A broker with a group of three members, one of which owns all 60 partitions."""
    with EmbeddedBroker() as broker:
        clusters = [Cluster(broker.bootstrap, client_id=name) for name in WORKERS]
        clusters[0].create_topic("analytics-events", 60)
        for cluster, name in zip(clusters, WORKERS, strict=True):
            beat(cluster, name, 0)
        yield broker.bootstrap
        for cluster in clusters:
            cluster.close()


def column(lines: list[str], number: int) -> str:
    """All that stands in that column of a table, folded cells put together."""
    rows = [line.split("│")[1:-1] for line in lines if line.startswith("│")]
    return "".join(row[number].strip() for row in rows)


def test_names_of_members_are_folded_and_not_cut(bootstrap: str) -> None:
    lines = on_terminal(["groups", "describe", "g", "--bootstrap", bootstrap], 80)
    table = lines[: next(number for number, line in enumerate(lines) if line.startswith("└"))]
    assert max(map(len, lines)) <= 80
    assert [name for name in WORKERS if name in column(table, 0)] == WORKERS
    assert [name for name in WORKERS if name in column(table, 1)] == WORKERS
    assert "…" not in "".join(lines)


def test_partitions_that_follow_each_other_are_a_range(bootstrap: str) -> None:
    lines = on_terminal(["groups", "describe", "g", "--bootstrap", bootstrap], 260)
    assert [line.split("│")[-2].strip() for line in lines if "worker" in line] == [
        "analytics-events 0-59",
        "",
        "",
    ]


def test_a_member_without_partitions_and_a_group_without_members_are_told_in_words(
    bootstrap: str,
) -> None:
    cluster: Any = Cluster(bootstrap)
    partition = partitions_of(cluster.topics(["analytics-events"]).named("analytics-events"))[0]
    changes.commit(cluster, "offsets-alone", {partition: 0})
    cluster.call(
        ConsumerGroupHeartbeatRequest(
            group_id="waits",
            member_id="m",
            member_epoch=0,
            rebalance_timeout_ms=60_000,
            subscribed_topic_names=("flihgts",),
            topic_partitions=(),
        ),
        coordinator="waits",
    )
    cluster.close()
    described = {
        group: on_terminal(["groups", "describe", group, "--bootstrap", bootstrap], 80)
        for group in ("offsets-alone", "waits")
    }
    assert described["offsets-alone"][:2] == [
        "offsets-alone: a classic group, Empty",
        "It has no members.",
    ]
    assert (
        described["waits"][-1]
        == "No offset is committed, and no member owns a partition: do the topics exist?"
    )
    assert "│ 127.0.0.1 │" in described["waits"][4]


def broken_in_a_word(lines: list[str], columns: int) -> list[Any]:
    """Lines that a terminal breaks."""
    return [line for line in lines if len(line) > columns]


@pytest.mark.parametrize(
    "arguments",
    [
        ["sim", "--seed", "7", "--quiet", "--seconds", "5"],
        ["streams", "rehearse", "--from", "1.1", "--to", "4.0", "--instances", "2"],
        [
            "streams",
            "rehearse",
            "--from",
            "2.3",
            "--to",
            "3.9",
            "--instances",
            "2",
            "--bounces",
            "1",
        ],
    ],
)
def test_sentences_break_between_words(arguments: list[str]) -> None:
    assert broken_in_a_word(on_terminal(arguments, 80), 80) == []
