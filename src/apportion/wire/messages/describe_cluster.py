"""DescribeCluster: the brokers of the cluster and its controller."""

from apportion.wire.fields import array, boolean, int8, int16, int32, message, string


@message(key=60, versions=range(3), flexible=0, type="request")
class DescribeClusterRequest:
    """Request the brokers (`endpoint_type` 1) or the controllers (2)."""

    include_cluster_authorized_operations: bool = boolean()
    endpoint_type: int = int8(since=1, default=1)
    include_fenced_brokers: bool = boolean(since=2)


@message()
class DescribeClusterBroker:
    """The address of one broker."""

    broker_id: int = int32()
    host: str = string()
    port: int = int32()
    rack: str | None = string(nullable=0, default=None)
    is_fenced: bool = boolean(since=2)


@message(key=60, versions=range(3), flexible=0, type="response")
class DescribeClusterResponse:
    """The cluster id, the brokers and the controller."""

    throttle_time_ms: int = int32()
    error_code: int = int16()
    error_message: str | None = string(nullable=0, default=None)
    endpoint_type: int = int8(since=1, default=1)
    cluster_id: str = string()
    controller_id: int = int32(default=-1)
    brokers: tuple[DescribeClusterBroker, ...] = array(DescribeClusterBroker)
    cluster_authorized_operations: int = int32(default=-(2**31))
