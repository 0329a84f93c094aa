"""The settings that every kind of member has: their bounds, and what a member has without any."""

from dataclasses import replace
from typing import Any

import pytest

from apportion.assign.by_name import TopicParts
from apportion.member import settings
from apportion.member.classic.requests import ClassicSettings, join_request
from apportion.member.consumer.requests import ConsumerSettings
from apportion.settings import Setting, bounds_fault_or_none

TIMES = {
    name: setting
    for name, setting in vars(settings).items()
    if isinstance(setting, Setting) and name.endswith("_MS")
}


def test_there_are_times() -> None:
    assert len(TIMES) == 5


@pytest.mark.parametrize("name", TIMES)
def test_a_time_is_at_least_a_millisecond_and_fits_an_int32(name: str) -> None:
    faults = [bounds_fault_or_none(TIMES[name], value) for value in (0, 1, 2**31 - 1, 2**31)]
    assert [fault is None for fault in faults] == [False, True, True, False]


def test_a_member_backs_off_as_the_clients_of_kafka_do_by_default() -> None:
    member = settings.MemberSettings("g")
    assert (member.backoff_ms, member.backoff_limit_ms) == (100, 1_000)  # retry.backoff(.max).ms


def test_a_heartbeat_interval_is_below_both_other_times() -> None:
    def fault_or_none_of(heartbeat_ms: int) -> str | None:
        return settings.heartbeat_fault_or_none(
            ("beat", heartbeat_ms), ("session", 30), ("poll", 20)
        )

    assert fault_or_none_of(19) is None
    assert fault_or_none_of(20) == (
        "beat (20) must be below poll (20), or a rebalance ends before the members have learnt of "
        "it"
    )
    assert (fault_or_none_of(30) or "").startswith("beat (30) must be below session (30), or ")


PATIENCE: Any = {
    "instance_id": None,
    "rack_id": None,
    "rebalance_timeout_ms": 300_000,
    "poll_limit_ms": None,
    "response_timeout_ms": 5_000,
    "backoff_ms": 100,
    "backoff_limit_ms": 1_000,
    "wait_limit_ms": 120_000,
}


def test_a_member_is_patient_by_default() -> None:
    assert ConsumerSettings("g", "m") == ConsumerSettings(
        group_id="g", member_id="m", server_assignor=None, **PATIENCE
    )


def test_a_classic_member_has_kafkas_defaults() -> None:
    mine = ClassicSettings("g")
    assert [assignor.name for assignor in mine.assignors] == ["range", "cooperative-sticky"]
    assert replace(mine, assignors=()) == ClassicSettings(
        group_id="g",
        assignors=(),
        session_timeout_ms=45_000,
        heartbeat_interval_ms=3_000,
        metadata_interval_ms=300_000,
        **PATIENCE,
    )


@pytest.mark.parametrize(("reason", "sent"), [("x" * 256, "x" * 255), (None, None)])
def test_a_long_reason_for_joining_is_cut(reason: str | None, sent: str | None) -> None:
    mine, owned = ClassicSettings("g"), (TopicParts("t", (0,)),)
    request = join_request(mine, "m", ("t",), owned=owned, owned_generation=1, reason=reason)
    assert request.reason == sent
