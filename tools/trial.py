"""The trial of one mutant: a private copy of the source, and a new process that runs it."""

import hashlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tools.mutation import Mutant

from tests.lanes import TEST, lane_of

STARTS_SPARK = re.compile(
    r"\bSparkSession\b|tests\.spark\.(connect_server|harness|queries|secured_pipeline)\b"
)
"""What a test names that starts Spark, which alone takes longer than most trials."""

GUARDS = "test_guards.py"
"""Switches off what a mutant may have switched off already, and takes minutes."""

ELSEWHERE = ("coord", "member", "node", "store", "streams", "wire")
"""The packages whose tests are tried on what the tests of the mutant's own package miss: those that
wait for no clock.
"""

ELSEWHERE_SHARE = 5
"""How many times the processor time of a part all tests elsewhere may use."""

HANGS_S = 240
"""How long one test may take, in seconds of any clock: the longest sound one needs a sixth."""

TIME_LIMIT = -signal.SIGPROF
"""The exit code of a trial that used up its processor time. The trial as a whole has no other
limit: on a busy machine a sound one may take long.
"""

NO_TESTS = 5
"""The exit code of pytest that has found no test: such a trial shows nothing."""

FOREIGN = 70
"""The exit code of a trial that looked at another module than the mutated one."""

CHECKED = """
import contextlib, resource, signal, sys
with contextlib.suppress(ValueError, OSError):
    # of what can be written; a JVM reserves addresses for much more
    resource.setrlimit(resource.RLIMIT_DATA, (4 << 30, 4 << 30))
module, path, limit_s = *sys.argv[1:3], float(sys.argv[3])
signal.setitimer(signal.ITIMER_PROF, limit_s)
def is_foreign():
    return module in sys.modules and sys.modules[module].__file__ != path
"""

RUN_TESTS = """
import os, pytest
code = pytest.main(sys.argv[4:])
print(end="", flush=True)
os._exit(70 if is_foreign() else code)  # a mutant's threads may never end
"""

SIMULATE = """
import json
count, left_out = json.loads(sys.argv[4])
from apportion.sim.play import play
from apportion.sim.kernel.scenario import draw_scenario
if is_foreign():
    sys.exit(70)
for seed in range(count):
    if seed in left_out:
        continue
    signal.setitimer(signal.ITIMER_PROF, limit_s)
    no_end = {"seed": seed, "what": "no-end", "why": f"still running after {limit_s:.0f} s"}
    print(json.dumps(no_end), flush=True)
    try:
        broken = play(draw_scenario(seed)).broken
        law, why = (broken.law, broken.why) if broken else ("", "")
    except Exception as error:
        law, why = "no-defect", repr(error)
    if law:
        print(json.dumps({"seed": seed, "what": law, "why": why}), flush=True)
        sys.exit(1)
"""

Finding = dict[str, Any]


@contextmanager
def copies(root: Path, count: int) -> Iterator[list["Tree"]]:
    """Make so many private copies of the project at `root`, for a `with` block.

    Others may enter their directory: some tests are another user for a while.
    """
    with tempfile.TemporaryDirectory(prefix="mutants-") as name:
        directory = Path(name)
        directory.chmod(0o755)
        yield [Tree(root, directory / str(number)) for number in range(count)]


def digest(root: Path, folders: Iterable[str]) -> str:
    """Of every file of source and scripts in these folders."""
    sum_ = hashlib.sha256()
    for file in sorted(
        file
        for folder in folders
        for file in (root / folder).rglob("*")
        if file.suffix in (".py", ".txt")
    ):
        sum_.update(file.relative_to(root).as_posix().encode() + b"\0" + file.read_bytes() + b"\0")
    return sum_.hexdigest()[:16]


