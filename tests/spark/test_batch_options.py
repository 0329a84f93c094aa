"""The options of a batch read, and what load() checks while it may still become either."""

import pickle

import pytest

from apportion.member.batch.bounded_read import BoundedRead
from apportion.member.batch.offset_times import OffsetTimes
from apportion.member.batch.plan import StartingOffsets
from apportion.member.batch.topic_choice import TopicChoice
from apportion.security.client_security import PLAINTEXT
from apportion.spark.options.batch_read import BatchOptions, loaded_options
from apportion.spark.options.stream import SourceOptions
from apportion.spark.options.task_limits import TaskLimits
from apportion.wire.messages.list_offsets import EARLIEST, LATEST

GOOD = {"kafka.bootstrap.servers": "h:9092", "subscribe": "flights"}
FLIGHTS = TopicChoice(("flights",))
GROUP = {**GOOD, "kafka.group.id": "g"}


def test_brokers_and_topics_are_enough() -> None:
    options = BatchOptions.parse(GOOD)
    assert options == BatchOptions(
        bootstrap="h:9092",
        security=PLAINTEXT,
        client_id="apportion-spark-batch",
        request_timeout_ms=30_000,
        group=None,
        read=BoundedRead(FLIGHTS, StartingOffsets(EARLIEST), {}),
        task_limits=TaskLimits(),
        include_headers=False,
    )
    assert pickle.loads(pickle.dumps(options)) == options


def test_the_beginning_and_the_end_are_read() -> None:
    options = BatchOptions.parse(
        {
            **GOOD,
            "startingoffsets": '{"flights":{"0":23,"1":-2}}',
            "endingOffsets": '{"flights":{"0":42,"1":-1}}',
            "failOnDataLoss": "false",
            "kafka.isolation.level": "read_committed",
        }
    )
    assert options.read == BoundedRead(
        FLIGHTS,
        StartingOffsets(EARLIEST, {("flights", 0): 23, ("flights", 1): EARLIEST}),
        {("flights", 0): 42, ("flights", 1): LATEST},
        fail_on_data_loss=False,
    )
    assert not options.fail_on_data_loss


def test_times_are_read_for_both_ends() -> None:
    options = BatchOptions.parse(
        {
            **GOOD,
            "startingOffsetsByTimestamp": '{"flights":{"0":1000}}',
            "endingTimestamp": "2000",
            "endingOffsetsByTimestamp": '{"flights":{"0":9}}',
        }
    )
    assert options.read == BoundedRead(
        FLIGHTS,
        StartingOffsets(
            EARLIEST,
            times=OffsetTimes("startingOffsetsByTimestamp", by_partition={("flights", 0): 1000}),
        ),
        {},
        OffsetTimes("endingTimestamp", 2000, latest_if_none=True),
    )


def test_a_pattern_or_partitions_take_the_place_of_names() -> None:
    brokers = {"kafka.bootstrap.servers": "h:9092"}
    by_pattern = BatchOptions.parse({**brokers, "subscribePattern": "f.*"}).read
    assert by_pattern.topics == TopicChoice(expression="f.*")
    assigned = BatchOptions.parse({**brokers, "assign": '{"flights":[3,1],"trains":[0]}'}).read
    assert assigned.topics == TopicChoice(("flights", "trains"))
    assert assigned.assigned == (("flights", 1), ("flights", 3), ("trains", 0))


def test_a_group_is_where_the_read_begins_and_only_if_that_is_said() -> None:
    options = BatchOptions.parse({**GROUP, "startingOffsets": "committed"})
    assert (options.group, options.read.from_committed) == ("g", True)


@pytest.mark.parametrize(
    ("options", "kind"),
    [
        (GROUP, SourceOptions),
        (GOOD, BatchOptions),
        ({"kafka.bootstrap.servers": "h:1", "assign": '{"t":[0]}'}, BatchOptions),
        ({**GROUP, "subscribe": "", "assign": '{"t":[0]}'}, SourceOptions),
        ({**GOOD, "endingOffsets": "latest"}, BatchOptions),
        ({**GROUP, "STARTINGOFFSETS": "Committed"}, BatchOptions),
    ],
)
def test_the_options_tell_a_stream_from_a_batch_read(options: dict[str, str], kind: type) -> None:
    assert isinstance(loaded_options(options), kind)
