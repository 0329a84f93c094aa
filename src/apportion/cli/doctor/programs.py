"""The checks of what runs here: packages, Java, Spark Connect, the Python of Spark's workers."""

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import NamedTuple

from apportion import __version__
from apportion.cli.doctor.finding import Finding, failed, ok, skipped, warning

SPARK_PACKAGES = ("pyspark", "pyarrow", "numba", "pandas", "deltalake", "confluent-kafka")
"""What the extra `spark` installs; pyproject.toml says which versions."""
INSTALL_THERE = "install apportion there with its extra spark, as README says"
INSTALL_HERE = "install apportion with its extra spark in this Python, as README says"
LEAST_JAVA = 17
TESTED_JAVAS = "17, 21 or 25"
STARTS_WITHIN_S = 60
QUESTION = """
import json, sys
said = {"python": list(sys.version_info[:3]), "path": sys.executable}
try:
    import apportion
    said["apportion"] = apportion.__version__
    import apportion.spark.source
except ImportError as error:
    said["missing"] = f"without {error.name}" if error.name else f"where {error}"
print(json.dumps(said))
"""

HOME = "SPARK_HOME"
REMOTE = "SPARK_REMOTE"
"""The variable by which `SparkSession.builder.getOrCreate()` gives a session of Spark Connect."""
# pyspark takes a program without a file for one of its own tests, and ends it.
CONNECT_IMPORT = """
__file__ = "doctor"
try:
    import pyspark.sql.connect.session
except ImportError as error:
    print(" ".join(str(error).split()))
else:
    print("works")
"""


class WorkersPython(NamedTuple):
    """An interpreter as it describes itself.

    missing: what its import of apportion lacks, as in "without pyarrow"; None if it lacks nothing.
    """

    python: tuple[int, ...]
    path: str
    apportion: str | None = None
    missing: str | None = None


def check_programs(environment: Mapping[str, str]) -> Iterator[Finding]:
    """Yield the findings on this Python, Spark's packages, Java and the workers' Python.

    environment: the variables of the process.
    """
    yield ok("Python", f"{dotted(sys.version_info[:3])}, apportion {__version__}, {sys.executable}")
    yield check_packages()
    yield check_java(environment)
    if environment.get(HOME):
        yield check_spark_home(environment[HOME])
    if environment.get(REMOTE):
        yield check_connect(environment[REMOTE])
    yield check_workers_python(environment)


def check_packages() -> Finding:
    """Return whether the packages of the extra `spark` are installed."""
    versions = versions_of_spark()
    if missing := [package for package, found in versions.items() if found is None]:
        return failed("Spark", f"there is no {' and no '.join(missing)}", INSTALL_HERE)
    listed = ", ".join(f"{package} {found}" for package, found in versions.items())
    try:
        import apportion.spark  # noqa: F401  # refuses a Spark that is too old
    except ImportError as error:
        return failed("Spark", listed, str(error))
    return ok("Spark", listed)


def versions_of_spark() -> dict[str, str | None]:
    """Return the version of each package of the extra `spark`; None where it is not installed."""
    versions: dict[str, str | None] = dict.fromkeys(SPARK_PACKAGES)
    for package in SPARK_PACKAGES:
        with suppress(PackageNotFoundError):
            versions[package] = version(package)
    return versions


def check_java(environment: Mapping[str, str]) -> Finding:
    """Return whether Spark finds a Java that is new enough."""
    home = environment.get("JAVA_HOME", "")
    java = (
        os.path.abspath(Path(home, "bin", "java")) if home else _path_or_none("java", environment)
    )
    remedy = f"install Java {TESTED_JAVAS} and set JAVA_HOME to its directory"
    if java is None:
        return failed("Java", "JAVA_HOME is not set, and no java is on the PATH", remedy)
    found = f"{java}, {'of JAVA_HOME' if home else 'of the PATH'}"
    printed = output_or_none([java, "-XshowSettings:properties", "-version"])
    major = re.search(r"java\.specification\.version = (?:1\.)?(\d+)", printed or "")
    if major is None:
        return failed("Java", f"{found}, does not start", remedy)
    if int(major[1]) < LEAST_JAVA:
        return failed("Java", f"{found}, is version {major[1]}", remedy)
    newest = _newest_java_or_none()
    if newest is not None and int(major[1]) > newest:
        return failed(
            "Java",
            f"{found}, is version {major[1]}, on which Spark 4.0 and 4.1 do not start",
            f"set JAVA_HOME to a Java {LEAST_JAVA} or {newest}, or use Spark 4.2",
        )
    return ok("Java", f"{major[1]}, {found}")


def _newest_java_or_none() -> int | None:
    """Return the newest Java of the installed Spark; None if there is none, or no Spark."""
    try:
        from apportion.spark.versions import newest_java_or_none

        return newest_java_or_none(version("pyspark"))
    except (ImportError, PackageNotFoundError):  # another check says so
        return None


