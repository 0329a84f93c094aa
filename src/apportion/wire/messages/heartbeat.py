"""Heartbeat of a member of a classic group."""

from apportion.wire.fields import int16, int32, message, string


@message(key=12, versions=range(5), flexible=4, type="request")
class HeartbeatRequest:
    """Keep a member of this generation alive."""

    group_id: str = string()
    generation_id: int = int32()
    member_id: str = string()
    group_instance_id: str | None = string(since=3, nullable=3, default=None)


@message(key=12, versions=range(5), flexible=4, type="response")
class HeartbeatResponse:
    """An error code; REBALANCE_IN_PROGRESS tells the member to rejoin."""

    throttle_time_ms: int = int32(since=1, ignorable=True)
    error_code: int = int16()
