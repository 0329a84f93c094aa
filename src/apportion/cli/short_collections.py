"""Full garbage collections of a broker that do not last longer the more it holds.

The problem. Python's full collection looks at every object that can hold others. With 30,000
members in groups it takes a quarter of a second, in which the broker answers nobody.

The method. What has survived a full collection is set aside, so that the next one looks only at
what has come since. The more often it comes, the shorter it is, at the same cost in all: so it
comes five times as often as by default. An object that is set aside is freed as before when its
last reference goes; only a cycle that becomes garbage later stays, and not for long: the first full
collection after an hour looks at everything.
"""

import gc
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

WHOLE_EVERY_S = 3_600.0
OLDEST = 2
"""The generation that a full collection is of."""
FULL_AFTER = 1
"""A full collection comes after more than so many of the generation before; Python's own is 10."""


@contextmanager
def short_collections(now: Callable[[], float] = time.monotonic) -> Iterator[None]:
    """Set aside what survives a full collection, as long as a `with` block runs.

    now: in seconds. Only for a process of our own: it concerns all objects of the process.
    """
    whole_at = now() + WHOLE_EVERY_S

    def on_collection(phase: str, info: dict[str, Any]) -> None:
        nonlocal whole_at
        if info["generation"] != OLDEST:
            return
        if phase == "stop":
            gc.freeze()
        elif now() >= whole_at:
            whole_at = now() + WHOLE_EVERY_S
            gc.unfreeze()

    young, middle, oldest = gc.get_threshold()
    gc.set_threshold(young, middle, FULL_AFTER)
    gc.callbacks.append(on_collection)
    try:
        yield
    finally:
        gc.set_threshold(young, middle, oldest)
        gc.callbacks.remove(on_collection)
