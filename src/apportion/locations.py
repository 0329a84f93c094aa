"""Locations of tables and checkpoints, as paths and URIs name them."""

from pathlib import Path
from urllib.parse import unquote, urlsplit


def local_path_or_none(location: str) -> Path | None:
    """Return the path of a location on this machine; None for one of another file system.

    As Hadoop reads it, which Spark's checkpoints are written with: it decodes nothing.

    Example: /lake for /lake, file:/lake and file:///lake, and None for s3://lake.
    """
    scheme, colon, path = location.partition(":")
    if not colon or "/" in scheme:
        return Path(location)
    return Path("/" + path.lstrip("/")) if scheme.lower() == "file" else None


def local_table_or_none(location: str) -> Path | None:
    """Return the path of a table on this machine; None for one of another file system.

    As delta-rs reads it, which writes the tables: a URI is decoded, and its host may be localhost.

    Example: "/my lake" for "/my lake" and file://localhost/my%20lake.
    """
    scheme, _, _ = location.partition(":")
    if scheme.lower() != "file":
        return local_path_or_none(location)
    parts = urlsplit(location)
    if parts.hostname not in (None, "localhost"):
        return None
    return Path("/" + unquote(parts.path).lstrip("/"))
