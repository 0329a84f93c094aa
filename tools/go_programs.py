"""Programs in Go of this repository, built the first time they are wanted; go.sum pins the rest."""

import os
import shutil
from hashlib import sha256
from pathlib import Path

from apportion.testing.kafka import last_lines, output_if_failed
from apportion.testing.lock import locked


class GoMissing(Exception):
    """A program cannot be built here; the text is a sentence that says what failed."""


def built(sources: Path, package: str, target: Path) -> Path:
    """Return the program of `package` in the module at `sources`, as it is now.

    target: where it is kept, a directory that git ignores. Raises GoMissing.
    """
    if not shutil.which("go"):
        raise GoMissing(
            f"Go is not on the PATH; it builds {package}. Install it at the version of "
            f"{sources.name}/go.mod or newer."
        )
    files = (path for path in sorted(sources.rglob("*")) if path.is_file())
    mark = sha256(b"".join(path.read_bytes() for path in files)).hexdigest()[:12]
    directory = target.resolve() / f"go-{mark}"
    with locked(target / "go.lock"):
        if not (directory / package).exists():
            environment = {
                **os.environ,
                "CGO_ENABLED": "0",
                "GOFLAGS": "-mod=readonly -modcacherw",
                "GOMODCACHE": str(target.resolve() / "modules"),
                "GOTOOLCHAIN": "local",  # no other Go is fetched
            }
            command = ["go", "build", "-o", f"{directory}/", f"./{package}"]
            output = output_if_failed(command, sources, environment)
            if output is not None:
                raise GoMissing(f"{' '.join(command[:3])} failed: {last_lines(output, 6)}")
    return directory / package
