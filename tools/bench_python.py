"""Print the Python that benches run on: one that was built with profile-guided optimisation.

Users have such a one from Debian, Docker's images, conda and uv; who builds CPython without asking
for it (as pyenv does) has one that takes a fifth more time for the same heartbeats. BENCH_PYTHON
names another. Its packages are those of `.venv`, so it has the same version but for the last
number: `bench-out/python` is a virtual environment of it that has none of its own.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path

from tools.pythons import Build, NoPython, build_of, found

ROOT = Path(__file__).resolve().parent.parent
HOME = ROOT / "bench-out" / "python"
PACKAGES = "import sysconfig; print(sysconfig.get_path('purelib'))"


def chosen(own: Build, named: str, other: Build | None) -> Build:
    """Return the interpreter for benches: `named`, else the one that is optimised, else `own`.

    Raises NoPython where `named` cannot use the packages of `own`.
    """
    if named:
        build = build_of(named)
        if build.version[:2] != own.version[:2]:
            number, wanted = (".".join(map(str, each.version[:2])) for each in (build, own))
            raise NoPython(
                f"BENCH_PYTHON={named} is Python {number}, and the packages of .venv are for "
                f"{wanted}: make fresh, then make PYTHON={named} bench"
            )
        return build
    return other if other and other.is_optimised and not own.is_optimised else own


def made(home: Path, build: Build) -> Path:
    """Make `home` a virtual environment with the packages of the Python that runs.

    Returns its program, which is the interpreter of `build`.
    """
    program = home / "bin" / "python"
    if not program.exists() or build_of(str(program)) != build:
        shutil.rmtree(home, ignore_errors=True)
        subprocess.run([build.executable, "-m", "venv", "--without-pip", str(home)], check=True)
    (packages,) = (home / "lib").glob("python*/site-packages")
    borrowed = subprocess.run(
        [sys.executable, "-c", PACKAGES], capture_output=True, text=True, check=True
    ).stdout.strip()
    # addsitedir also reads the .pth files there, such as that of the editable install.
    (packages / "borrowed.pth").write_text(f"import site; site.addsitedir({borrowed!r})\n")
    return program


def main() -> int:
    """Print the program, and on stderr which Python it is. Return the exit code."""
    own = build_of(sys.executable)
    try:
        other = found(os.environ).get(own.version[:2])
        build = chosen(own, os.environ.get("BENCH_PYTHON", ""), other)
    except NoPython as error:
        print(f"apportion: {error}", file=sys.stderr)
        return 1
    print(sys.executable if build == own else made(HOME, build))
    print(f"apportion: benches run on {build} ({build.executable})", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())
