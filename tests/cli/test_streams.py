"""`apportion streams describe` shows what the members of a Kafka Streams group say and are told."""

from types import SimpleNamespace
from typing import Any

from apportion.streams.metadata.codec import encode_assignment
from apportion.streams.metadata.model import (
    OFFSET_UNKNOWN,
    RUNNING,
    AssignmentInfo,
    AssignorError,
    TaskId,
)
from apportion.topics import TopicPartition as Partition
from apportion.wire.records.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolTopicPartition,
)
from apportion.wire.records.consumer_serde import encode
from tests.cli.streams_groups import as_json, asked, assignment, group, subscription
from tests.client import changes

OLD, NEW = bytes(15) + b"\1", bytes(15) + b"\2"
OLD_NAME, NEW_NAME = "00000000-0000-0000-0000-000000000001", "00000000-0000-0000-0000-000000000002"


def upgrading() -> list[tuple[str, bytes, bytes]]:
    """An old process with an active task and a copy, and a new one that speaks as it does."""
    encoded = subscription(
        2,
        process_id=OLD,
        endpoint="old:1",
        offset_sums={TaskId(0, 0): RUNNING, TaskId(0, 1): OFFSET_UNKNOWN},
    )
    standby = {TaskId(0, 1): (Partition("t", 1),)}
    return [
        ("one", encoded, assignment((0,), 2, active=(TaskId(0, 0),), standby=standby)),
        (
            "two",
            subscription(11, 11, process_id=NEW, tags={"zone": "a"}),
            assignment((1,), 2, active=(TaskId(0, 1),)),
        ),
    ]


def test_processes_are_shown_with_versions_tasks_lag_and_upgrade_blockers(
    broker: SimpleNamespace,
) -> None:
    changes.commit(broker.clusters["one"], "up", {broker.partitions[0]: 1, broker.partitions[1]: 2})
    with group(broker, "up", upgrading()):
        code, lines = asked(broker, "up")
    advice = (
        f"Process {OLD_NAME} (old:1) speaks version 2, which does not name a newer supported "
        "one: it is of Kafka Streams 0.10.1 to "
        "1.1, or has upgrade.from set; bounce it next, with a newer release or without "
        "upgrade.from."
    )
    assert (code, lines) == (
        0,
        [
            "up: a group of Kafka Streams, Stable, 2 processes, 2 consumers, 2 active tasks, lag 1",
            "metadata: version 2 is in use, 11 is possible; 1 of 2 processes holds the group back",
            f"metadata: {advice}",
            "Standby tasks and warm-ups look alike to others than the leader, and nothing "
            "here tells them apart.",
            "",
            f"process {OLD_NAME}",
            "  metadata            version 2, cannot say what it supports",
            "  endpoint            old:1",
            "  consumers           one at 127.0.0.1, instance seat-0",
            "  active              0_0",
            "  lag                 1 (0_0 1)",
            "  standby or warm-up  0_1",
            "",
            f"process {NEW_NAME}",
            "  metadata   version 11, supports 11",
            "  tags       zone=a",
            "  consumers  two at 127.0.0.1, instance seat-1",
            "  active     0_1",
            "  lag        0",
        ],
    )


def test_json_holds_the_same_under_keys_that_stay(broker: SimpleNamespace) -> None:
    changes.commit(broker.clusters["one"], "same", {broker.partitions[0]: 1})
    with group(broker, "same", upgrading()) as ids:
        report = as_json(broker, "same")
    advice = report["metadata"].pop("advice")
    old, new = report.pop("processes")
    assert [sentence.split(" ")[:2] for sentence in advice] == [["Process", OLD_NAME]]
    assert report == {
        "group": "same",
        "state": "Stable",
        "told": True,
        "metadata": {"used": 2, "understood": 2, "possible": 11, "held_back_by": [OLD_NAME]},
        "next_rebalance_ms": None,
        "copies": "standby_or_warmup",
        "unowned": [],
        "lag": None,
        "lag_problem": None,
    }
    here: dict[str, str | list[Any] | None] = {
        "host": "/127.0.0.1",
        "asks": None,
        "error": None,
        "next_rebalance_ms": None,
        "unread": [],
    }
    assert old.pop("consumers") == [
        {
            "member": ids[0],
            "instance": "seat-0",
            "client": "one",
            "used": 2,
            "supported": None,
            **here,
        }
        | {"active": ["0_0"], "copies": ["0_1"]}
    ]
    assert new.pop("consumers") == [
        {
            "member": ids[1],
            "instance": "seat-1",
            "client": "two",
            "used": 11,
            "supported": 11,
            **here,
        }
        | {"active": ["0_1"], "copies": []}
    ]


