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


@pytest.mark.parametrize(
    ("option", "why"),
    [
        ("ssl_cafile", "it is called ssl_ca_location here"),
        ("sasl_plain_password", "it is called sasl_password here"),
        (
            "sasl_kerberos_service_name",
            "Kerberos is not here: use SCRAM, PLAIN, OAUTHBEARER or a client certificate",
        ),
        (
            "key_deserializer",
            "keys and values are bytes; decode them when you read a record, and drop the option",
        ),
        ("enable_auto_commit", "it is called auto_commit here"),
        ("group_instance_id", "it is called instance_id here"),
        ("fetch_min_bytes", "the consumer chooses it by itself; drop the option"),
        ("commit_interval_ms", "it is called auto_commit_interval_ms here"),
        (
            "state.dir",
            "it is a setting of Kafka Streams, and a Consumer has no tasks; drop the option",
        ),
        (
            "isolation_level",
            "only committed records are read, as with read_committed; drop the option",
        ),
    ],
)
def test_an_option_of_another_client_is_refused_with_its_own_reason(option: str, why: str) -> None:
    with pytest.raises(ValueError) as refusal:
        defaults: dict[str, Any] = {option: "x"}
        Consumer("localhost:1", "g", **defaults)
    assert str(refusal.value) == f"option {option!r} cannot be used: {why}"


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
        for wrong in ("flights,trains", ["flights", "all of them"], ["^flights"]):
            with pytest.raises(ValueError, match="cannot be a topic: give a list of names"):
                consumer.subscribe(wrong)
    with pytest.raises(RuntimeError, match="closed"):
        consumer.poll()


@pytest.mark.parametrize("offset", [-1, -5, True, 2**63, "7", 3.5, None])
def test_an_invalid_offset_is_refused_before_anything_is_committed(offset: Any) -> None:
    with Consumer("localhost:1", "g") as consumer, pytest.raises(ValueError) as refusal:
        consumer.commit({TopicPartition("t", 0): 1, TopicPartition("t", 1): offset})
    assert str(refusal.value) == (
        f"the offset of t-1 must be a whole number from 0 to 9223372036854775807, not {offset!r}"
    )


@pytest.mark.parametrize(
    ("offsets", "sentence"),
    [
        ("x", "offsets must map partitions to offsets, not be 'x'"),
        ({"t": 1}, "offsets: 't' is no TopicPartition"),
    ],
)
def test_offsets_without_their_partitions_are_refused(offsets: Any, sentence: str) -> None:
    with Consumer("localhost:1", "g") as consumer, pytest.raises(ValueError) as refusal:
        consumer.commit(offsets)
    assert str(refusal.value) == sentence


def test_a_position_is_that_of_a_partition() -> None:
    with (
        Consumer("localhost:1", "g") as consumer,
        pytest.raises(ValueError, match=r"^partition: 't' is no TopicPartition$"),
    ):
        consumer.position("t")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "call",
    [
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


@pytest.mark.parametrize("topics", ["", [""], ["flights", 7], "flights trains", 7, None])
def test_a_consumer_is_not_made_with_topics_that_cannot_be(
    topics: Any,
) -> None:
    with pytest.raises(ValueError, match=r"topics must be one or more names|cannot be a topic"):
        Consumer("localhost:1", "g", topics=topics)


@pytest.mark.parametrize("topics", [(), [], None, set(), iter([])])
def test_a_pattern_may_stand_for_all_topics(topics: Any) -> None:
    with Consumer("localhost:1", "g") as consumer:
        consumer.subscribe(topics, pattern="flights-.*")
        assert consumer.poll(0) == []


@pytest.mark.parametrize("topics", ["", [""], [None], ["flights", 7], 7, "flights trains"])
def test_a_name_that_cannot_be_a_topic_is_refused_beside_a_pattern_too(topics: Any) -> None:
    with (
        Consumer("localhost:1", "g") as consumer,
        pytest.raises(ValueError, match=r"topics must be one or more names|cannot be a topic"),
    ):
        consumer.subscribe(topics, pattern="flights-.*")


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


def test_a_subscription_names_something() -> None:
    with (
        Consumer("localhost:1", "g") as consumer,
        pytest.raises(ValueError, match=r"^topics must be one or more names"),
    ):
        consumer.subscribe()


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
    with Consumer("nobody:1", "g", max_poll_interval_ms=max_poll_interval_ms) as consumer:
        assert consumer._request_timeout_ms == request_ms


def test_arguments_of_a_wrong_kind_are_refused_with_what_to_give() -> None:
    with Consumer("localhost:1", "g") as consumer:
        with pytest.raises(ValueError, match="partitions: 'f' is no TopicPartition"):
            consumer.committed("flights")  # type: ignore[arg-type]
        with pytest.raises(
            ValueError, match=r"partitions must be a list of TopicPartition.*, not 7"
        ):
            consumer.committed(7)  # type: ignore[arg-type]
        with pytest.raises(ValueError, match="timeout_ms must be a number of milliseconds, not"):
            consumer.poll("1 s")  # type: ignore[arg-type]


def test_a_closed_consumer_cannot_be_entered() -> None:
    consumer = Consumer("localhost:1", "g")
    consumer.close()
    with pytest.raises(RuntimeError, match="this consumer is closed"), consumer:
        pass
