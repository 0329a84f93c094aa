"""Our classic member, session and Consumer on a real Apache Kafka: what every member must live through, eager and cooperative,
and what only classic ones do."""

from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

import pytest


def _adopt(name):
    """The scenarios of tests/client/`name`.py are tests of this module."""
    spec = spec_from_file_location(name, Path(__file__).parents[1] / "client" / f"{name}.py")
    assert spec is not None and spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    globals().update({name: value for name, value in vars(module).items() if not name.startswith("_")})


_adopt("scenarios")
_adopt("classic_scenarios")


@pytest.fixture
def bootstrap(kafka):
    """Where the real Kafka listens."""
    return kafka.bootstrap
