"""CRC-32C, the checksum of record batches (KIP-98), of indexes and of the metadata log.

It is the function of the package crc32c, taken from that package's extension module. The package
itself imports its command line and looks for its version among all installed packages, with
`email`, `zipfile` and others: a tenth of what a start took.
"""

from importlib.machinery import PathFinder
from importlib.util import find_spec, module_from_spec
from typing import Any


def _extension_or_none() -> Any:
    """Return the extension module of the package crc32c; None where a version has no such."""
    package = find_spec("crc32c")
    if package is None:
        return None
    spec = PathFinder.find_spec("crc32c._crc32c", package.submodule_search_locations)
    if spec is None or spec.loader is None:
        return None
    extension = module_from_spec(spec)
    spec.loader.exec_module(extension)
    return extension


crc32c: Any = getattr(_extension_or_none(), "crc32c", None)
if crc32c is None:
    from crc32c import crc32c as crc32c
