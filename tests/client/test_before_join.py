"""What a session does before its member joins: it looks, as often as it must, and joins not at all
if it is refused.
"""

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from apportion.client.cluster import Cluster
from apportion.client.connection import Disconnected
from apportion.client.group_membership import GroupMembership
from apportion.client.members import new_member
from apportion.errors import Code, Refused
from apportion.member.group_claims import AnotherSink
from tests.client.sessions import cluster_with_topic


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with cluster_with_topic() as made:
        yield made


@pytest.fixture
def session_of(cluster: Cluster) -> Iterator[Callable[..., tuple[Any, list[Exception | None]]]]:
    """`session_of(group, *outcomes)`: a started session; each look ends with the next of the
    outcomes, None being well.
    """
    sessions = []

    def make(group: str, *outcomes: Exception | None) -> tuple[Any, list[Exception | None]]:
        left = list(outcomes)

        def look() -> None:
            if (outcome := left.pop(0)) is not None:
                raise outcome

        sessions.append(GroupMembership(cluster, new_member(group), ("t",), before_join=look))
        sessions[-1].start()
        return sessions[-1], left

    yield make
    for session in sessions:
        session.leave()


def test_a_look_that_nobody_answers_is_repeated_and_one_that_was_answered_is_not(
    session_of: Callable[..., tuple[Any, list[Exception | None]]],
) -> None:
    session, left = session_of(
        "repeated",
        Disconnected("away"),
        Refused(Code.NOT_COORDINATOR),
        None,
        AnotherSink("once too often"),
    )
    assert session.wait(lambda view: view.epoch > 0, 20_000).epoch > 0
    assert len(left) == 1


def test_a_look_that_is_not_allowed_is_left_to_the_join_which_says_so(
    session_of: Callable[..., tuple[Any, list[Exception | None]]],
) -> None:
    session, _ = session_of("forbidden", Refused(Code.GROUP_AUTHORIZATION_FAILED))
    assert session.wait(lambda view: view.epoch > 0, 20_000).epoch > 0


def test_a_member_that_is_refused_never_joins(
    session_of: Callable[..., tuple[Any, list[Exception | None]]], cluster: Cluster
) -> None:
    refused = AnotherSink("it belongs to others")
    session, _ = session_of("of-others", refused)
    session.wait(lambda view: session.history() != (), 20_000)
    assert [event.what for event in session.history()] == ["left"]
    with pytest.raises(AnotherSink) as raised:
        session.snapshot()
    assert raised.value is refused
    assert session.status().epoch <= 0
