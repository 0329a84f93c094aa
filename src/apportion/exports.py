"""Names that load when they are needed.

Public names load on first use, so importing a package stays cheap, and needs no library that the
program does not use. A name in a setting is that of somebody's class.
"""

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any


def lazily(
    package: str, modules: Mapping[str, str], *, extra: str = ""
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """Return a package's `__getattr__` and `__dir__` for public names that stand in other modules.

    extra: the extra of the distribution that brings the libraries which these modules need.
    modules: public name -> the module that holds it, or the module itself where it is named
    `<package>.<name>`. The package repeats its names under `if TYPE_CHECKING`, for checkers and
    editors; a test compares the two.
    """

    def load(name: str) -> Any:
        """Import and return the public object of that name.

        Raises AttributeError for another name, ModuleNotFoundError where a library is missing.
        """
        if name not in modules:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        try:
            module = import_module(modules[name])
        except ModuleNotFoundError as error:
            if not extra or (error.name or "").startswith("apportion"):
                raise
            raise ModuleNotFoundError(
                f"No module named {error.name!r}: {install_command(extra)}", name=error.name
            ) from error
        return module if modules[name] == f"{package}.{name}" else getattr(module, name)

    def names() -> list[str]:
        """Return the public names alone, as an editor offers them."""
        return sorted([*modules, "__doc__", "__name__"])

    return load, names


def install_command(extra: str) -> str:
    """Return how the libraries of an extra are installed, for the end of a sentence."""
    # No package index has apportion.
    return f"pip install '.[{extra}]' in a clone of apportion"


def attribute_of(module: str, path: str) -> Any:
    """Import a module and return what it has under a name, which may have dots.

    Whatever importing raises comes through.
    """
    found: Any = import_module(module)
    for name in path.split("."):
        found = getattr(found, name)
    return found
