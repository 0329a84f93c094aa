"""ApiVersions: the APIs and versions that a broker serves, a client's first request."""

from apportion.wire.fields import array, boolean, int16, int32, int64, message, string


@message(key=18, versions=range(6), flexible=3, type="request")
class ApiVersionsRequest:
    """Request the APIs and versions that the broker serves.

    cluster_id, node_id: the broker that the client wants to reach (KIP-1242); null and -1 if it
    does not know.
    """

    client_software_name: str = string(since=3, ignorable=True)
    client_software_version: str = string(since=3, ignorable=True)
    cluster_id: str | None = string(since=5, nullable=5, default=None, ignorable=True)
    node_id: int = int32(since=5, default=-1, ignorable=True)


@message()
class ApiVersion:
    """The supported versions of one API, first and last."""

    api_key: int = int16()
    min_version: int = int16()
    max_version: int = int16()


@message()
class SupportedFeatureKey:
    """The levels of one feature that the broker supports (KIP-584)."""

    name: str = string()
    min_version: int = int16()
    max_version: int = int16()


@message()
class FinalizedFeatureKey:
    """The level of one feature that is in force in the cluster (KIP-584)."""

    name: str = string()
    max_version_level: int = int16()
    min_version_level: int = int16()


@message(key=18, versions=range(6), flexible=3, type="response")
class ApiVersionsResponse:
    """The APIs that the broker serves, with their versions.

    The response to an unknown version is in version 0, with UNSUPPORTED_VERSION; to a client that
    wants to reach another broker, it has REBOOTSTRAP_REQUIRED.
    """

    error_code: int = int16()
    api_keys: tuple[ApiVersion, ...] = array(ApiVersion)
    throttle_time_ms: int = int32(since=1, ignorable=True)
    supported_features: tuple[SupportedFeatureKey, ...] = array(
        SupportedFeatureKey, since=3, tag=0, ignorable=True
    )
    finalized_features_epoch: int = int64(since=3, default=-1, tag=1, ignorable=True)
    finalized_features: tuple[FinalizedFeatureKey, ...] = array(
        FinalizedFeatureKey, since=3, tag=2, ignorable=True
    )
    zk_migration_ready: bool = boolean(since=3, tag=3, ignorable=True)
