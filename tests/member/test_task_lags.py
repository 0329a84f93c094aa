"""The lags of a Streams member's copies of state, and when it tells the group of them."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from apportion.member.streams.assignor import TaskShare
from apportion.member.streams.task_lags import TaskLags
from apportion.streams.metadata.kip848 import RESTORE_FAILED
from apportion.streams.metadata.model import RUNNING, TaskId
from apportion.streams.topology_parser import topology_of
from apportion.topics import TopicPartition

TOPOLOGY = topology_of([{"sources": ["t"], "changelogs": ["log"]}])
END = 1_000


def task(number: int) -> TaskId:
    return TaskId(0, number)


def share(*, active: Any = (), standby: Any = (), warmup: Any = ()) -> TaskShare:
    roles: dict[str, Any] = {
        role: {task(number): (TopicPartition("t", number),) for number in numbers}
        for role, numbers in (("active", active), ("standby", standby), ("warmup", warmup))
    }
    return TaskShare(1, 0, **roles)


def reported(lags: TaskLags, assigned: TaskShare, sums: dict[int, int]) -> bool:
    """Whether the group has to hear of these offset sums."""
    lags.report({task(number): total for number, total in sums.items()}, assigned)
    changelogs = lags.changelogs_to_ask(TOPOLOGY, assigned)
    lags.begin_asking(changelogs)
    ends = {each: END for partitions in changelogs.values() for each in partitions}
    return lags.apply_ends(changelogs, ends, assigned)


def test_a_warm_up_is_ready_at_the_acceptable_lag_and_told_once() -> None:
    lags, assigned = TaskLags(10), share(warmup=(0, 1))
    assert not reported(lags, assigned, {0: 989})
    assert reported(lags, assigned, {0: 990})
    assert not reported(lags, assigned, {0: 990})
    assert not reported(lags, assigned, {0: 994})
    assert lags.in_metadata(assigned) == {task(0): 6}


def test_a_warm_up_that_is_still_one_is_told_again_when_its_lag_has_halved() -> None:
    lags, assigned = TaskLags(10), share(warmup=(0,))
    assert [reported(lags, assigned, {0: total}) for total in (990, 995, 997, 998, 999, 1_000)] == [
        True,
        True,
        False,
        True,
        True,
        True,
    ]
    assert not reported(lags, assigned, {0: 1_000})


def test_standby_tasks_are_told_once_when_all_of_them_have_caught_up() -> None:
    lags, assigned = TaskLags(10), share(standby=(0, 1))
    assert not reported(lags, assigned, {0: END})
    assert reported(lags, assigned, {0: END, 1: 995})
    assert not reported(lags, assigned, {0: END, 1: END})


def test_a_complete_standby_task_that_becomes_a_warm_up_is_told_without_other_state() -> None:
    lags = TaskLags(10)
    assert not reported(lags, share(standby=(0, 1)), {0: END, 1: 500})
    moving = share(standby=(1,), warmup=(0,))
    assert not lags.has_ready_warm_up(moving)
    assert [lags.take_ready(moving) for _ in range(2)] == [True, False]
    assert lags.has_ready_warm_up(moving)


def test_a_copy_that_went_and_has_come_back_is_told_anew() -> None:
    lags, assigned = TaskLags(10), share(warmup=(0,))
    assert reported(lags, assigned, {0: END})
    lags.take_assignment(share())
    assert lags.in_metadata(share()) == {}
    lags.take_assignment(assigned)
    assert reported(lags, assigned, {0: END - 1})


def test_state_beyond_the_end_is_worth_nothing() -> None:
    lags, assigned = TaskLags(10), share(warmup=(0,))
    assert not reported(lags, assigned, {0: END + 1})
    assert lags.in_metadata(assigned) == {task(0): END}


def test_only_the_changelogs_of_copies_whose_state_has_changed_are_asked_for() -> None:
    lags, assigned = TaskLags(10), share(active=(0,), warmup=(1,))
    lags.report({task(0): RUNNING, task(1): 5, task(2): 5, TaskId(7, 0): 1}, assigned)
    changelogs = lags.changelogs_to_ask(TOPOLOGY, assigned)
    assert changelogs == {task(1): (TopicPartition("log", 1),)}
    lags.begin_asking(changelogs)
    assert lags.changelogs_to_ask(TOPOLOGY, assigned) == {}
    lags.ask_again()
    assert lags.changelogs_to_ask(TOPOLOGY, assigned) == changelogs


def test_a_source_topic_that_serves_as_changelog_counts_where_the_task_reads_it() -> None:
    shared = topology_of([{"sources": ["t", "u"], "changelogs": ["t", "log"]}])
    lags = TaskLags(10)
    only_u = {task(1): (TopicPartition("u", 1),)}
    assigned = TaskShare(1, 0, standby=share(standby=(0,)).standby, warmup=only_u)
    lags.report({task(0): 1, task(1): 1}, assigned)
    assert lags.changelogs_to_ask(shared, assigned) == {
        task(0): (TopicPartition("t", 0), TopicPartition("log", 0)),
        task(1): (TopicPartition("log", 1),),
    }


def test_a_task_that_could_not_be_restored_says_so_until_there_is_state_of_it_later() -> None:
    lags, assigned = TaskLags(10), share(active=(1,), warmup=(0,))
    assert reported(lags, assigned, {0: END})
    assert [lags.report_failed([task(0)]) for _ in range(2)] == [True, False]
    failed = {task(0): RESTORE_FAILED, task(1): 0}
    assert not reported(lags, assigned, {0: END})
    assert lags.in_metadata(assigned) == failed
    without = share(active=(1,))
    lags.take_assignment(without)
    assert not lags.report({}, without)
    assert lags.in_metadata(without) == failed
    assert lags.report({task(0): 100}, without)
    assert lags.in_metadata(without) == {task(1): 0}


def test_a_standby_task_that_could_not_be_restored_has_not_caught_up() -> None:
    lags, assigned = TaskLags(10), share(standby=(0, 1))
    assert not reported(lags, assigned, {0: END, 1: 500})
    lags.report_failed([task(0)])
    assert not reported(lags, assigned, {0: END, 1: END})


def test_a_lag_that_is_known_after_the_failure_does_not_count() -> None:
    lags, assigned = TaskLags(10), share(warmup=(0,))
    lags.report({task(0): END}, assigned)
    changelogs = lags.changelogs_to_ask(TOPOLOGY, assigned)
    lags.begin_asking(changelogs)
    lags.report_failed([task(0)])
    assert not lags.apply_ends(changelogs, {TopicPartition("log", 0): END}, assigned)


@given(st.integers(0, 1_000), st.lists(st.integers(0, 1_000), max_size=60))
def test_a_task_that_never_moves_costs_the_group_few_assignments(
    acceptable: int, sums: list[int]
) -> None:
    lags, assigned = TaskLags(acceptable), share(warmup=(0,))
    told = sum(reported(lags, assigned, {0: total}) for total in sums)
    assert told <= acceptable.bit_length() + 1
