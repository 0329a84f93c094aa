"""A member whose group is checked before the join: it joins after `CoordinatorFound` alone."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from apportion.client.cluster import Cluster
from apportion.client.group_membership import GroupMembership
from apportion.client.members import new_member
from apportion.member.membership import CoordinatorFound, Event, Leave, Unanswered
from tests.client.sessions import cluster_with_topic

Checks = list[Callable[[CoordinatorFound], Event]]


def is_unanswered(found: CoordinatorFound) -> Event:
    return Unanswered(found.request_id, "away")


def is_over(found: CoordinatorFound) -> Event:
    return found


def is_refused(_found: CoordinatorFound) -> Event:
    return Leave()


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with cluster_with_topic() as made:
        yield made


@pytest.fixture
def session_of(cluster: Cluster) -> Iterator[Callable[..., tuple[Any, Checks]]]:
    """`session_of(group, *checks)`: a started session, and the checks that it has not run yet."""
    sessions = []

    def make(group: str, *checks: Callable[[CoordinatorFound], Event]) -> tuple[Any, Checks]:
        left = list(checks)
        session = GroupMembership(
            cluster, new_member(group), ("t",), before_join=lambda found: left.pop(0)(found)
        )
        sessions.append(session)
        session.start()
        return session, left

    yield make
    for session in sessions:
        session.leave()


def test_a_member_joins_once_its_check_was_answered(
    session_of: Callable[..., tuple[Any, Checks]],
) -> None:
    session, left = session_of("repeated", is_unanswered, is_unanswered, is_over, is_refused)
    assert session.wait(lambda view: view.epoch > 0, 20_000).epoch > 0
    assert len(left) == 1


def test_a_member_that_is_refused_never_joins(
    session_of: Callable[..., tuple[Any, Checks]],
) -> None:
    session, _ = session_of("of-others", is_refused)
    session.wait(lambda view: session.history() != (), 20_000)
    assert [event.what for event in session.history()] == ["left"]
    assert session.status().epoch <= 0
