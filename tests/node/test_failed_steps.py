"""A step that fails leaves no trace that later steps could stumble over: random histories with one
fault in the middle of a step.

A fault is an exception that one named function of the broker raises once, before it does its work
or after it. Then every request is answered, once; what was acknowledged is there, also after a
crash; what was refused is not; and later requests are answered as by a node that never failed:
above all, who waits for records has them when they are there, and not when its time is up.
"""

from collections.abc import Mapping, Sequence
from itertools import count
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from apportion.coord.shard import Shard
from apportion.coord.turn import Turn
from apportion.coord.waiting import WaitingRequests
from apportion.deadlines import Deadlines
from apportion.node.authorization.gate import Gate
from apportion.node.cleaning import Cleaner
from apportion.node.coordinators import Coordinators
from apportion.node.delayed_fetches import DelayedFetches
from apportion.node.flush_gate import FlushGate
from apportion.node.handlers.fetch import FetchResult
from apportion.node.partitions import Partition, Partitions
from apportion.node.producers import ProducerStates
from apportion.node.retention import RetentionCheck
from apportion.node.splits import SplitRequests
from apportion.node.topics import TopicService
from apportion.store.disk import DiskError
from apportion.store.log import Log
from apportion.store.metadata_log import MetadataLog
from apportion.store.segment import Segment
from tests.node.fault_histories import (
    EXPIRING,
    GROUPS,
    PARTITIONS,
    RETENTION_MS,
    SMALL,
    TOPICS,
    Fault,
    begun,
    commit,
)
from tests.node.fault_laws import check, check_offsets, check_records, check_settings, check_waiting
from tests.node.guarded import GUARDED
from tests.node.topic_requests import create

Place = tuple[type[Any], str]


def places(names_by_owner: dict[type[Any], tuple[str, ...]]) -> list[Place]:
    """The functions of these classes."""
    return [(owner, name) for owner, names in names_by_owner.items() for name in names]


PLACES = places(
    {
        Cleaner: ("consider", "run_step", "_step_ended", "flushed"),
        RetentionCheck: ("take_next_partitions", "delete_expired", "arm_if_needed"),
        Coordinators: (
            "route",
            "update",
            "drop_tickets",
            "tick",
            "_load",
            "_step",
            "_perform",
            "steady_response_or_none",
            "arm_steady",
        ),
        SplitRequests: ("joined_reply_or_none",),
        Shard: ("step", "loaded", "steady_response_or_none"),
        Turn: ("emit", "reply", "close"),
        WaitingRequests: ("add", "remove", "drop"),
        Deadlines: ("arm", "disarm"),
        FetchResult: ("__init__",),
        FlushGate: ("begin_write", "wrote", "hold_reply", "begin_flush_or_none"),
        Partition: (
            *("append", "append_records", "read", "take_unsynced_paths", "on_flushed"),
            *("delete_before", "delete_expired"),
        ),
        Partitions: ("open_partition", "make_directory", "delete_logs"),
        ProducerStates: ("duplicate_or_none", "appended"),
        TopicService: (
            "validate",
            "create",
            "configure",
            "delete",
            "grow",
            "allocate_producer_id",
            "take_unsynced_paths",
            "on_flushed",
        ),
        DelayedFetches: ("park", "partition_changed", "remove"),
        MetadataLog: ("_record", "take_unsynced_paths"),
        Log: (
            *(
                "append",
                "read",
                "take_unsynced_paths",
                "roll_segment",
                "raise_start_offset",
                "delete_before",
            ),
            *("new_cleaned_segment", "prepare_replacement", "replace_segments", "delete"),
        ),
        Segment: ("append",),
        Gate: ("check",),
    }
)
"""Where a fault may be."""
ON_THE_WAY_BACK = places(
    {
        FlushGate: ("retract_replies", "take_savepoints", "flush_failed"),
        Coordinators: ("reload", "rearm"),
        TopicService: ("roll_back", "cut_back"),
        Partition: ("roll_back", "cut_back"),
        Log: ("truncated",),
        ProducerStates: ("roll_back",),
        Shard: ("replay",),
        Cleaner: ("flush_failed", "rearm"),
        RetentionCheck: ("arm_if_needed",),
    }
)
"""Where a second fault may be, by which the broker ends."""