def test_json_has_a_process_with_its_tasks_and_what_it_had_of_them(broker: SimpleNamespace) -> None:
    changes.commit(broker.clusters["one"], "tasks", {broker.partitions[0]: 1})
    with group(broker, "tasks", upgrading()):
        old, new = as_json(broker, "tasks")["processes"]
    del old["consumers"], new["consumers"]
    lists: dict[str, list[Any]] = {"standby": [], "warmup": [], "standby_or_warmup": []}
    unknown = {"ran_at_join": False, "offset_sum_at_join": None}
    ran = {"task": "0_0", "ran_at_join": True, "offset_sum_at_join": None, "lag": 1}
    assert old == {
        "process": OLD_NAME,
        "used": 2,
        "supported": None,
        "endpoint": "old:1",
        "tags": {},
        "lag": 1,
        "active": [
            {
                **ran,
                "partitions": [{"topic": "t", "partition": 0, "committed": 1, "end": 2, "lag": 1}],
            }
        ],
        **lists,
        "standby_or_warmup": [{"task": "0_1", **unknown}],
    }
    reads = [{"topic": "t", "partition": 1, "committed": None, "end": 2, "lag": None}]
    assert new == {
        "process": NEW_NAME,
        "used": 11,
        "supported": 11,
        "endpoint": None,
        "tags": {"zone": "a"},
        "lag": None,
        "active": [{"task": "0_1", **unknown, "lag": None, "partitions": reads}],
        **lists,
    }


def test_warm_ups_sums_the_next_rebalance_and_tasks_that_nobody_has_are_told(
    broker: SimpleNamespace,
) -> None:
    ran = {TaskId(1, number): RUNNING for number in range(3)}
    members = [
        (
            "one",
            subscription(11, 11, process_id=OLD, offset_sums=ran),
            assignment((0,), 11, active=(TaskId(1, 0),), supported=11, next_rebalance_ms=1_000),
        ),
        (
            "two",
            subscription(11, 11, process_id=NEW, offset_sums={TaskId(1, 0): 7}),
            assignment(
                (1,),
                11,
                active=(TaskId(1, 1),),
                supported=11,
                standby={TaskId(1, 0): (Partition("t", 0),)},
            ),
        ),
    ]
    with group(broker, "warm", members):
        lines = asked(broker, "warm")[1]
    assert lines[1:4] == [
        "metadata: All speak version 11 and nobody supports more.",
        "next rebalance: 1970-01-01 00:00:01 UTC, due",
        "given to nobody: 1_2 (withheld until who had them gives them back, or no tasks any more)",
    ]
    assert "  lag        not known (not known of 1_0)" in lines
    assert lines[-1] == "  warm-up    1_0 (at 7 when it joined)"


