"""The sign of life of a classic group's member."""

from apportion.wire.fields import int16, int32, message, string


@message(key=12, versions=range(5), flexible=4, type="request")
class HeartbeatRequest:
    """I live, and know of this generation."""

    group_id: str = string()
    generation_id: int = int32()
    member_id: str = string()
    group_instance_id: str | None = string(since=3, nullable=3, default=None)


@message(key=12, versions=range(5), flexible=4, type="response")
class HeartbeatResponse:
    """REBALANCE_IN_PROGRESS asks the member to join again."""

    throttle_time_ms: int = int32(since=1, ignorable=True)
    error_code: int = int16()
