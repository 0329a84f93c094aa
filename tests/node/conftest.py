"""A node that a test drives; those who cannot import its makers have them as `kit`."""

import pytest

from tests.node.kit import WALL_MS, batch, fetch, produce
from tests.node.kit import NodeDriver as NodeDriver


class Kit:
    """The makers above, for tests that cannot import this file."""

    NodeDriver = NodeDriver
    WALL_MS = WALL_MS
    batch = staticmethod(batch)
    produce = staticmethod(produce)
    fetch = staticmethod(fetch)


@pytest.fixture
def kit() -> type[Kit]:
    return Kit


@pytest.fixture
def driver() -> NodeDriver:
    return NodeDriver()
