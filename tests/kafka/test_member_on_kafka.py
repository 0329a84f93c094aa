"""Our member, session, cluster and Consumer on a real Apache Kafka: every scenario of tests/client/scenarios.py."""

from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

import pytest

SPEC = spec_from_file_location("member_scenarios", Path(__file__).parents[1] / "client" / "scenarios.py")
assert SPEC is not None and SPEC.loader is not None
scenarios = module_from_spec(SPEC)
SPEC.loader.exec_module(scenarios)
globals().update({name: value for name, value in vars(scenarios).items() if not name.startswith("_")})


@pytest.fixture
def bootstrap(kafka):
    """Where the real Kafka listens."""
    return kafka.bootstrap