requests = st.one_of(
    st.tuples(
        st.just("produce"),
        st.sampled_from((*TOPICS, EXPIRING)),
        st.sampled_from([(0,), (1,), (0, 1)]),
    ),
    st.tuples(
        st.just("delete"),
        st.sampled_from(TOPICS),
        st.sampled_from([0, 1]),
        st.sampled_from([-1, 1, 2]),
    ),
    st.tuples(
        st.just("fetch"),
        st.sampled_from(TOPICS),
        st.sampled_from([(0,), (1,), (0, 1), (0, 0), (0, 1, 0)]),
    ),
    st.tuples(st.just("commit"), st.sampled_from(GROUPS), st.sampled_from(TOPICS)),
    st.tuples(st.just("committed"), st.sampled_from([("g",), ("g", "h"), ("g", "h", "i", "g")])),
    st.tuples(st.just("describe"), st.sampled_from([("g",), ("i", "j", "k")])),
    st.tuples(st.just("join"), st.sampled_from(["j", "k"]), st.booleans()),
    st.tuples(st.just("sync"), st.sampled_from(["j", "k"])),
    st.tuples(st.just("leave"), st.sampled_from(["j", "k"])),
    st.tuples(st.just("beat"), st.sampled_from(["x", "y"]), st.sampled_from([0, -1, 2])),
    st.tuples(st.just("alter"), st.sampled_from(["group"]), st.sampled_from(["c", "g"])),
    st.tuples(st.just("alter"), st.just("topic"), st.sampled_from(["t", "v"])),
    st.tuples(st.just("alter"), st.just("broker"), st.sampled_from(["1", ""])),
    st.tuples(st.just("make"), st.sampled_from(["v", "w"])),
    st.tuples(st.just("drop"), st.sampled_from(["v", "w"])),
    st.tuples(st.just("grow"), st.sampled_from(["v", "w"])),
    st.tuples(st.just("metadata")),
    st.tuples(st.just("list")),
    st.tuples(st.just("number")),
)
actions = st.one_of(
    requests,
    requests,
    st.tuples(st.just("together"), st.lists(requests, min_size=2, max_size=5)),
    st.tuples(st.just("commit often"), st.sampled_from(GROUPS), st.sampled_from(TOPICS)),
    st.tuples(st.just("gone"), st.integers(0, 5)),
    st.tuples(st.just("flush")),
    st.tuples(st.just("flush")),
    st.tuples(st.just("fail flush")),
    st.tuples(st.just("sleep"), st.sampled_from([1, 400, 3_000, 50_000])),
)
DISK = places(
    {
        Partitions: ("open_partition", "make_directory"),
        MetadataLog: ("_record",),
        Log: ("append", "raise_start_offset", "roll_segment", "prepare_replacement"),
        Segment: ("append",),
    }
)
"""Where the disk may refuse, so that nothing has changed."""
numbers = st.sampled_from([1, 1, 1, 2, 3, 6])
one_fault = st.one_of(
    st.tuples(st.sampled_from(PLACES), numbers, st.booleans(), st.just(RuntimeError("planted"))),
    st.tuples(
        st.sampled_from(DISK),
        numbers,
        st.just(False),
        st.just(DiskError("plant", "here", OSError("no"))),
    ),
)

another = st.tuples(
    st.sampled_from(ON_THE_WAY_BACK), st.just(1), st.booleans(), st.just(RuntimeError("planted"))
)
faults = st.tuples(one_fault) | st.tuples(one_fault, one_fault | another)


