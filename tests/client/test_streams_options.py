from collections.abc import Iterator
from typing import Any

import pytest

import apportion
from apportion.client.streams import StreamsConsumer
from apportion.streams.metadata.model import TaskId
from apportion.streams.topology import TopologyRefused

TOPOLOGY = [{"sources": ["lines"]}]


@pytest.mark.parametrize(
    ("options", "why"),
    [
        (
            {"group_protocol": "streams"},
            "group_protocol must be one of consumer, classic, not 'streams'",
        ),
        (
            {"group_protocol": "consumer", "upgrade_from": "3.9"},
            "upgrade_from is for group_protocol='classic'; with 'consumer' the broker finds the "
            "version that all instances support",
        ),
        (
            {"group_protocol": "consumer", "session_timeout_ms": 10_000},
            "session_timeout_ms is for group_protocol='classic'; with 'consumer'",
        ),
        (
            {"group_local_assignors": "range"},
            "group_local_assignors cannot be chosen: the members of a Streams group agree on it",
        ),
        (
            {"num_standby_replicas": -1},
            "num_standby_replicas must be a whole number from 0 to 2147483647, not -1",
        ),
        (
            {"acceptable_recovery_lag": "many"},
            "acceptable_recovery_lag must be a whole number from 0 to "
            "9223372036854775807, not 'many'",
        ),
        (
            {"max_warmup_replicas": 0},
            "max_warmup_replicas must be a whole number from 1 to 2147483647, not 0",
        ),
        (
            {"probing_rebalance_interval_ms": 100},
            "must be a whole number from 60000 to 9223372036854775807, not 100",
        ),
        (
            {"task_assignor": "fallback"},
            "task_assignor must be one of highavailability, sticky, not 'fallback'",
        ),
        (
            {"client_tags": {"zone": 1}},
            "client_tags must map at most 5 names of at most 20 letters to texts of at "
            "most 30, not",
        ),
        ({"client_tags": {"zone": "\ud800"}}, "client_tags must map at most 5 names"),
        ({"client_tags": dict.fromkeys("abcdef", "x")}, "client_tags must map at most 5 names"),
        (
            {"rack_aware_assignment_tags": "zone"},
            "rack_aware_assignment_tags must be a list of names of tags, not 'zone'",
        ),
        (
            {"rack_aware_assignment_tags": ("zone",)},
            "rack_aware_assignment_tags names 'zone', which is not in client_tags",
        ),
        ({"on_tasks": 3}, "on_tasks must be a function of a TaskShare, not 3"),
        ({"process_id": b"short"}, "process_id must be 16 bytes, not b'short'"),
        ({"process_id": "sixteen letters!"}, "process_id must be 16 bytes, not 'sixteen letters!'"),
        ({"release": 4.3}, 'release must name a release, such as "4.3", not 4.3'),
        ({"application_server": None}, 'application_server must be "host:port", not None'),
        ({"application_server": "here"}, "application.server must be host:port, not 'here'"),
        ({"upgrade_from": "0.9"}, "upgrade.from must name a release such as 1.1, not '0.9'"),
        ({"release": "5.0"}, "there is no release '5.0' of Kafka Streams known here"),
        (
            {"application_server": "here:99999"},
            "application.server must be host:port, not 'here:99999'",
        ),
        (
            {"num_standbys": 1},
            "unknown option 'num_standbys': did you mean 'num_standby_replicas'?",
        ),
        (
            {"foo": 1},
            "unknown option 'foo': options are group_protocol, auto_offset_reset, .*, "
            "num_standby_replicas, .*, max_poll_records",
        ),
        (
            {"security_protocol": "TLS"},
            "^security_protocol must be one of PLAINTEXT, SSL, SASL_PLAINTEXT, SASL_SSL, "
            "not 'TLS'$",
        ),
        (
            {"ssl_cafile": "x"},
            "^option 'ssl_cafile' cannot be used: it is called ssl_ca_location here$",
        ),
        (
            {"num_stream_threads": 4},
            "^option 'num_stream_threads' cannot be used: a StreamsConsumer is one "
            "member; start as many as you want threads$",
        ),
        ({"topics": ["x"]}, "topics cannot be chosen: a Streams group reads those of its topology"),
    ],
)
def test_an_option_that_cannot_be_meant_is_refused_in_one_sentence(
    options: dict[str, Any], why: str
) -> None:
    with pytest.raises(ValueError, match=why):
        apportion.StreamsConsumer("localhost:1", "app", topology=TOPOLOGY, **options)


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