class Tree:
    """A private copy of the package and of the tests that concern the mutants.

    Compiled modules are checked by their source's hash and never written, so a mutant is never
    mistaken for the one before.
    """

    def __init__(self, root: Path, directory: Path) -> None:
        (directory / "tmp").mkdir(parents=True)
        self.directory = directory = directory.resolve()
        leave = shutil.ignore_patterns("__pycache__", ".hypothesis", "target", "node_modules")
        shutil.copytree(root / "src" / "apportion", directory / "src" / "apportion", ignore=leave)
        # whole: some tests hold the pages, and other tests, to what they promise; those of Spark
        # kill hosts as the demonstration does
        for name in ("tests", "docs", "demo"):
            shutil.copytree(root / name, directory / name, ignore=leave)
        for name in ("pyproject.toml", "README.md"):
            shutil.copy(root / name, directory)
        compile_all = [
            sys.executable,
            "-m",
            "compileall",
            "-q",
            "--invalidation-mode",
            "checked-hash",
            "src",
        ]
        subprocess.run(compile_all, cwd=directory, check=True)

    @contextmanager
    def holding(self, mutant: Mutant) -> Iterator[None]:
        """Put the mutated module in the place of its original, for a `with` block."""
        file = self.directory / "src" / "apportion" / mutant.file
        before = file.read_text()
        file.write_text(mutant.text)
        try:
            yield
        finally:
            file.write_text(before)

    def sound_tests(self, rooms: Iterable[str], limit_s: float) -> Finding:
        """Run the unit tests of these packages on the code as it is, as `tests` does."""
        return self._tests(None, self.sound_parts(rooms), limit_s)

    def tests(self, mutant: Mutant, limit_s: float, suspect: str = "") -> Finding:
        """Run the unit tests of the mutant's package, and return whether one fails, and which.

        limit_s: of processor time, of each of the parts that `parts` gives. suspect: a test that is
        run before all others if it still exists.
        """
        return self._tests(mutant, self.parts(mutant), limit_s, suspect)

    def _tests(
        self, mutant: Mutant | None, parts: list[list[str]], limit_s: float, suspect: str = ""
    ) -> Finding:
        options = [
            "-x",
            "-q",
            "--tb=no",
            "-rfE",
            "-p",
            "no:cacheprovider",
            f"--timeout={HANGS_S}",
            "--hypothesis-profile=quick",
            "-W",
            "ignore::SyntaxWarning",
        ]
        seconds = 0.0
        suspected = self._function_or_none(suspect)
        for files in [*([[suspected]] if suspected else []), *parts]:
            is_elsewhere = mutant is not None and not _is_of(mutant.room, files[0])
            limit = limit_s * (ELSEWHERE_SHARE if is_elsewhere else 1)
            found = self._found(mutant, RUN_TESTS, [*options, *files], limit, _failed_test)
            seconds += found["seconds"]
            # A suspect that pytest does not find, or that fails for another reason, proves nothing.
            is_trusted = files != [suspected] or found.get("what", "").split("[")[0] == suspected
            if found["killed"] and is_trusted:
                break
        return found | {"seconds": round(seconds, 1)}

    def _function_or_none(self, test: str) -> str | None:
        """Return pytest's name of a test without its parameters; None if there is no such test."""
        file, _, function = test.split("[")[0].partition("::")
        path = self.directory / file
        is_there = function and path.is_file() and f"def {function}(" in path.read_text()
        return f"{file}::{function}" if is_there else None

    def sound_parts(self, rooms: Iterable[str]) -> list[list[str]]:
        """Return the tests of these packages, a part for each: those that a mutant there is given.

        What starts Spark is among them.
        """
        return self._named([self._test_files(room) for room in rooms])

    def parts(self, mutant: Mutant) -> list[list[str]]:
        """Return the tests that are tried on a mutant, in parts to be run in turn.

        Of the mutant's package, files that name its module are first, then the others. What starts
        Spark is run only where it names the module. The last part is the tests elsewhere.
        """
        files = self._test_files(mutant.room)
        names = _names(mutant.module)
        related = [file for file in files if names.search(file.read_text())]
        sessions = [file for file in files if STARTS_SPARK.search(file.read_text())]
        return self._named(
            [
                [file for file in related if file not in sessions],
                [file for file in related if file in sessions],
                [file for file in files if file not in related and file not in sessions],
                self._elsewhere(mutant),
            ]
        )

    def _elsewhere(self, mutant: Mutant) -> list[Path]:
        """Return the tests of other packages without Spark, those that name the module first."""
        rooms = [room for room in ELSEWHERE if room != mutant.room]
        files = [file for room in rooms for file in self._test_files(room)]
        names = _names(mutant.module)
        texts = {file: file.read_text() for file in files}
        return sorted(
            (file for file in files if not STARTS_SPARK.search(texts[file])),
            key=lambda file: not names.search(texts[file]),
        )

    def _test_files(self, room: str) -> list[Path]:
        """Return a package's files of `make test`: scripts are first, properties last."""
        return sorted(
            (
                file
                for file in (self.directory / "tests" / room).glob("test_*.py")
                if file.name != GUARDS
                if lane_of(file.relative_to(self.directory).as_posix()) == TEST
            ),
            key=lambda file: ("script" not in file.name, "law" in file.name, file),
        )

    def _named(self, parts: list[list[Path]]) -> list[list[str]]:
        """Return the parts that are not empty, as pytest is given them."""
        return [
            [file.relative_to(self.directory).as_posix() for file in part] for part in parts if part
        ]

    def seeds(
        self, mutant: Mutant | None, count: int, left_out: list[int], seed_limit_s: int
    ) -> Finding:
        """Play the first seeds, and return whether a law is broken, and which.

        seed: -1 if the simulator did not even start.
        """
        return self._found(
            mutant, SIMULATE, [json.dumps([count, left_out])], seed_limit_s, _broken_law
        )

    def _found(
        self, mutant: Mutant | None, program: str, arguments: list[str], limit_s: float, read: Any
    ) -> Finding:
        module = mutant.module if mutant else "apportion"
        path = self.directory / "src" / "apportion" / (mutant.file if mutant else "__init__.py")
        command = [
            sys.executable,
            "-c",
            CHECKED + program,
            module,
            str(path),
            str(limit_s),
            *arguments,
        ]
        environment = os.environ | {
            "PYTHONPATH": str(self.directory / "src"),
            "TMPDIR": str(self.directory / "tmp"),  # queries of a user find one another there
            "PYTHONDONTWRITEBYTECODE": "1",
            "PYTHONHASHSEED": "0",
        }
        started = time.monotonic()
        done = subprocess.run(
            command, cwd=self.directory, env=environment, capture_output=True, text=True
        )
        if done.returncode == FOREIGN:
            raise RuntimeError(
                f"{module} was imported from elsewhere than {path}:\n{done.stdout}{done.stderr}"
            )
        if done.returncode == NO_TESTS:
            raise RuntimeError(f"no test was found: {' '.join(arguments)}")
        finding = {"killed": done.returncode != 0, "seconds": round(time.monotonic() - started, 1)}
        return finding | (read(done) if finding["killed"] else {})


