"""How long properties search: Hypothesis profiles that scale the number of examples that each
property asks for.

`all` takes the numbers as they are written. `test` is the default and takes three tenths of them,
but for the codecs and the store; `quick` is for a contributor's inner loop. In these three the
examples of a property are a function of its code, so that a run says the same whenever it is
repeated. `long` is a search from a seed that is fresh, or said by `--hypothesis-seed`, and tries
the percentage that APPORTION_PROPERTIES_PERCENT says. Choose one with Hypothesis' own option:
`pytest --hypothesis-profile=long`.
"""

import os
from collections.abc import Iterable
from typing import Any
from unittest import TestCase

import pytest
from hypothesis import HealthCheck, settings

SHARES = {
    "quick": 0.1,
    "test": 0.3,
    "all": 1.0,
    "long": int(os.environ.get("APPORTION_PROPERTIES_PERCENT", "2000")) / 100,
}
"""Profile -> how many of the examples that a property asks for are tried."""
ALWAYS_WHOLE = ("tests/store/", "tests/wire/")
"""Beginnings of the tests of which `test` takes no fewer: bytes of others and of the disk, where a
rare value breaks what no other test looks at.
"""
LEAST_EXAMPLES = 5
# where Hypothesis keeps the settings of a function; its own pytest plugin writes there
INNER = "_hypothesis_internal_use_settings"


SIZES = ("APPORTION_DIFFERENTIAL_SCRIPTS", "APPORTION_KILLS", "APPORTION_SIMULATED_SEEDS")
"""Variables that say how long a test searches which is no property."""


def is_search() -> bool:
    """Return whether this run is a search whose length somebody chose, so that no limit of time
    fits all of them.
    """
    return settings.get_current_profile_name() == "long" or any(
        name in os.environ for name in SIZES
    )


def is_whole() -> bool:
    """Return whether this run plays everything that is written down, as `make all` does."""
    return settings.get_current_profile_name() == "all"


def simulated_seeds(usual: int) -> range:
    """Return the seeds that a test of the simulator plays: this number from 0 on, or those that
    `make long` says.
    """
    first = int(os.environ.get("APPORTION_SIMULATED_FIRST", "0"))
    return range(first, first + int(os.environ.get("APPORTION_SIMULATED_SEEDS", usual)))


def register() -> None:
    """Register the profiles and load `test`; Hypothesis' pytest plugin loads another one later if
    it is asked to.
    """
    # how long an example takes, or takes to be drawn, says how busy the machine is
    for name in SHARES:
        settings.register_profile(
            name,
            deadline=None,
            suppress_health_check=[HealthCheck.too_slow],
            print_blob=True,
            database=None,  # what earlier runs of this work tree met decides nothing
            derandomize=name != "long",
        )
    settings.load_profile("test")


def check(config: pytest.Config) -> None:
    """Raise UsageError for a profile that is none, which Hypothesis answers with a traceback."""
    name = config.getoption("--hypothesis-profile")
    if name is not None and name not in SHARES:
        raise pytest.UsageError(
            f"--hypothesis-profile: there is no profile {name!r}; there are {', '.join(SHARES)}"
        )


def scaled(given: settings, share: float) -> settings:
    """Return these settings with that share of their examples, but never fewer than LEAST_EXAMPLES
    unless fewer were asked for.
    """
    return settings(
        given,
        max_examples=max(
            min(LEAST_EXAMPLES, given.max_examples), round(given.max_examples * share)
        ),
    )


def scaled_now(given: settings) -> settings:
    """Return these settings as the loaded profile scales them: for the property of a codec that a
    test makes while it runs.
    """
    return scaled(given, 1.0 if settings.get_current_profile_name() == "test" else _share())


def scale(items: Iterable[pytest.Item]) -> None:
    """Give each collected property the number of examples of the loaded profile."""
    profile, share = settings.get_current_profile_name(), _share()
    for owner, name in dict.fromkeys(
        attribute
        for item in items
        if not (profile == "test" and item.nodeid.startswith(ALWAYS_WHOLE))
        if (attribute := settings_attribute(item))
    ):
        setattr(owner, name, scaled(getattr(owner, name), share))


def _share() -> float:
    return SHARES.get(settings.get_current_profile_name(), 1.0)


def settings_attribute(item: pytest.Item) -> tuple[Any, str] | None:
    """Return the object and the attribute that hold the settings of this test; None for a test that
    is no property.
    """
    machine = getattr(item, "cls", None)
    if (
        machine is not None
        and issubclass(machine, TestCase)
        and isinstance(getattr(machine, "settings", None), settings)
    ):
        return machine, "settings"
    function = getattr(item.obj, "__func__", item.obj) if hasattr(item, "obj") else None
    return (function, INNER) if hasattr(function, INNER) else None
