"""Options of a Consumer that are unclear are refused with one sentence, before anything is
connected.
"""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from apportion import Consumer, TopicPartition
from apportion.client.foreign_options import why_foreign_or_none
from apportion.client.options import OPTIONS
from apportion.client.streams_options import STREAMS
from apportion.member.assignors.builtin import Range
from apportion.member.assignors.interface import Rebalance
from tests.refusals import arguments, sentence
from tests.scripted import check

REFUSALS = Path(__file__).parent / "refusals"


class OnlyCooperative(Range):
    """It cannot do without partitions that stay."""

    name = "only-cooperative"
    rebalances = (Rebalance.COOPERATIVE,)


class BackwardVersions(Range):
    """Its newest version is older than its oldest."""

    name = "backward"
    minimum_version, maximum_version = 3, 2


def test_an_unclear_option_is_refused_with_the_remedy(request: pytest.FixtureRequest) -> None:
    assignors = {each.__name__: each for each in (Range, OnlyCooperative, BackwardVersions)}

    def refused(step: str) -> list[str]:
        options = arguments(step, **assignors)
        return sentence(lambda: Consumer("localhost:1", "g", **options))

    check(REFUSALS / "consumer.txt", refused, request)


def test_an_option_like_no_other_is_answered_with_all_that_there_are() -> None:
    with pytest.raises(ValueError, match=r"^unknown option 'xyz': options are client_id, instance"):
        unknown: Any = {"xyz": 1}
        Consumer("localhost:1", "g", **unknown)


def test_an_empty_list_of_local_assignors_goes_with_the_brokers() -> None:
    Consumer("localhost:1", "g", group_local_assignors=[], group_remote_assignor="range").close()


def test_no_option_of_ours_is_refused_as_another_clients() -> None:
    assert [
        name
        for name in (*OPTIONS, *STREAMS)
        for has_tasks in (True, False)
        if why_foreign_or_none(name, has_tasks=has_tasks)
    ] == []


@pytest.mark.parametrize("protocol", ["consumer", "classic"])
@pytest.mark.parametrize("value", ["", "  ", 7, b"me"])
@pytest.mark.parametrize(
    "option", ["client_id", "instance_id", "client_rack", "group_remote_assignor"]
)
def test_an_id_is_a_text_that_is_not_empty(
    option: str, value: bytes | int | str, protocol: Any
) -> None:
    with pytest.raises(
        ValueError,
        match=rf"^{option} must be a text that is not empty \(.+\), not {value!r}; leave it out",
    ):
        defaults: dict[str, Any] = {option: value}
        Consumer("localhost:1", "g", group_protocol=protocol, **defaults)


@pytest.mark.parametrize("servers", [7, None, [7], b"localhost:1"])
def test_bootstrap_servers_are_text(servers: Any) -> None:
    with pytest.raises(ValueError, match="bootstrap servers must be host:port, one or more, not "):
        Consumer(servers, "g")


@pytest.mark.parametrize("group_id", ["", "  ", None])
def test_a_consumer_is_always_a_member_of_a_group(group_id: Any) -> None:
    with pytest.raises(ValueError, match="group_id must be a name"):
        Consumer("localhost:1", group_id)


def test_a_consumer_without_topics_cannot_be_polled_nor_given_none() -> None:
    with Consumer("localhost:1", "g") as consumer:
        with pytest.raises(RuntimeError, match="subscribe to topics before you poll"):
            consumer.poll()
        with pytest.raises(ValueError, match="one or more names"):
            consumer.subscribe([])
    with pytest.raises(ValueError, match="one or more names"):
        Consumer("localhost:1", "g", topics=None)  # type: ignore[arg-type]


@pytest.mark.parametrize("offset", [-1, -5, True, 2**63, "7", 3.5, None])
def test_an_invalid_offset_is_refused_before_anything_is_committed(offset: Any) -> None:
    with Consumer("localhost:1", "g") as consumer, pytest.raises(ValueError) as refusal:
        consumer.commit({TopicPartition("t", 0): 1, TopicPartition("t", 1): offset})
    assert str(refusal.value) == (
        f"the offset of t-1 must be a whole number from 0 to 9223372036854775807, not {offset!r}"
    )


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda it: it.commit("x"), "offsets must map partitions to offsets, not be 'x'"),
        (lambda it: it.commit({"t": 1}), "offsets: 't' is no TopicPartition"),
        (lambda it: it.position("t"), "partition: 't' is no TopicPartition"),
        (lambda it: it.committed("flights"), "partitions: 'f' is no TopicPartition"),
        (
            lambda it: it.committed(7),
            "partitions must be a list of TopicPartition(topic, number), not 7",
        ),
        (lambda it: it.poll("1 s"), "timeout_ms must be a number of milliseconds, not '1 s'"),
        (
            lambda it: it.subscribe(),
            "topics must be one or more names, not (); to stop reading, close the consumer",
        ),
    ],
)
def test_arguments_of_a_wrong_kind_are_refused_with_what_to_give(call: Any, sentence: str) -> None:
    with Consumer("localhost:1", "g") as consumer, pytest.raises(ValueError) as refused:
        call(consumer)
    assert str(refused.value) == sentence


