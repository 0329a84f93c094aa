"""Our classic member, session and Consumer on our own broker: every scenario of scenarios.py, eager and cooperative, and of
classic_scenarios.py."""

from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

import pytest

from apportion.server.embedded import EmbeddedBroker


def _adopt(name):
    """The scenarios of `name`.py are tests of this module."""
    spec = spec_from_file_location(name, Path(__file__).with_name(f"{name}.py"))
    assert spec is not None and spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    globals().update({name: value for name, value in vars(module).items() if not name.startswith("_")})


_adopt("scenarios")
_adopt("classic_scenarios")


@pytest.fixture(scope="module")
def broker():
    """A broker of ours; KIP-848 members have sessions of 5 s there."""
    with EmbeddedBroker(group_consumer_session_timeout_ms=5_000, group_consumer_heartbeat_interval_ms=500) as running:
        yield running


@pytest.fixture
def bootstrap(broker):
    """Where our broker listens."""
    return broker.bootstrap
