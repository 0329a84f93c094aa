"""Our member, session, cluster and Consumer on our own broker: every scenario of scenarios.py."""

from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

import pytest

from apportion.server.embedded import EmbeddedBroker

SPEC = spec_from_file_location("member_scenarios", Path(__file__).with_name("scenarios.py"))
assert SPEC is not None and SPEC.loader is not None
scenarios = module_from_spec(SPEC)
SPEC.loader.exec_module(scenarios)
globals().update({name: value for name, value in vars(scenarios).items() if not name.startswith("_")})


@pytest.fixture(scope="module")
def broker():
    """A broker of ours with sessions of 5 s."""
    with EmbeddedBroker(group_consumer_session_timeout_ms=5_000, group_consumer_heartbeat_interval_ms=500) as running:
        yield running


@pytest.fixture
def bootstrap(broker):
    """Where our broker listens."""
    return broker.bootstrap
