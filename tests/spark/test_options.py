import pickle

import pytest

from apportion.member.assignors.builtin import RoundRobin, Sticky
from apportion.member.batch.offset_times import OffsetTimes
from apportion.member.batch.plan import StartingOffsets
from apportion.member.batch.topic_choice import TopicChoice
from apportion.security.client_security import PLAINTEXT, ClientSecurity, PasswordLogin
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


def test_a_login_goes_to_executors_and_into_no_repr() -> None:
    options = SourceOptions.parse(
        {
            **GOOD,
            "kafka.security.protocol": "SASL_PLAINTEXT",
            "kafka.sasl.mechanism": "PLAIN",
            "kafka.sasl.jaas.config": "org.apache.kafka.common.security.plain.PlainLoginModule "
            'required username="alice" password="a-secret";',
        }
    )
    assert options.security == ClientSecurity(login=PasswordLogin("PLAIN", "alice", "a-secret"))
    assert pickle.loads(pickle.dumps(options)) == options
    assert "a-secret" not in repr(options)


def test_a_wrong_login_or_file_is_refused_without_its_text() -> None:
    with pytest.raises(OptionError) as refused:
        SourceOptions.parse(
            {
                **GOOD,
                "kafka.security.protocol": "SASL_PLAINTEXT",
                "kafka.sasl.mechanism": "PLAIN",
                "kafka.sasl.jaas.config": "a-secret",
            }
        )
    assert str(refused.value).startswith("option kafka.sasl.jaas.config must be: a login module")
    assert "a-secret" not in str(refused.value) + repr(refused.value.__cause__)
    with pytest.raises(OptionError) as refused:
        SourceOptions.parse(
            {
                **GOOD,
                "kafka.security.protocol": "SSL",
                "kafka.ssl.truststore.location": "no-such-file.p12",
            }
        )
    assert str(refused.value) == (
        "option kafka.security.protocol is SSL: CA certificates: the file 'no-such-file.p12' "
        "cannot be read: No such file or directory."
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


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (
            {"subscribePattern": "(?=a)b"},
            "option subscribePattern is '(?=a)b': it is no regular expression of RE2: ",
        ),
        (
            {"kafka.group.protocol": "classic"},
            "option subscribePattern is for kafka.group.protocol=consumer: with classic name the "
            "topics in subscribe, since the broker resolves no pattern.",
        ),
        (
            {"startingOffsets": '{"trains":{"0":5}}'},
            "option startingOffsets names topic trains, which subscribePattern does not: add it "
            "there or drop it here.",
        ),
    ],
)
def test_a_pattern_that_cannot_be_used_is_refused(change: dict[str, str], sentence: str) -> None:
    with pytest.raises(OptionError) as error:
        SourceOptions.parse({**PATTERN, **change})
    assert str(error.value).startswith(sentence)


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


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            {"startingTimestamp": "yesterday"},
            "option startingTimestamp is 'yesterday': give a whole number from 0 to "
            "9223372036854775807.",
        ),
        (
            {"startingTimestamp": "99999999999999999999"},
            "option startingTimestamp is '99999999999999999999': give a whole number from 0 to",
        ),
        (
            {"startingOffsetsByTimestamp": '{"flights":{"0":9223372036854775808}}'},
            "option startingOffsetsByTimestamp gives flights-0 the time 9223372036854775808: give",
        ),
        (
            {"startingOffsets": '{"flights":{"0":9223372036854775808}}'},
            "option startingOffsets gives flights-0 the offset 9223372036854775808: give",
        ),
        ({"startingOffsets": '{"flights":{"0":1e999}}'}, "gives flights-0 the offset Infinity"),
        ({"startingOffsets": '{"flights":{"0":1.7}}'}, "gives flights-0 the offset 1.7: give"),
        ({"startingOffsets": '{"flights":{"0":true}}'}, "gives flights-0 the offset true: give"),
        ({"startingOffsets": '{"flights":{"0":"5"}}'}, 'gives flights-0 the offset "5": give'),
        ({"startingOffsets": '{"flights":{"00":5}}'}, "option startingOffsets is '{"),
        ({"startingOffsets": '{"flights":{"-1":5}}'}, "option startingOffsets is '{"),
        ({"startingOffsets": '["flights"]'}, "option startingOffsets is '["),
        (
            {"startingOffsetsByTimestamp": '{"flights":{"0":-1}}'},
            "option startingOffsetsByTimestamp gives flights-0 the time -1: give JSON such as",
        ),
        (
            {"startingOffsetsByTimestampStrategy": "maybe"},
            "option startingOffsetsByTimestampStrategy is 'maybe': give error or latest.",
        ),
        (
            {"startingOffsets": "committed"},
            "option startingOffsets is committed: that is for batch reads; a stream always "
            "begins at the group's committed offsets",
        ),
        ({"kafka.group.id": ""}, "option kafka.group.id is missing"),
        ({"subscribe": " "}, "option subscribe is missing"),
        ({"kafka.bootstrap.servers": ""}, "option kafka.bootstrap.servers is missing"),
        ({"kafka.bootstrap.servers": "localhost"}, "write each broker as host:port"),
        ({"kafka.bootstrap.servers": "h:\u00b2"}, "'h:\u00b2' is not host:port; write each"),
        ({"kafka.bootstrap.servers": "a..b:9092"}, "'a..b' is no host name; write each"),
        ({"kafka.bootstrap.servers": "h:0"}, "has port 0, which is out of range"),
        ({"kafka.bootstrap.servers": "http://h:9092"}, "leave http:// off and write host:port"),
        ({"subscribe": "a,,b"}, "option subscribe holds an empty name"),
        ({"startingOffset": "earliest"}, "did you mean startingOffsets?"),
        ({"colour": "red"}, "option colour is unknown: known are"),
        ({"assign": '{"flights":[0]}'}, "options subscribe and assign: subscribe"),
        (
            {"subscribe": "", "assign": '{"t":[0]}', "kafka.group.instance.id": "i"},
            "option kafka.group.instance.id says nothing with assign, which joins no group: drop",
        ),
        ({"kafka.enable.auto.commit": "true"}, "option kafka.enable.auto.commit cannot be used"),
        ({"maxOffsetsPerTrigger": "0"}, "give a whole number of at least 1"),
        (
            {"minOffsetsPerTrigger": "20", "maxOffsetsPerTrigger": "10"},
            "option minOffsetsPerTrigger (20) must not be above maxOffsetsPerTrigger (10).",
        ),
        (
            {"maxTriggerDelay": "soon"},
            "option maxTriggerDelay is 'soon': give a time such as 90s, 15m or 1h.",
        ),
        (
            {"kafka.sasl.mechanisms": "PLAIN"},
            "option kafka.sasl.mechanisms is not known: did you mean kafka.sasl.mechanism?",
        ),
        (
            {"minPartitions": "100001"},
            "option minPartitions is '100001': give a whole number from 1 to 100000.",
        ),
        ({"minPartitions": "0"}, "option minPartitions is '0': give a whole number from 1 to"),
        (
            {"kafka.isolation.level": "read_uncommitted"},
            "option kafka.isolation.level is 'read_uncommitted': only read_committed is here, "
            "because a record that is aborted later could not be taken back from where it was "
            "written; drop the option.",
        ),
        ({"maxOffsetsPerTrigger": "-5"}, "give a whole number of at least 1"),
        ({"maxOffsetsPerTrigger": "\u00b2"}, "give a whole number of at least 1"),
        (
            {"kafka.request.timeout.ms": "2147483648"},
            "option kafka.request.timeout.ms is '2147483648': give a whole number from 1 to "
            "2147483647.",
        ),
        ({"failOnDataLoss": "perhaps"}, "give true or false"),
        ({"startingOffsets": "soon"}, "give earliest, latest, or JSON"),
        ({"startingOffsets": '{"flights":{"0":-3}}'}, "gives flights-0 the offset -3"),
        ({"startingOffsets": '{"trains":{"0":1}}'}, "names topic trains, which subscribe does not"),
        (
            {"kafka.group.protocol": "generic"},
            "kafka.group.protocol is 'generic': give consumer (KIP-848), or classic for brokers",
        ),
        (
            {"kafka.session.timeout.ms": "9000"},
            "is for kafka.group.protocol=classic: with consumer the broker decides",
        ),
        (
            {"kafka.group.protocol": "classic", "kafka.group.remote.assignor": "uniform"},
            "is for kafka.group.protocol=consumer: with classic the members assign, by "
            "cooperative-sticky",
        ),
        (
            {"kafka.group.protocol": "classic", "kafka.group.local.assignors": "sticky"},
            "is for kafka.group.protocol=consumer: with classic the members assign, by "
            "cooperative-sticky",
        ),
        (
            {"kafka.group.local.assignors": "sticky", "kafka.group.remote.assignor": "range"},
            "kafka.group.remote.assignor and kafka.group.local.assignors exclude each other",
        ),
        (
            {"kafka.group.local.assignors": "stickey"},
            "option kafka.group.local.assignors: there is no assignor 'stickey': give one of",
        ),
        (
            {"kafka.group.local.assignors": "bytes-weighted"},
            "bytes-weighted measures what a consumer reads, and a query's executors read; use "
            "lag-weighted.",
        ),
        (
            {"kafka.group.protocol": "classic", "kafka.heartbeat.interval.ms": "45000"},
            "option kafka.heartbeat.interval.ms (45000) must be below kafka.session.timeout.ms "
            "(45000), or the session ends between two heartbeats; a third of it is usual.",
        ),
        (
            {"kafka.group.protocol": "classic", "kafka.max.poll.interval.ms": "3000"},
            "option kafka.heartbeat.interval.ms (3000) must be below kafka.max.poll.interval.ms "
            "(3000), or a rebalance ends before the members have learnt of it.",
        ),
        (
            {"kafka.partition.assignment.strategy": "range"},
            "spoken here with cooperative-sticky alone",
        ),
    ],
)
def test_a_faulty_option_is_one_sentence_that_names_it_and_the_remedy(
    change: dict[str, str], message: str
) -> None:
    with pytest.raises(OptionError) as error:
        SourceOptions.parse({**GOOD, **change})
    assert message in str(error.value)
    assert not str(error.value).endswith("?.")


