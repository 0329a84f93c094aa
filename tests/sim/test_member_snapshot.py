"""Which answers show that the session of a classic member began anew."""

from typing import Any

import pytest

from apportion.errors import Code
from apportion.sim.checks.member_snapshot import restarts_classic_session
from apportion.wire.messages.heartbeat import HeartbeatRequest
from apportion.wire.messages.join_group import JoinGroupRequest
from apportion.wire.messages.sync_group import SyncGroupRequest

REQUESTS = (HeartbeatRequest(), JoinGroupRequest(), SyncGroupRequest())


@pytest.mark.parametrize("request_", REQUESTS, ids=lambda each: type(each).__name__)
def test_an_accepted_request_restarts_the_session(request_: Any) -> None:
    assert restarts_classic_session(request_, Code.NONE)


def test_a_heartbeat_during_a_rebalance_restarts_the_session() -> None:
    assert restarts_classic_session(HeartbeatRequest(), Code.REBALANCE_IN_PROGRESS)


@pytest.mark.parametrize("request_", REQUESTS[1:], ids=lambda each: type(each).__name__)
def test_another_request_that_a_rebalance_refuses_does_not(request_: Any) -> None:
    assert not restarts_classic_session(request_, Code.REBALANCE_IN_PROGRESS)


@pytest.mark.parametrize("code", [Code.UNKNOWN_MEMBER_ID, Code.ILLEGAL_GENERATION])
def test_a_heartbeat_of_no_member_does_not(code: Code) -> None:
    assert not restarts_classic_session(HeartbeatRequest(), code)
