"""Throw-away certificates for tests, and files of them."""

from pathlib import Path

from apportion.server.certificates import DAY, Issued
from apportion.server.certificates import CertificateAuthority as Authority

__all__ = ["DAY", "Authority", "Issued", "written"]


def written(directory: Path, name: str, content: str | bytes) -> str:
    """The path of a new file with this content."""
    path = directory / name
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return str(path)