def _is_of(room: str, test: str) -> bool:
    """Return whether a test is one of that package's."""
    return test.startswith(f"tests/{room}/")


def _names(module: str) -> re.Pattern[str]:
    """Return the pattern of a test that names this module: by its path, or by an import of it."""
    package, _, name = module.rpartition(".")
    package, whole = re.escape(package), re.escape(module)
    return re.compile(rf"{whole}\b|from {package} import [^\n]*\b{name}\b")


def _failed_test(done: subprocess.CompletedProcess[str]) -> Finding:
    """Return the first test that failed, by pytest's name."""
    if done.returncode == TIME_LIMIT:
        return {"what": "the time limit"}
    named = [
        line.split(" ", 1)[1].split(" - ")[0]
        for line in done.stdout.splitlines()
        if line.startswith(("FAILED ", "ERROR "))
    ]
    last = [line for line in (done.stdout + done.stderr).splitlines() if line.strip()]
    return {
        "what": named[0] if named else f"its import ({last[-1].strip() if last else 'no output'})"
    }


def _broken_law(done: subprocess.CompletedProcess[str]) -> Finding:
    """Return the result that the simulation printed last."""
    if lines := done.stdout.splitlines():
        finding: Finding = json.loads(lines[-1])
        return finding
    return {
        "seed": -1,
        "what": "its import",
        "why": (done.stderr.strip().splitlines() or ["no output"])[-1],
    }