@pytest.mark.parametrize(
    ("option", "sentence"),
    [
        (
            "startingoffset",
            "option startingoffset is unknown (Spark hands names over in lower case): did "
            "you mean startingOffsets?",
        ),
        ("startingOffset", "option startingOffset is unknown: did you mean startingOffsets?"),
        (
            "subscribepattern",
            "options subscribe and subscribePattern: subscribe, subscribePattern and assign "
            "exclude each other: give one of them.",
        ),
        (
            "kafka.security.protocol",
            "option kafka.security.protocol must be one of PLAINTEXT, SSL, SASL_PLAINTEXT, "
            "SASL_SSL, not 'x'.",
        ),
        (
            "kafka.fetch.min.bytes",
            "option kafka.fetch.min.bytes cannot be used: it is chosen by itself here; drop the "
            "option.",
        ),
        (
            "endingTimestamp",
            "option endingTimestamp cannot be used: it is for batch reads; a stream with "
            "trigger(availableNow=True) reads up to now.",
        ),
        (
            "kafka.ssl.cipher.suites",
            "option kafka.ssl.cipher.suites cannot be used here: OpenSSL's own choice is offered; "
            "drop the option.",
        ),
        (
            "kafka.sasl.mechanism",
            "option kafka.sasl.mechanism says nothing while kafka.security.protocol is PLAINTEXT: "
            "set kafka.security.protocol to SASL_SSL (with TLS) or SASL_PLAINTEXT, or leave "
            "kafka.sasl.mechanism out.",
        ),
    ],
)
def test_a_refused_option_is_shown_as_it_is_documented(option: str, sentence: str) -> None:
    with pytest.raises(OptionError) as error:
        SourceOptions.parse({**GOOD, option: "x"})
    assert str(error.value) == sentence