@pytest.mark.parametrize(
    "call",
    [
        lambda consumer: consumer.__enter__(),
        lambda consumer: consumer.poll(),
        lambda consumer: consumer.subscribe("t"),
        lambda consumer: consumer.commit(),
        lambda consumer: consumer.commit({TopicPartition("t", 0): 1}),
        lambda consumer: consumer.committed([TopicPartition("t", 0)]),
        lambda consumer: consumer.position(TopicPartition("t", 0)),
    ],
)
def test_a_closed_consumer_says_so_to_every_call(call: Callable[[Consumer], object]) -> None:
    consumer = Consumer("localhost:1", "g")
    consumer.close()
    with pytest.raises(RuntimeError, match=r"^this consumer is closed$"):
        call(consumer)


@pytest.mark.parametrize(
    "topics",
    ["", [""], [None], ["f", 7], "f t", "f,t", ["f", "all of them"], ["^flights"], 7],
)
def test_a_value_that_cannot_be_a_topic_is_refused_wherever_it_is_given(topics: Any) -> None:
    wrong = r"topics must be one or more names|cannot be a topic"
    with pytest.raises(ValueError, match=wrong):
        Consumer("localhost:1", "g", topics=topics)
    with Consumer("localhost:1", "g") as consumer:
        for pattern in (None, "flights-.*"):
            with pytest.raises(ValueError, match=wrong):
                consumer.subscribe(topics, pattern=pattern)


@pytest.mark.parametrize("topics", [(), [], None, set(), iter([])])
def test_a_pattern_may_stand_for_all_topics(topics: Any) -> None:
    with Consumer("localhost:1", "g") as consumer:
        consumer.subscribe(topics, pattern="flights-.*")
        assert consumer.poll(0) == []


def test_an_expression_among_the_topics_is_refused_with_where_it_belongs() -> None:
    with pytest.raises(ValueError) as refused:
        Consumer("localhost:1", "g", topics=["flights-.*"])
    assert str(refused.value) == (
        "'flights-.*' cannot be a topic: give a list of names of letters, digits, '.', '_' and "
        "'-', or a regular expression as subscribe(pattern=...)"
    )


@pytest.mark.parametrize("pattern", ["", 7, re.compile("flights"), ["flights"]])
def test_a_pattern_is_a_text(pattern: Any) -> None:
    with (
        Consumer("localhost:1", "g") as consumer,
        pytest.raises(ValueError, match=r"^pattern must be a text, a regular expression of RE2"),
    ):
        consumer.subscribe(pattern=pattern)


def test_a_pattern_is_refused_where_no_broker_would_resolve_it() -> None:
    with (
        Consumer("localhost:1", "g", group_protocol="classic") as consumer,
        pytest.raises(ValueError) as refused,
    ):
        consumer.subscribe(pattern="flights-.*")
    assert str(refused.value) == (
        "pattern is for group_protocol='consumer', where the broker resolves it; with 'classic' "
        "name the topics"
    )


def test_an_outage_is_said_once_and_not_with_every_attempt(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with Consumer("127.0.0.1:1,127.0.0.1:2", "g", topics=["flights"]) as consumer:
        while len(caplog.messages) < 1:
            consumer.poll(100)
        assert consumer.poll(3_000) == []
        member = consumer.session.status().member_id
    assert caplog.messages == [
        f"group g: no answer for member {member}: no connection to the broker at 127.0.0.1:2: "
        "Connection refused; the member tries again until a broker answers or it is closed: see "
        "that one of 127.0.0.1:1,127.0.0.1:2 listens and can be reached from this host, or give "
        "other bootstrap servers"
    ]


@pytest.mark.parametrize(("max_poll_interval_ms", "request_ms"), [(4, 1), (8, 2), (400_000, 5_000)])
def test_a_request_in_a_poll_takes_a_quarter_of_the_time_between_polls_at_most(
    max_poll_interval_ms: int, request_ms: int
) -> None:
    with Consumer("localhost:1", "g", max_poll_interval_ms=max_poll_interval_ms) as consumer:
        assert consumer._request_timeout_ms == request_ms
