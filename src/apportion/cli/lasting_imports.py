"""Imports of modules that live as long as the process: the garbage collector leaves them alone."""

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def lasting_imports() -> Iterator[None]:
    """Collect no garbage while a `with` block imports modules, and nothing of it later.

    The collector would look at everything that is imported, again and again while it grows, and
    once more with each full collection of a broker that runs.
    """
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
        gc.freeze()
    finally:
        if was_on:
            gc.enable()
