"""Scenarios that several modules play, each with fixtures of its own."""

from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any


def adopt(module: dict[str, Any], *names: str) -> None:
    """The scenarios of tests/client/`name`.py are tests of the module, given by its globals().

    Each time anew: a module that two share would be collected once, and with one set of fixtures.
    """
    for name in names:
        spec = spec_from_file_location(name, Path(__file__).with_name(f"{name}.py"))
        assert spec is not None
        assert spec.loader is not None
        scenarios = module_from_spec(spec)
        spec.loader.exec_module(scenarios)
        module.update(
            {key: value for key, value in vars(scenarios).items() if not key.startswith("_")}
        )
