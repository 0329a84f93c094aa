"""Programs that a test puts on the PATH."""

from pathlib import Path


def program(directory: Path, name: str, script: str) -> dict[str, str]:
    """An environment whose PATH has one program of that name."""
    path = directory / name
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    return {"PATH": str(directory)}
