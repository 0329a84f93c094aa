"""Locations of tables and checkpoints, as paths and URIs name them."""

from pathlib import Path


def local_path_or_none(location: str) -> Path | None:
    """Return the path of a location on this machine; None for one of another file system.

    Example: /lake for /lake, file:/lake and file:///lake, and None for s3://lake.
    """
    scheme, colon, path = location.partition(":")
    if not colon or "/" in scheme:
        return Path(location)
    return Path("/" + path.lstrip("/")) if scheme.lower() == "file" else None
