"""InitProducerId: the id and epoch of an idempotent or transactional producer."""

from apportion.wire.fields import int16, int32, int64, message, string


@message(key=22, versions=range(6), flexible=2, type="request")
class InitProducerIdRequest:
    """Request a producer id; a new one each time without a transactional id."""

    transactional_id: str | None = string(nullable=0)
    transaction_timeout_ms: int = int32()
    # KIP-360: a transactional producer keeps its id and raises its epoch.
    producer_id: int = int64(since=3, default=-1)
    producer_epoch: int = int16(since=3, default=-1)


@message(key=22, versions=range(6), flexible=2, type="response")
class InitProducerIdResponse:
    """The producer id and its epoch."""

    throttle_time_ms: int = int32(ignorable=True)
    error_code: int = int16()
    producer_id: int = int64(default=-1)
    producer_epoch: int = int16()
