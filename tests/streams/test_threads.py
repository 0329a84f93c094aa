from hypothesis import given
from hypothesis import strategies as st

from apportion.streams.task_assignment.threads import (
    ProcessTasks,
    ThreadTasks,
    assign_tasks_to_threads,
)


def test_the_previous_thread_keeps_its_stateful_tasks_up_to_an_even_load() -> None:
    work = ProcessTasks(stateful=(0, 1, 2, 3), standby=(), stateless=(), previous={"b": (3, 2, 1)})
    assert assign_tasks_to_threads(("a", "b"), work) == {
        "a": ThreadTasks((0, 1), ()),
        "b": ThreadTasks((2, 3), ()),
    }


def test_remaining_tasks_return_to_their_thread_if_the_loads_stay_even() -> None:
    work = ProcessTasks(stateful=(0, 1, 2), standby=(), stateless=(), previous={"b": (1, 2)})
    assert assign_tasks_to_threads(("a", "b"), work) == {
        "a": ThreadTasks((0,), ()),
        "b": ThreadTasks((1, 2), ()),
    }


def test_standbys_count_and_come_after_active_tasks() -> None:
    work = ProcessTasks(stateful=(0,), standby=(1, 2, 3), stateless=(), previous={"b": (1, 2, 3)})
    assert assign_tasks_to_threads(("a", "b"), work) == {
        "a": ThreadTasks((0,), (3,)),
        "b": ThreadTasks((), (1, 2)),
    }


def test_tasks_without_state_go_where_there_is_room_whoever_had_them() -> None:
    work = ProcessTasks(stateful=(0, 1), standby=(), stateless=(5, 6), previous={"a": (0, 1, 5, 6)})
    assert assign_tasks_to_threads(("a", "b"), work) == {
        "a": ThreadTasks((0, 5), ()),
        "b": ThreadTasks((1, 6), ()),
    }


numbers = st.lists(st.integers(0, 30), unique=True, max_size=20)


@given(numbers, st.integers(1, 4), st.data())
def test_every_task_is_spread_once_and_loads_differ_by_one_at_most(
    tasks: list[int], count: int, data: st.DataObject
) -> None:
    cut = sorted(data.draw(st.tuples(st.integers(0, len(tasks)), st.integers(0, len(tasks)))))
    stateful, standby, stateless = (
        sorted(part) for part in (tasks[: cut[0]], tasks[cut[0] : cut[1]], tasks[cut[1] :])
    )
    consumers = tuple("abcd"[:count])
    had = {consumer: data.draw(numbers) for consumer in consumers}
    shares = assign_tasks_to_threads(consumers, ProcessTasks(stateful, standby, stateless, had))
    assert sorted(task for roles in shares.values() for task in roles.active) == sorted(
        (*stateful, *stateless)
    )
    assert sorted(task for roles in shares.values() for task in roles.standby) == standby
    loads = [len(roles.active) + len(roles.standby) for roles in shares.values()]
    assert max(loads) - min(loads) <= 1
