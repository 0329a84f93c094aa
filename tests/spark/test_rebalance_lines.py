"""One log line for each rebalance that moves partitions of a query."""

import pytest

from apportion.member.batch.membership import BatchOwnership
from apportion.spark.monitoring.rebalance_lines import GroupName, RebalanceLines, rebalance_text
from apportion.topics import TopicIdPartition

FLIGHTS, ORDERS = bytes(15) + b"\x01", bytes(15) + b"\x02"


def owned(incarnation: int, *flights: int, orders: tuple[int, ...] = ()) -> BatchOwnership:
    partitions = [TopicIdPartition("flights", FLIGHTS, number) for number in flights]
    partitions += [TopicIdPartition("orders", ORDERS, number) for number in orders]
    return BatchOwnership(incarnation, dict.fromkeys(partitions))


@pytest.mark.parametrize(
    ("before", "after", "text"),
    [
        (
            owned(0),
            owned(1, 0, 1, 2, 7, orders=(0,)),
            "gained flights 0-2,7, orders 0; has 5 partitions now",
        ),
        (owned(0), owned(1), "joined; has 0 partitions now"),
        (owned(1, 0, 1, 2), owned(1, 0), "gave up flights 1-2; has 1 partition now"),
        (
            owned(1, 0, 1),
            owned(1, 1, orders=(3,)),
            "gave up flights 0, gained orders 3; has 2 partitions now",
        ),
        (owned(1, 0, 1), owned(2), "lost with its membership flights 0-1; has 0 partitions now"),
        (
            owned(1, 0, 1),
            owned(2, 0, 1),
            "lost with its membership flights 0-1, gained flights 0-1; has 2 partitions now",
        ),
    ],
)
def test_a_rebalance_is_told_with_what_went_and_what_came(
    before: BatchOwnership, after: BatchOwnership, text: str
) -> None:
    assert rebalance_text(before, after) == text


def logged(caplog: pytest.LogCaptureFixture) -> list[str]:
    lines = [f"{each.levelname} {each.name}: {each.getMessage()}" for each in caplog.records]
    caplog.clear()
    return lines


@pytest.fixture(autouse=True)
def shown(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", "apportion.spark.rebalance")


def test_a_line_names_the_group_and_the_epoch(caplog: pytest.LogCaptureFixture) -> None:
    RebalanceLines(GroupName("etl")).log_change(owned(1, 0), 3)
    RebalanceLines(GroupName("old", classic=True)).log_change(owned(1, 0), 3)
    RebalanceLines(GroupName("lost\n")).log_change(owned(1, 0), 0)
    assert logged(caplog) == [
        "INFO apportion.spark.rebalance: group etl: rebalance: gained flights 0; "
        "has 1 partition now, member epoch 3",
        "INFO apportion.spark.rebalance: group old: rebalance: gained flights 0; "
        "has 1 partition now, generation 3",
        "INFO apportion.spark.rebalance: group lost\\n: rebalance: gained flights 0; "
        "has 1 partition now",
    ]


def test_partitions_that_stay_have_no_line() -> None:
    lines = RebalanceLines(GroupName("etl"))
    assert not lines.has_change(owned(0), is_planned=False)
    # The member has joined, and waits for its assignment.
    assert not lines.has_change(owned(1), is_planned=False)
    assert lines.has_change(owned(1), is_planned=True)
    lines.log_change(owned(1, 0), 1)
    assert not lines.has_change(owned(1, 0), is_planned=True)
    assert lines.gives_up_some(owned(1, 1))
    assert not lines.gives_up_some(owned(1, 0, 1))
    assert not lines.gives_up_some(owned(2, 1))
    # Lost, and told at once.
    assert lines.has_change(owned(2), is_planned=False)


@pytest.mark.parametrize(
    ("group", "is_confirmed", "line"),
    [
        (GroupName("etl"), True, "group etl: left the group: gave up flights 0-1"),
        (
            GroupName("etl"),
            False,
            "group etl: ended without an answer of the coordinator: flights 0-1 may have no owner "
            "until the session times out",
        ),
        (
            GroupName("etl", "host-1"),
            True,
            "group etl: ended; the group keeps flights 0-1 for static member host-1 until it is "
            "back or its session times out",
        ),
    ],
)
def test_the_end_of_a_query_is_told_once(
    caplog: pytest.LogCaptureFixture, group: GroupName, is_confirmed: bool, line: str
) -> None:
    lines = RebalanceLines(group)
    lines.log_end(is_confirmed=is_confirmed)
    assert logged(caplog) == []
    lines.log_change(owned(1, 0, 1), 1)
    caplog.clear()
    lines.log_end(is_confirmed=is_confirmed)
    lines.log_end(is_confirmed=is_confirmed)
    assert logged(caplog) == [f"INFO apportion.spark.rebalance: {line}"]
