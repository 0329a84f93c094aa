"""What static members of a classic group live through (KIP-345): restarts, successors, generations
that pass without them.

A module that adopts these adopts classic_scenarios.py first, whose fixtures they take.
"""

import threading
from collections.abc import Callable
from typing import Any

from apportion.client.cluster import Cluster
from apportion.member.membership import MembershipState
from apportion.topics import Topic
from apportion.wire.messages.join_group import JoinGroupRequest
from tests.client import changes
from tests.client.classic_scenarios import PATIENT_S, settle


def test_a_static_leader_that_restarts_disturbs_nobody_and_assigns_nothing(
    members: Callable[..., Any], cluster: Cluster, topic: Topic
) -> None:
    leader = members("cooperative-sticky", instance_id="leader")
    settle([leader], 4)
    other = members("cooperative-sticky", instance_id="other")
    mine, others = settle([leader, other], 2, 2)
    before, happened = other.status(), other.history()
    assert leader.leave()
    again = members("cooperative-sticky", instance_id="leader")
    assert settle([again, other], 2, 2) == [mine, others]
    assert (again.status().epoch, other.history()) == (before.epoch, happened)
    joined = again.cluster.joins()[0]
    assert (joined.skip_assignment, joined.leader == joined.member_id) == (True, True)
    changes.grow_topic(cluster, topic.name, 6)  # the leader that is back watches
    settle([again, other], 3, 3)


def test_a_static_member_that_is_replaced_is_fenced(members: Callable[..., Any]) -> None:
    first = members("range", instance_id="me")
    settle([first], 4)
    second = members("range", instance_id="me")
    settle([second], 4)
    view = first.wait(lambda view: view.state is MembershipState.FATAL, 30_000)
    assert (view.owned, view.error.code.name) == ((), "FENCED_INSTANCE_ID")


def test_a_static_member_that_missed_a_generation_gives_up_what_it_never_claimed(
    members: Callable[..., Any],
) -> None:
    late = members("cooperative-sticky", instance_id="late", rebalance_timeout_ms=1_500)
    settle([late], 4)
    call, may_join = late.cluster.call, threading.Event()

    def call_late(request: Any, **how: Any) -> Any:
        if isinstance(request, JoinGroupRequest):
            assert may_join.wait(PATIENT_S)
        return call(request, **how)

    late.cluster.call = call_late
    other = members("cooperative-sticky", rebalance_timeout_ms=1_500)
    # Generation 2 has both, and the other leads it: it sees a member that claims nothing.
    settle([other], 2)
    assert (len(late.status().owned), other.status().epoch) == (4, 2)
    may_join.set()
    lost = late.wait(lambda view: view.incarnation == 2, PATIENT_S * 1_000)
    assert lost.owned == ()
    settle([late, other], 2, 2)
