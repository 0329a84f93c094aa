"""Short names for a MixedShardDriver and its clients: to make them, and to let them settle."""

from typing import Any

from tests.coord.mixed_shard_driver import (
    ClassicClient,
    ConsumerClient,
    MixedShardDriver,
)
from tests.coord.shard_driver import settings_with, topics


def make_driver(**settings: Any) -> MixedShardDriver:
    """A shard with these settings and a topic foo of four partitions."""
    settings = {"group_min_session_timeout_ms": 1_000} | settings
    return MixedShardDriver(settings_with(**settings), topics(foo=4))


def classic(driver: MixedShardDriver, name: str, **facts: Any) -> ClassicClient:
    """A classic client that wants foo."""
    return ClassicClient(driver, name, ("foo",), **facts)


def consumer(driver: MixedShardDriver, name: str, **facts: Any) -> ConsumerClient:
    """A client of the consumer protocol that wants foo."""
    return ConsumerClient(driver, name, ("foo",), **facts)


def settle(*clients: ClassicClient | ConsumerClient) -> None:
    """Everybody does what its protocol asks for until nothing changes any more."""
    for _ in range(10):
        for client in clients:
            client.act()
        hands(*clients)
        clients[0].driver.advance(1)


def hands(*clients: ClassicClient | ConsumerClient) -> dict[str, list[int]]:
    """{client: partitions of foo that it uses}; no partition is in two hands."""
    used = {client.name: sorted(index for _, index in client.owned) for client in clients}
    flat = [index for some in used.values() for index in some]
    assert len(flat) == len(set(flat)), used
    return used
