"""The one way from the options of a stream, a batch read or a write to a cluster."""

from typing import TYPE_CHECKING, NamedTuple, Protocol

# A reader is pickled by a process that connects to nothing: it imports no client for that.
if TYPE_CHECKING:
    from apportion.client.cluster import Cluster
    from apportion.security.client_security import ClientSecurity


class ClusterOptions(Protocol):
    """The options that say how a cluster is reached."""

    @property
    def bootstrap(self) -> str:
        """The brokers as host:port, with commas between."""

    @property
    def security(self) -> "ClientSecurity":
        """TLS and SASL."""

    @property
    def client_id(self) -> str:
        """The name that brokers log."""

    @property
    def request_timeout_ms(self) -> int:
        """The time limit of a request with its retries."""


class ConnectionSettings(NamedTuple):
    """Those options alone: the key of connections that several tasks share."""

    bootstrap: str
    security: "ClientSecurity"
    client_id: str
    request_timeout_ms: int

    @classmethod
    def of(cls, options: ClusterOptions) -> "ConnectionSettings":
        """Return what of the options says how the cluster is reached."""
        return cls(
            options.bootstrap, options.security, options.client_id, options.request_timeout_ms
        )


def refuse_unknown_hosts(options: ClusterOptions) -> None:
    """Raise OptionError where no host of the bootstrap servers has an address.

    For what a program calls before a query runs. A query that runs waits: the name was known.
    """
    from apportion.client.bootstrap import require_known_host
    from apportion.client.connection import Disconnected
    from apportion.spark.options.values import OptionError

    try:
        require_known_host(options.bootstrap, waits_for_name_server=True)
    except Disconnected as unknown:
        raise OptionError(f"option kafka.bootstrap.servers: {unknown}.") from None


def cluster_of(options: ClusterOptions, *, client_id: str = "") -> "Cluster":
    """Return the cluster of these options, which connects with its first request.

    client_id: in place of the options'. Raises ValueError for certificates and keys that cannot be
    loaded.
    """
    from apportion.client.cluster import Cluster

    return Cluster(
        options.bootstrap,
        client_id=client_id or options.client_id,
        timeout_ms=options.request_timeout_ms,
        security=options.security,
    )
