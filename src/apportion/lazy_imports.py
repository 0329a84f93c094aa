"""Lazy imports: modules that are imported when they are first used, so that a start need not wait.

A module says so in place of an import, and type checkers see that import:

    if TYPE_CHECKING:
        import numpy as np
    else:
        np = lazy_module("numpy")

The first use waits for the import, on whichever thread it is. A process in which nobody shall wait
for it then imports all of them beforehand (`import_lazy_modules`), on a thread beside its work.
"""

from importlib import import_module
from typing import Any

_NAMES: dict[str, None] = {}  # an ordered set


def lazy_module(name: str) -> Any:
    """Return what stands for a module, which is imported when one of its names is first read.

    Errors: those of the import, at each reading until it succeeds.
    """
    _NAMES[name] = None
    return _LazyModule(name)


def import_lazy_modules() -> None:
    """Import every lazy module of the modules that are imported so far."""
    for name in list(_NAMES):
        import_module(name)


class _LazyModule:
    """A stand-in for a lazy module, with the names of that module which were read so far."""

    def __init__(self, name: str) -> None:
        self.__name__ = name

    def __getattr__(self, name: str) -> Any:
        # Another thread may be importing it just now: `import_module` waits for the whole module,
        # which importlib.util.LazyLoader before Python 3.12 does not.
        found = getattr(import_module(self.__name__), name)
        # Kept, so that later readings cost what those of a module do.
        setattr(self, name, found)
        return found