def check_spark_home(home: str) -> Finding:
    """Return whether there is a Spark where SPARK_HOME says so: PySpark starts that one.

    home: the value of the variable.
    """
    program = Path(home, "bin", "spark-submit")
    if not program.is_file():
        return failed(
            "Spark's directory",
            f"{HOME} is {home}: there is no {os.path.abspath(program)}",
            f"set {HOME} to the directory of a Spark, or unset it for the installed package",
        )
    return ok("Spark's directory", f"{HOME} is {home}")


def check_connect(remote: str, python: str = sys.executable) -> Finding:
    """Return whether a program of this Python can use Spark Connect, as SPARK_REMOTE asks.

    remote: the value of the variable. python: this interpreter.
    """
    check, asked = "Spark Connect", f"{REMOTE} is {remote}"
    # By another process: pyspark decides at its first import which packages it finds.
    said = (output_or_none([python, "-c", CONNECT_IMPORT]) or "").strip().splitlines()
    if not said or said[-1] != "works":
        why = said[-1] if said else f"{python} does not start"
        return failed(check, f"{asked}, and {why}", 'pip install "pyspark[connect]"')
    from apportion.spark.versions import connect_shows_queries

    if not connect_shows_queries(version("pyspark")):
        return warning(
            check,
            f"{asked}: delta.Writer does not work through Spark Connect of Spark "
            f"{version('pyspark')}",
            f"use Spark 4.2 or newer there, or unset {REMOTE} for a classic session",
        )
    return ok(check, asked)


def check_workers_python(environment: Mapping[str, str]) -> Finding:
    """Return whether the Python that Spark starts for its workers is like this one.

    Spark starts it for the source, too, on the driver. On a cluster each node has its own.
    """
    try:
        from apportion.spark.workers_python import DEFAULT, VARIABLE
    except ImportError:
        return skipped("workers' Python", "this Python has no Spark that works")
    check, typed = "workers' Python", environment.get(VARIABLE)
    name = DEFAULT if typed is None else typed
    source = name
    if typed is None:
        source = (
            f"{VARIABLE} is not set, so Spark starts {name}, except for a program that imports "
            "apportion.spark before it starts Spark"
        )
    has_spark = None not in versions_of_spark().values()
    use_this = f"{'' if has_spark else f'{INSTALL_HERE}, then '}export {VARIABLE}={sys.executable}"
    # A script that imports apportion.spark sets the variable; spark-submit starts Java before that.
    unfit = warning if typed is None else failed
    path = _path_or_none(name, environment)
    if path is None:
        return unfit(check, f"{source}: there is no such program", use_this)
    answer = asked_or_none(path)
    if answer is None:
        return unfit(check, f"{source}: {path} does not start as a Python", use_this)
    its_version = f"{source}: {answer.path} is Python {dotted(answer.python)}"
    if answer.python[:2] != sys.version_info[:2]:
        return unfit(check, f"{its_version}, and this one {dotted(sys.version_info[:3])}", use_this)
    if answer.apportion is None:
        return unfit(check, f"{its_version} without apportion", use_this)
    if answer.apportion != __version__:
        return unfit(
            check, f"{its_version} with apportion {answer.apportion}, not {__version__}", use_this
        )
    if answer.missing is not None:
        # It may be this very Python.
        remedy = f"{use_this}, or {INSTALL_THERE}" if has_spark else INSTALL_THERE
        return unfit(check, f"{its_version} {answer.missing}", remedy)
    return ok(check, f"{its_version} with apportion {answer.apportion}")


def asked_or_none(python: str) -> WorkersPython | None:
    """Return what an interpreter says of itself; None if it does not start or says nothing."""
    printed = output_or_none([python, "-c", QUESTION])
    try:
        said = json.loads((printed or "").strip().splitlines()[-1])
        return WorkersPython(
            tuple(said["python"]), said["path"], said.get("apportion"), said.get("missing")
        )
    except (IndexError, KeyError, TypeError, ValueError):
        return None


def output_or_none(command: list[str]) -> str | None:
    """Return what a program prints, stderr first; None if it does not start or does not end."""
    try:
        # Not from this directory: Spark starts its workers elsewhere, too.
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=STARTS_WITHIN_S, cwd="/"
        )
    except (OSError, ValueError, subprocess.TimeoutExpired):
        return None
    return done.stderr + done.stdout


def _path_or_none(program: str, environment: Mapping[str, str]) -> str | None:
    """Return the absolute path of a program; None if there is none."""
    found = shutil.which(program, path=environment.get("PATH", ""))
    return None if found is None else os.path.abspath(found)


def dotted(numbers: tuple[int, ...]) -> str:
    """Return a version as it is written."""
    return ".".join(map(str, numbers))
