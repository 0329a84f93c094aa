"""A virtual environment that an application brings to a cluster, as docs/spark-cluster.md makes it.

Its packages are those of this environment, copied: nothing is downloaded. PySpark is left out, the
cluster has it.
"""

import os
import shutil
import subprocess
import sys
from importlib.metadata import distribution
from pathlib import Path

from packaging.requirements import Requirement

from tests.spark.harness import ROOT

OF_THE_CLUSTER = ("pyspark", "py4j")
NOT_NEEDED = ("tests", "include")


def pack(environment: Path) -> Path:
    """Make the environment with apportion[spark], and an archive of it beside; return the archive.

    It is a .tar.gz, since Spark unpacks a .tar and a .zip without the permissions of the files.
    """
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", environment], check=True)
    (packages,) = environment.glob("lib/python*/site-packages")
    for name in required("apportion", {"spark"}):
        copy_distribution(name, packages)
    for package in ("apportion", "pyspark_apportion"):
        shutil.copytree(ROOT / "src" / package, packages / package)
    archive = environment.with_suffix(".tar.gz")
    subprocess.run(["tar", "-I", "gzip -1", "-cf", archive, "-C", environment, "."], check=True)
    return archive


def required(name: str, extras: set[str]) -> set[str]:
    """Return the names of all packages that a package with these extras requires."""
    found: set[str] = set()
    waiting = [(name, frozenset(extras))]
    while waiting:
        package, with_extras = waiting.pop()
        for text in distribution(package).requires or ():
            requirement = Requirement(text)
            is_wanted = requirement.marker is None or any(
                requirement.marker.evaluate({"extra": extra}) for extra in ("", *with_extras)
            )
            if is_wanted and requirement.name not in {*found, *OF_THE_CLUSTER}:
                found.add(requirement.name)
                waiting.append((requirement.name, frozenset(requirement.extras)))
    return found


def copy_distribution(name: str, packages: Path) -> None:
    """Copy the files of an installed package, but for its scripts and tests."""
    installed = distribution(name)
    for file in installed.files or ():
        if file.parts[0] == ".." or any(part in NOT_NEEDED for part in file.parts):
            continue
        target = packages / file
        target.parent.mkdir(parents=True, exist_ok=True)
        source = Path(str(installed.locate_file(file)))
        try:
            os.link(source, target)
        except OSError:  # another file system
            shutil.copy2(source, target)