PRODUCE, FETCH, COMMITTED = ("produce", "t", (0,)), ("fetch", "t", (0,)), ("committed", ("g",))
FLUSH, FAIL_FLUSH, JOIN = ("flush",), ("fail flush",), ("join", "j", False)
MAKE, DROP = ("make", "v"), ("drop", "v")
# What was found: what happened before, where the fault was, at which call, whether after it, and
# what happened then.
FOUND: list[tuple[list[Any], Place, int, bool, list[Any]]] = [
    ([PRODUCE], (Partition, "on_flushed"), 1, False, []),
    ([PRODUCE], (Segment, "append"), 1, True, []),
    ([COMMITTED, PRODUCE], (FlushGate, "begin_flush_or_none"), 2, True, []),
    ([("fetch", "t", (0, 0)), ("sleep", 3_000), PRODUCE], PLACES[0], 6, True, []),
    ([PRODUCE], (Deadlines, "disarm"), 1, True, [FETCH]),
    (
        [("commit often", "g", "t"), ("sleep", 1), FAIL_FLUSH],
        (Coordinators, "_step"),
        2,
        False,
        [],
    ),
    (
        [COMMITTED],
        (SplitRequests, "joined_reply_or_none"),
        3,
        True,
        [MAKE, ("describe", ("i", "j", "k"))],
    ),
    ([COMMITTED], (FlushGate, "begin_write"), 2, False, [PRODUCE]),
    ([JOIN], (WaitingRequests, "remove"), 1, True, []),
    ([PRODUCE, FLUSH, PRODUCE, FAIL_FLUSH], (Partition, "on_flushed"), 1, False, []),
    (
        [MAKE, FLUSH, DROP, FLUSH, PRODUCE, FAIL_FLUSH],
        (TopicService, "on_flushed"),
        2,
        False,
        [],
    ),
    ([MAKE, FLUSH, DROP, FLUSH], (Partitions, "delete_logs"), 1, False, []),
    ([MAKE, FLUSH, ("produce", "v", (0,)), DROP, FLUSH], (Log, "delete"), 1, False, []),
    ([JOIN], (Coordinators, "tick"), 1, False, []),
]


def with_what_was_found(test: Any) -> Any:
    """The property, which begins with the histories that have failed once."""
    for before, place, number, is_after, after in reversed(FOUND):
        fault = (place, number, is_after, RuntimeError("planted"))
        test = example(before, [fault], after)(test)
    return test


@settings(max_examples=400, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(actions, min_size=1, max_size=14), faults, st.lists(actions, max_size=6))
@with_what_was_found
def test_a_step_that_fails_leaves_no_trace(
    before: list[tuple[int | str | tuple[int | str, ...], ...]],
    faults: Sequence[tuple[tuple[type[Any], str], int, bool, DiskError | RuntimeError]],
    after: list[tuple[int | str | tuple[int | str, ...], ...]],
) -> None:
    live_through(SMALL, (before, after), faults)


@settings(max_examples=50, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(actions, min_size=1, max_size=14), faults, st.lists(actions, max_size=6))
@example([JOIN], [((Gate, "check"), 1, True, RuntimeError("planted"))], [])
def test_a_step_that_fails_leaves_no_trace_where_there_are_acls(
    before: list[tuple[int | str | tuple[int | str, ...], ...]],
    faults: Sequence[tuple[tuple[type[Any], str], int, bool, DiskError | RuntimeError]],
    after: list[tuple[int | str | tuple[int | str, ...], ...]],
) -> None:
    everybody = {"allow.everyone.if.no.acl.found": True}
    live_through({**SMALL, **GUARDED, **everybody}, (before, after), faults)


def live_through(
    broker: Mapping[str, Any],
    histories: tuple[Sequence[tuple[Any, ...]], Sequence[tuple[Any, ...]]],
    faults: Sequence[tuple[tuple[type[Any], str], int, bool, DiskError | RuntimeError]],
) -> None:
    """Play a history with faults, and check what is left of it."""
    before, after = histories
    with pytest.MonkeyPatch.context() as patch:
        history = begun(**broker)
        for topic in TOPICS:
            history.create(topic, PARTITIONS)
        create(history, EXPIRING, PARTITIONS, retention_ms=str(RETENTION_MS))
        history.call(*commit(history, "z", "t"))
        history.faults = [Fault(patch, *fault) for fault in faults]
        for action in (*before, *after):
            history.play(*action)
            if history.has_ended:
                break
        if not history.has_ended:
            history.settle()
        history.faults = ()
    if not history.has_ended:
        check(history)
        check_waiting(history)
    again = history.crash()
    again.requests, again.doubtful = history.requests, history.doubtful
    again.is_refusal_final = not history.has_ended
    again._tickets = count(1_000)
    again.answers = dict(history.answers)
    check_records(again)
    check_offsets(again)
    check_settings(again)
