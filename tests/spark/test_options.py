import pytest

from apportion.member.assignors.builtin import RoundRobin, Sticky
from apportion.member.batch.offset_times import OffsetTimes
from apportion.member.batch.plan import StartingOffsets
from apportion.member.batch.topic_choice import TopicChoice
from apportion.security.client_security import PLAINTEXT
from apportion.spark.options.stream import SourceOptions
from apportion.spark.options.task_limits import TaskLimits
from apportion.spark.options.values import OptionError
from apportion.wire.messages.list_offsets import EARLIEST, LATEST

GOOD = {"kafka.bootstrap.servers": "h:9092", "kafka.group.id": "g", "subscribe": "flights"}


def test_the_three_required_options_are_enough() -> None:
    assert SourceOptions.parse(GOOD) == SourceOptions(
        bootstrap="h:9092",
        security=PLAINTEXT,
        group="g",
        topics=TopicChoice(("flights",)),
        assigned=None,
        instance_id=None,
        classic=False,
        assignor=None,
        local_assignors=(),
        session_timeout_ms=45_000,
        heartbeat_interval_ms=3_000,
        metadata_max_age_ms=300_000,
        client_id="apportion-spark-g",
        rebalance_timeout_ms=300_000,
        request_timeout_ms=30_000,
        starting=StartingOffsets(LATEST),
        max_offsets=None,
        min_offsets=None,
        max_delay_ms=900_000,
        task_limits=TaskLimits(),
        fail_on_data_loss=True,
        include_headers=False,
    )


def test_option_names_are_read_in_any_case() -> None:
    options = SourceOptions.parse(
        {**GOOD, "MAXOFFSETSPERTRIGGER": "10", "startingoffsets": "EARLIEST"}
    )
    assert (options.max_offsets, options.starting) == (10, StartingOffsets(EARLIEST))


def test_partitions_may_be_assigned_by_hand() -> None:
    options = SourceOptions.parse({**GOOD, "subscribe": "", "assign": '{"u":[1],"t":[2,0]}'})
    assert options.topics == TopicChoice(("t", "u"))
    assert options.assigned == (("t", 0), ("t", 2), ("u", 1))


PATTERN = {**GOOD, "subscribe": "", "subscribePattern": "flights|trains-.*"}


def test_a_pattern_takes_the_place_of_names() -> None:
    options = SourceOptions.parse({**PATTERN, "startingOffsets": '{"trains-1":{"0":5}}'})
    assert options.topics == TopicChoice(expression="flights|trains-.*")
    assert options.starting == StartingOffsets(EARLIEST, {("trains-1", 0): 5})


def test_a_pattern_that_is_no_expression_of_re2_is_refused() -> None:
    sentence = r"^option subscribePattern is '\(\?=a\)b': it is no regular expression of RE2: "
    with pytest.raises(OptionError, match=sentence):
        SourceOptions.parse({**PATTERN, "subscribePattern": "(?=a)b"})


@pytest.mark.parametrize(
    ("text", "delay_ms"), [("90s", 90_000), ("15m", 900_000), ("2 h", 7_200_000), ("250", 250)]
)
def test_the_size_of_batches_and_tasks_is_read(text: str, delay_ms: int) -> None:
    given = {
        "minOffsetsPerTrigger": "5",
        "maxTriggerDelay": text,
        "minPartitions": "6",
        "maxRecordsPerPartition": "700",
    }
    options = SourceOptions.parse({**GOOD, **given})
    assert (options.min_offsets, options.max_delay_ms) == (5, delay_ms)
    assert options.task_limits == TaskLimits(least_tasks=6, most_offsets=700)


def test_local_assignors_are_new_objects_for_each_membership() -> None:
    mine = "apportion.member.assignors.builtin:RoundRobin"
    options = SourceOptions.parse({**GOOD, "kafka.group.local.assignors": f"sticky, {mine}"})
    first, second = (options.membership()["assignors"] for _ in range(2))
    assert [[type(each) for each in made] for made in (first, second)] == [
        [Sticky, RoundRobin],
        [Sticky, RoundRobin],
    ]
    assert first[0] is not second[0]


def test_booleans_are_read_in_any_case() -> None:
    options = SourceOptions.parse({**GOOD, "includeHeaders": "true", "failOnDataLoss": "False"})
    assert (options.include_headers, options.fail_on_data_loss) == (True, False)


def test_starting_offsets_of_single_partitions_leave_the_rest_at_the_earliest() -> None:
    options = SourceOptions.parse({**GOOD, "startingOffsets": '{"flights":{"0":23,"1":-1}}'})
    assert options.starting == StartingOffsets(
        EARLIEST, {("flights", 0): 23, ("flights", 1): LATEST}
    )


@pytest.mark.parametrize(
    ("change", "times"),
    [
        ({"startingTimestamp": "1000"}, OffsetTimes("startingTimestamp", 1000)),
        (
            {"startingOffsetsByTimestamp": '{"flights":{"0":1000,"1":2000}}'},
            OffsetTimes(
                "startingOffsetsByTimestamp",
                by_partition={("flights", 0): 1000, ("flights", 1): 2000},
            ),
        ),
        (
            {
                "startingTimestamp": "1000",
                "startingOffsetsByTimestamp": '{"flights":{"0":5}}',
                "startingOffsets": "latest",
                "startingOffsetsByTimestampStrategy": "Latest",
            },
            OffsetTimes("startingTimestamp", 1000, latest_if_none=True),
        ),
    ],
)
def test_a_time_comes_before_times_in_json_and_these_before_starting_offsets(
    change: dict[str, str], times: OffsetTimes
) -> None:
    options = SourceOptions.parse({**GOOD, **change})
    assert options.starting == StartingOffsets(EARLIEST, times=times)


def test_an_option_like_no_other_is_answered_with_those_that_are_known() -> None:
    with pytest.raises(OptionError, match=r"^option colour is unknown: known are assign, failO"):
        SourceOptions.parse({**GOOD, "colour": "red"})


def test_a_wrong_security_is_refused_without_its_cause() -> None:
    with pytest.raises(OptionError) as refused:
        SourceOptions.parse({**GOOD, "kafka.security.protocol": "x"})
    assert refused.value.__cause__ is None
    assert refused.value.__suppress_context__
