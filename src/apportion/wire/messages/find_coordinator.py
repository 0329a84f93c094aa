"""FindCoordinator: the broker that coordinates a group."""

from apportion.wire.fields import array, int8, int16, int32, message, string


@message(key=10, versions=range(7), flexible=3, type="request")
class FindCoordinatorRequest:
    """Request the coordinators of some keys.

    key_type: 0 for groups, 1 for transactions, 2 for share partitions.
    """

    key: str = string(until=3)
    key_type: int = int8(since=1)
    # KIP-699: one request for many groups, for tools.
    coordinator_keys: tuple[str, ...] = array(string(), since=4)


@message()
class Coordinator:
    """The broker that coordinates one key."""

    key: str = string()
    node_id: int = int32()
    host: str = string()
    port: int = int32()
    error_code: int = int16()
    error_message: str | None = string(nullable=0, ignorable=True)


@message(key=10, versions=range(7), flexible=3, type="response")
class FindCoordinatorResponse:
    """The coordinators; up to version 3 a single one, without its key."""

    throttle_time_ms: int = int32(since=1, ignorable=True)
    error_code: int = int16(until=3)
    error_message: str | None = string(since=1, until=3, nullable=1, ignorable=True)
    node_id: int = int32(until=3)
    host: str = string(until=3)
    port: int = int32(until=3)
    coordinators: tuple[Coordinator, ...] = array(Coordinator, since=4)
