"""A node that a test drives."""

import pytest

from tests.node.kit import NodeDriver


@pytest.fixture
def driver() -> NodeDriver:
    return NodeDriver()
