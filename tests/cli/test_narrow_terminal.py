"""On a terminal of 80 columns nothing is cut, and sentences break between words."""

from collections.abc import Iterator
from typing import Any

import pytest

from apportion.client.cluster import Cluster
from apportion.server.embedded import EmbeddedBroker
from apportion.topics import partitions_of
from tests.cli.members import join
from tests.cli.terminal import on_terminal
from tests.client import changes

WORKERS = [f"analytics-nightly-worker-eu-west-1-pod-{number}-0f61d9a2" for number in range(10)]


@pytest.fixture(scope="module")
def bootstrap() -> Iterator[str]:
    """A broker with a group of ten members whose names share 39 characters; one of them owns all 60
    partitions.
    """
    with EmbeddedBroker(group_consumer_assignment_interval_ms=0) as broker:
        clusters = [Cluster(broker.bootstrap, client_id=name) for name in WORKERS]
        clusters[0].create_topic("analytics-events", 60)
        for cluster, name in zip(clusters, WORKERS, strict=True):
            join(cluster, "g", name, "analytics-events")
        yield broker.bootstrap
        for cluster in clusters:
            cluster.close()


NOTE = [
    "Shortened to fit this terminal: --json and a pipe, as in `... | cat`, show all",
    "of each name.",
]


def stripped(lines: list[str]) -> list[str]:
    return [line.rstrip() for line in lines]


def test_ten_members_with_long_names_are_told_apart_at_80_columns(bootstrap: str) -> None:
    lines = stripped(on_terminal(["groups", "members", "g", "--bootstrap", bootstrap], 80))
    assert lines == [
        "MEMBER       CLIENT       HOST       EPOCH  OWNS",
        "…0-0f61d9a2  …0-0f61d9a2  127.0.0.1      2  analytics-events 0-59",
        *(
            f"…{number}-0f61d9a2  …{number}-0f61d9a2  127.0.0.1  {epoch:>5}  -"
            for number, epoch in enumerate(range(3, 12), 1)
        ),
        *NOTE,
    ]


def test_the_owner_of_each_partition_is_told_apart_at_80_columns(bootstrap: str) -> None:
    lines = stripped(on_terminal(["groups", "describe", "g", "--bootstrap", bootstrap], 80))
    assert lines[2:5] == [
        "TOPIC             PARTITION  COMMITTED  END  LAG  OWNER        CLIENT  HOST",
        "analytics-events          0          -    0    -  …0-0f61d9a2  …0…     127.0.0.1",
        "analytics-events          1          -    0    -  …0-0f61d9a2  …0…     127.0.0.1",
    ]
    assert lines[-4:] == [
        "-                         -          -    -    -  …8-0f61d9a2  …8…     127.0.0.1",
        "-                         -          -    -    -  …9-0f61d9a2  …9…     127.0.0.1",
        *NOTE,
    ]


def test_names_are_whole_on_a_wide_terminal(bootstrap: str) -> None:
    lines = on_terminal(["groups", "describe", "g", "--members", "--bootstrap", bootstrap], 260)
    assert [line.split()[0] for line in lines[2:]] == WORKERS


def test_a_member_without_partitions_and_a_group_without_members_are_told_in_words(
    bootstrap: str,
) -> None:
    cluster: Any = Cluster(bootstrap)
    partition = partitions_of(cluster.topics(["analytics-events"]).named("analytics-events"))[0]
    changes.commit(cluster, "offsets-alone", {partition: 0})
    join(cluster, "waits", "m", "flihgts")
    cluster.close()
    described = {
        group: on_terminal(["groups", "describe", group, "--bootstrap", bootstrap], 80)
        for group in ("offsets-alone", "waits")
    }
    assert described["offsets-alone"][:2] == [
        "offsets-alone: a classic group, Empty, 0 members, total lag 0",
        "TOPIC             PARTITION  COMMITTED  END  LAG  OWNER  CLIENT  HOST",
    ]
    assert described["waits"][1:] == [
        "No offset is committed, and no member owns a partition: do the topics exist?",
        "TOPIC  PARTITION  COMMITTED  END  LAG  OWNER  CLIENT     HOST",
        "-              -          -    -    -  m      apportion  127.0.0.1",
    ]


def broken_in_a_word(lines: list[str], columns: int) -> list[Any]:
    """Lines that a terminal breaks."""
    return [line for line in lines if len(line) > columns]


@pytest.mark.parametrize(
    "arguments",
    [
        "sim --seed 7 --quiet --seconds 5",
        "streams rehearse --from 1.1 --to 4.0 --instances 2",
        "streams rehearse --from 2.3 --to 3.9 --instances 2 --bounces 1",
    ],
)
def test_sentences_break_between_words(arguments: str) -> None:
    assert broken_in_a_word(on_terminal(arguments.split(), 80), 80) == []
