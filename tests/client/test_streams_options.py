from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import apportion
from apportion.client.streams import StreamsConsumer
from apportion.streams.metadata.model import TaskId
from apportion.streams.topology import TopologyRefused
from tests.refusals import arguments, sentence
from tests.scripted import check

TOPOLOGY = [{"sources": ["lines"]}]


def test_an_option_that_cannot_be_meant_is_refused_in_one_sentence(
    request: pytest.FixtureRequest,
) -> None:
    def refused(step: str) -> list[str]:
        options = arguments(step)
        return sentence(
            lambda: apportion.StreamsConsumer("localhost:1", "app", topology=TOPOLOGY, **options)
        )

    check(Path(__file__).parent / "refusals" / "streams.txt", refused, request)


def test_an_option_like_no_other_is_answered_with_those_of_streams_too() -> None:
    names = "group_protocol, auto_offset_reset, .*, num_standby_replicas, .*, max_poll_records"
    with pytest.raises(ValueError, match=f"^unknown option 'foo': options are {names}"):
        unknown: Any = {"foo": 1}
        apportion.StreamsConsumer("localhost:1", "app", topology=TOPOLOGY, **unknown)


@pytest.mark.parametrize("names", ["a", "abcde"])
def test_a_process_may_have_up_to_five_tags(names: str) -> None:
    tags = dict.fromkeys(names, "x")
    apportion.StreamsConsumer("localhost:1", "app", topology=TOPOLOGY, client_tags=tags).close()


def test_a_topology_that_cannot_be_is_refused_before_anything_is_asked() -> None:
    with pytest.raises(TopologyRefused, match="subtopology 0 reads no topic"):
        apportion.StreamsConsumer("localhost:1", "app", topology=[{}])


@pytest.fixture
def alone() -> Iterator[StreamsConsumer]:
    """An instance that finds no broker."""
    with apportion.StreamsConsumer("localhost:1", "app", topology=TOPOLOGY) as made:
        yield made


@pytest.mark.parametrize("topics", [["others"], "others", "", [], None, 7])
def test_the_topology_says_which_topics_are_read(alone: StreamsConsumer, topics: Any) -> None:
    with pytest.raises(
        RuntimeError, match="a Streams group reads the topics of its topology, lines"
    ):
        alone.subscribe(topics)


@pytest.mark.parametrize(
    ("offset_sums", "why"),
    [
        ({TaskId(1, 0): 5}, "is no task of this topology"),
        ({(0, 0): 5}, "is no task of this topology"),
        ({TaskId(0, 0, "other"): 5}, "is no task of this topology"),
        ({TaskId(0, -1): 5}, "is no task of this topology"),
        ({TaskId(0, 0): -3}, "of task 0_0: -3 is no sum of offsets"),
        ({TaskId(0, 0): 2**63}, "of task 0_0: 9223372036854775808 is no sum of offsets"),
        ({TaskId(0, 0): "5"}, "of task 0_0: '5' is no sum of offsets"),
    ],
)
def test_only_offset_sums_of_its_tasks_are_reported(
    alone: StreamsConsumer, offset_sums: dict[Any, Any], why: str
) -> None:
    with pytest.raises(ValueError, match=why):
        alone.report(offset_sums)


def test_offset_sums_are_reported_as_a_mapping(alone: StreamsConsumer) -> None:
    with pytest.raises(ValueError, match="offset_sums must map tasks to sums of offsets, not be 5"):
        alone.report(5)  # type: ignore[arg-type]


@pytest.mark.parametrize("tasks", [None, 7, "0_1", TaskId(0, 0)])
def test_failed_warm_ups_are_a_list_of_tasks(tasks: Any) -> None:
    with (
        apportion.StreamsConsumer(
            "localhost:1", "app", topology=TOPOLOGY, group_protocol="consumer"
        ) as consumer,
        pytest.raises(ValueError) as refused,
    ):
        consumer.report_failed_warm_ups(tasks)
    assert str(refused.value) == (
        f"tasks must be a list of those that cannot be restored, not {tasks!r}"
    )
