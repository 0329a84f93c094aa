"""The sockets of a broker: its listeners', with the addresses that clients receive, and peers'."""

import asyncio
import resource
import select
import socket
from contextlib import ExitStack
from ipaddress import ip_address
from typing import NamedTuple

from apportion.node.listeners import WILDCARDS, Address, Listener

LEAST_KEPT_DESCRIPTORS = 64
MAX_DESCRIPTORS = 1 << 20  # where the system grants as many as anybody wants
# Linux alone tells the end of a peer's stream before the bytes that lie unread in front of it.
HUNG_UP: int = getattr(select, "POLLRDHUP", select.POLLHUP)


class BoundListener(NamedTuple):
    """A listener with its socket, which is bound and does not listen yet."""

    listener: Listener
    socket: socket.socket

    @property
    def advertised(self) -> Address:
        """The address that clients receive: `advertised.listeners`, or the one that was bound.

        Where that is a wildcard, it is this host's name.
        """
        host, port = self.listener.host, self.socket.getsockname()[1]
        return self.listener.advertised or Address(
            socket.gethostname() if host in WILDCARDS else host, port
        )

    @property
    def is_unguarded(self) -> bool:
        """Return whether other machines can connect to it, and nobody has to say who he is."""
        return not self.listener.security.authenticates and is_reachable(self.socket)


def is_reachable(bound: socket.socket) -> bool:
    """Return whether other machines can connect to a socket."""
    host = bound.getsockname()[0].partition("%")[0]
    return not ip_address(host).is_loopback


def bind_listeners(listeners: tuple[Listener, ...], undo: ExitStack) -> list[BoundListener]:
    """Return the listeners with their sockets, which `undo` closes.

    Raises OSError with the address in its message.
    """
    bound = []
    for listener in listeners:
        bound.append(BoundListener(listener, bind_socket(listener.host, listener.port)))
        undo.callback(bound[-1].socket.close)
    return bound


def bind_socket(host: str, port: int) -> socket.socket:
    """Return a socket bound to the broker's listener address; it does not listen yet.

    As Kafka, it binds one address of a name that has several: the first one of IPv4, if any.
    Raises OSError with the address in its message.
    """
    with ExitStack() as undo:
        try:
            found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
            family, _, _, _, address = min(found, key=lambda each: each[0] != socket.AF_INET)
            listener = undo.enter_context(socket.socket(family, socket.SOCK_STREAM))
            listener.setblocking(False)
            # A broker that is restarted at once finds its port in TIME_WAIT otherwise.
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if address[0] == "::":  # every address, of IPv4, too, whatever the system's default is
                listener.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
            listener.bind(address)
        except OSError as error:
            why = f"cannot listen on {host}:{port}: {error.strerror}"
            raise OSError(error.errno, why) from error
        undo.pop_all()
    return listener


def kept_descriptors(granted: int) -> int:
    """Return how many descriptors connections must leave to the broker's files.

    Without them the broker could not go on: it opens files of logs as it writes.
    granted: to the process.
    """
    return max(LEAST_KEPT_DESCRIPTORS, granted // 4)


def leaves_descriptors(connection: socket.socket | None) -> bool:
    """Return whether the process can open further files beside this connection.

    connection: None if it is not known any more.
    """
    # The system gives the lowest number that is free, so about as many descriptors are open.
    if connection is None:
        return True
    granted = granted_descriptors()
    return connection.fileno() < granted - kept_descriptors(granted)


def granted_descriptors() -> int:
    """Return how many descriptors the system grants to this process."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return MAX_DESCRIPTORS if soft == resource.RLIM_INFINITY else soft


def peer_of(transport: asyncio.BaseTransport) -> tuple[str, str]:
    """Return a client's address, and the same with its port."""
    peer = transport.get_extra_info("peername")
    if not isinstance(peer, tuple) or len(peer) < 2:
        return "?", "?"
    return str(peer[0]), f"{peer[0]}:{peer[1]}"


def has_hung_up(connection: socket.socket) -> bool:
    """Return whether the peer has ended its side of a connection, whatever lies unread of it."""
    poll = select.poll()
    poll.register(connection.fileno(), HUNG_UP)
    return bool(poll.poll(0))
