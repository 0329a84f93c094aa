"""The bootstrap servers of a client: their addresses are parsed, and their names resolved."""

import socket
from collections.abc import Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from apportion.member.broker_order import HostAndPort


def addresses(bootstrap: str | Iterable[str]) -> "tuple[HostAndPort, ...]":
    """Return the brokers of a bootstrap list such as "a:9092,b:9092". Raises ValueError."""
    # Not any sequence: a str is iterable too, and its characters would be taken for brokers.
    items = (
        bootstrap.split(",")
        if isinstance(bootstrap, str)
        else list(bootstrap)
        if isinstance(bootstrap, Iterable)
        else [bootstrap]
    )
    if not all(isinstance(entry, str) for entry in items):
        raise ValueError(f"bootstrap servers must be host:port, one or more, not {bootstrap!r}")
    entries = [entry.strip() for entry in items]
    parsed = tuple(_address(entry) for entry in entries if entry)
    if not parsed:
        raise ValueError("the list of bootstrap servers is empty; give at least one host:port")
    return parsed


def _address(entry: str) -> "HostAndPort":
    """Return host and port of one bootstrap server. Raises ValueError."""
    if (remedy := scheme_remedy_or_none(entry)) is not None:
        raise ValueError(f"bootstrap server {entry!r} has a scheme: {remedy}")
    # From the right, as an IPv6 address has colons of its own.
    host, colon, port = entry.rpartition(":")
    if not colon or not host or not port.isascii() or not port.isdigit():
        raise ValueError(f"bootstrap server {entry!r} is not host:port")
    if len(port) > 5 or not 0 < int(port) <= 65535:
        raise ValueError(
            f"bootstrap server {entry!r} has port {port}, which is out of range: a "
            "port is a number up to 65535, and not 0"
        )
    name = host.removeprefix("[").removesuffix("]")
    try:
        name.encode("idna")  # as `socket` will
    except UnicodeError:
        raise ValueError(
            f"bootstrap server {entry!r} is not host:port: {name!r} is no host name"
        ) from None
    return name, int(port)


def scheme_remedy_or_none(entry: str) -> str | None:
    """Return the remedy for a bootstrap server with a scheme, such as "http://a:9092"."""
    scheme, separator, _ = entry.partition("://")
    return f"leave {scheme}{separator} off and write host:port" if separator else None


def require_known_host(
    bootstrap: str | Iterable[str], *, waits_for_name_server: bool = False
) -> None:
    """Raise Disconnected if no host of the bootstrap servers has an address.

    One of them is enough. Called once, before the first connection, as by Kafka's clients: a name
    that was known and is so no longer is a matter of the name server, for which a member waits.
    waits_for_name_server: leave it alone, too, where none answers now; commands do not, whose user
    is waiting.
    """
    # Here, as options are parsed by this module, too, where nothing is connected.
    from apportion.client.connection import Disconnected
    from apportion.drive.connection_errors import connection_fault

    failure = OSError()
    servers = addresses(bootstrap)
    for host, port in servers:
        try:
            socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
            return
        except OSError as error:
            failure = error
            if waits_for_name_server and error.errno == socket.EAI_AGAIN:
                return
    hosts = dict.fromkeys(host for host, _ in servers)
    raise Disconnected(
        f"no address is known for the host {' or '.join(map(repr, hosts))} of the bootstrap "
        f"servers ({connection_fault(failure)}): see that the name is right"
    )