def test_members_with_an_unknown_version_bad_metadata_or_an_error_are_named(
    broker: SimpleNamespace,
) -> None:
    members = [
        ("one", subscription(12, 12), assignment((0,), 2, active=(TaskId(0, 0),))),
        (
            "two",
            b"\0",
            assignment((), 11, supported=11, error=AssignorError.INCOMPLETE_SOURCE_TOPIC_METADATA),
        ),
    ]
    with group(broker, "odd", members) as ids:
        code, lines = asked(broker, "odd")
        report = as_json(broker, "odd")
    blocks = {
        name: [line.strip() for line in lines[lines.index(name) + 1 :][:4]]
        for name in lines
        if name.startswith("process")
    }
    assert code == 0
    assert blocks["process unknown, of one"] == [
        "metadata   version 12, supports 12",
        "consumers  one at 127.0.0.1, instance seat-0",
        "active     0_0",
        "lag        not known (not known of 0_0)",
    ]
    assert blocks["process unknown, of two"][:3] == [
        "consumers  two at 127.0.0.1, instance seat-1",
        "problems   its subscription cannot be read: ConsumerProtocolSubscription: 1 "
        "bytes have no version",
        "it was told INCOMPLETE_SOURCE_TOPIC_METADATA: source topics are missing, so it "
        "got no tasks and shuts down: "
        "make them, start it again",
    ]
    assert report["metadata"]["held_back_by"] == []
    assert {
        each["consumers"][0]["member"]: each["process"] for each in report["processes"]
    } == dict.fromkeys(ids)


def test_a_shutdown_that_is_asked_for_is_told(broker: SimpleNamespace) -> None:
    asks = subscription(9, 11, process_id=OLD, error=AssignorError.SHUTDOWN_REQUESTED)
    with group(
        broker,
        "down",
        [("one", asks, assignment((), 9, supported=11, error=AssignorError.SHUTDOWN_REQUESTED))],
    ):
        lines = asked(broker, "down")[1]
    assert lines[1] == (
        f"metadata: All support version 11. Process {OLD_NAME} (127.0.0.1) still speaks "
        "9: it steps up in a next rebalance, "
        "with no bounce."
    )
    assert [line.strip() for line in lines[-3:]] == [
        "problems   it asks the whole application to shut down",
        "it was told SHUTDOWN_REQUESTED: somebody has asked the whole application to shut down",
        "active     nothing: it was given no tasks to run",
    ]


def test_control_characters_of_members_are_escaped_and_no_date_is_too_far(
    broker: SimpleNamespace,
) -> None:
    encoded = subscription(11, 11, process_id=NEW, endpoint="evil\x1b[2J:1", tags={"zone": "a\nb"})
    assigned = assignment((0, 1), 11, active=(TaskId(0, 0), TaskId(0, 1)), next_rebalance_ms=2**62)
    with group(broker, "wild", [("one", encoded, assigned)]):
        _, lines = asked(broker, "wild")
    assert f"next rebalance: at {2**62} ms since 1970, which is no date" in lines
    assert {"  endpoint   evil\\x1b[2J:1", "  tags       zone=a\\nb"} < set(lines)


def test_a_topic_that_is_gone_leaves_the_lag_unknown(broker: SimpleNamespace) -> None:
    gone = (ConsumerProtocolTopicPartition(topic="gone", partitions=(0,)),)
    info = encode_assignment(AssignmentInfo(11, 11, active=(TaskId(0, 0),)))
    assigned = encode(ConsumerProtocolAssignment(assigned_partitions=gone, user_data=info))
    with group(broker, "lost", [("one", subscription(11, 11), assigned)]):
        (process,) = as_json(broker, "lost")["processes"]
    assert process["active"][0]["partitions"] == [
        {"topic": "gone", "partition": 0, "committed": None, "end": None, "lag": None}
    ]


def test_lag_is_unknown_where_tasks_are(broker: SimpleNamespace) -> None:
    changes.commit(broker.clusters["one"], "waiting", {broker.partitions[0]: 1})
    assert as_json(broker, "waiting")["lag"] is None
    with group(
        broker,
        "later",
        [
            (
                "one",
                subscription(12, 12),
                encode(ConsumerProtocolAssignment(user_data=b"\0\0\0\x0c" * 2)),
            )
        ],
    ):
        report, (_, lines) = as_json(broker, "later"), asked(broker, "later")
    assert (report["lag"], report["processes"][0]["lag"]) == (None, None)
    assert "  active     not known" in lines
