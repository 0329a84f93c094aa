"""The bounds of the settings that every kind of member has."""

import pytest

from apportion.member import settings
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
