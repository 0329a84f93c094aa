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
from apportion.spark.options.values import OptionError
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
    ("change", "sentence"),
    [
        ({"subscribe": ""}, "option subscribe is missing: give the topics to read, with"),
        (
            {"subscribe": "", "assign": '{"flights":["a"]}'},
            'option assign is \'{"flights":["a"]}\': give the partitions as JSON, such as',
        ),
        (
            {"assign": '{"flights":[0]}'},
            "options subscribe and assign: subscribe, subscribePattern and assign exclude each",
        ),
        (
            {"startingOffsets": "latest"},
            "option startingOffsets is latest: a batch read ends there and would be empty; give "
            "earliest, committed (with kafka.group.id), or JSON such as "
            '{"flights":{"0":23,"1":-2}} (-2 earliest).',
        ),
        (
            {"startingOffsets": '{"flights":{"0":-1}}'},
            "option startingOffsets gives flights-0 the offset -1 (latest), with which nothing "
            "would be read: give earliest, committed",
        ),
        (
            {"endingOffsets": "earliest"},
            "option endingOffsets is 'earliest': give latest, or JSON such as",
        ),
        (
            {"endingOffsets": '{"flights":{"0":-2}}'},
            "option endingOffsets gives flights-0 the offset -2 (earliest), with which nothing",
        ),
        (
            {"endingOffsets": '{"trains":{"0":2}}'},
            "option endingOffsets names topic trains, which subscribe does not",
        ),
        (
            {"kafka.group.id": "g"},
            "option kafka.group.id says nothing in a batch read with startingOffsets=earliest: "
            "give startingOffsets=committed to begin at the group's committed offsets, or leave "
            "kafka.group.id out; a batch read joins no group and commits nothing.",
        ),
        (
            {"startingOffsets": "committed"},
            "option kafka.group.id is missing: give the group at whose committed offsets the "
            "read begins",
        ),
        (
            {
                "startingOffsets": '{"flights":{"0":9,"1":-2}}',
                "endingOffsets": '{"flights":{"0":8,"1":-1}}',
            },
            "option startingOffsets gives flights-0 the offset 9, and endingOffsets 8: the read "
            "would end before it begins.",
        ),
        (
            {"startingTimestamp": "9", "endingTimestamp": "8"},
            "option startingTimestamp is 9, and endingTimestamp 8: the read would end before it "
            "begins.",
        ),
        (
            {"kafkaConsumer.pollTimeoutMs": "5"},
            "option kafkaConsumer.pollTimeoutMs cannot be used: a task waits two minutes for a",
        ),
        (
            {"maxOffsetsPerTrigger": "5"},
            "option maxOffsetsPerTrigger cannot be used: it limits the micro-batches of a stream; "
            "drop the option.",
        ),
        (
            {"kafka.group.protocol": "classic"},
            "option kafka.group.protocol cannot be used: a batch read joins no group; drop the "
            "option.",
        ),
        (
            {"kafka.isolation.level": "read_uncommitted"},
            "option kafka.isolation.level is 'read_uncommitted': only read_committed is here, "
            "because a record that is aborted later could not be taken back from where it was "
            "written; drop the option.",
        ),
        ({"endingOffset": "latest"}, "option endingOffset is unknown: did you mean endingOffsets?"),
        (
            {"kafka.sasl.mechanisms": "PLAIN"},
            "option kafka.sasl.mechanisms is not known: did you mean kafka.sasl.mechanism?",
        ),
        (
            {"kafka.security.protocol": "x"},
            "option kafka.security.protocol must be one of PLAINTEXT, SSL, SASL_PLAINTEXT, "
            "SASL_SSL, not 'x'.",
        ),
    ],
)
def test_a_faulty_option_is_one_sentence_that_names_it_and_the_remedy(
    change: dict[str, str], sentence: str
) -> None:
    with pytest.raises(OptionError) as error:
        BatchOptions.parse({**GOOD, **change})
    assert str(error.value).startswith(sentence)
    assert not str(error.value).endswith("?.")


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


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({**GOOD, "maxOffsetsPerTrigger": "5"}, "option kafka.group.id is missing"),
        ({**GROUP, "maxOffsetsPerTrigger": "0"}, "option maxOffsetsPerTrigger is '0'"),
        (
            {**GROUP, "endingOffsets": "latest"},
            "as a stream: option endingOffsets cannot be used: it is for batch reads; a stream "
            "with trigger(availableNow=True) reads up to now; as a batch read: option "
            "kafka.group.id says nothing in a batch read with startingOffsets=earliest: give",
        ),
        (
            {**GROUP, "endingOffsets": "latest", "maxOffsetsPerTrigger": "5"},
            "as a stream: option endingOffsets cannot be used: it is for batch reads; a stream "
            "with trigger(availableNow=True) reads up to now; as a batch read: option "
            "maxOffsetsPerTrigger cannot be used: it limits the micro-batches of a stream; drop",
        ),
        (
            {**GOOD, "startingOffsets": "latest"},
            "as a stream: option kafka.group.id is missing: give the name of the consumer group "
            'that this query joins, as in .option("kafka.group.id", "..."); as a batch read: '
            "option startingOffsets is latest: a batch read ends there and would be empty",
        ),
        (
            {**GOOD, "startingOffsets": "latest", "subscribe": "t", "startingOffset": "latest"},
            "option startingOffset is unknown: did you mean startingOffsets?",
        ),
        (
            {**GOOD, "startingOffsets": "latest", "endingOffsets": "latest"},
            "option startingOffsets is latest: a batch read ends there and would be empty",
        ),
        (
            {**GROUP, "startingOffsets": "committed", "endingOffsets": "earliest"},
            "option endingOffsets is 'earliest': give latest, or JSON such as",
        ),
    ],
)
def test_options_of_neither_kind_are_refused_at_once(
    options: dict[str, str], sentence: str
) -> None:
    with pytest.raises(OptionError) as error:
        loaded_options(options)
    assert str(error.value).startswith(sentence)
