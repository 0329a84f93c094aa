"""`python -m apportion.spark.bytecode`: Spark's Python processes find PySpark compiled."""

import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from types import CodeType
from zipfile import ZIP_DEFLATED, ZipFile
from zipimport import zipimporter

import pytest

from apportion.spark.bytecode import NoArchives, add_bytecode, archives, main, remove_bytecode

WORKER = "def fail():\n    raise ValueError\n"
SOURCES: dict[str, str | bytes] = {
    "sparkle/__init__.py": "# Sources of a package. " * 99,
    "sparkle/worker.py": WORKER,
    "sparkle/tests/test_worker.py": "from sparkle import worker\n",
    "sparkle/template.py": "{{ no Python }}\n",
}
OF_ANOTHER_PYTHON = b"\x00\x00\r\n" + bytes(12)
NOBODY = 65534
WHERE = """
import traceback
from sparkle import worker
print(worker.__file__)
try:
    worker.fail()
except ValueError:
    traceback.print_exc()
"""


@pytest.fixture
def archive(tmp_path: Path) -> Path:
    """An archive as Spark has it: PySpark's, in `python/lib`."""
    return written(tmp_path / "python" / "lib" / "pyspark.zip", SOURCES)


def written(path: Path, members: dict[str, str | bytes]) -> Path:
    """An archive with these members, compressed as little as PySpark's."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with ZipFile(path, "w", ZIP_DEFLATED, compresslevel=1) as new:
        for name, content in members.items():
            new.writestr(name, content)
    return path


def imported(archive: Path) -> tuple[str, str]:
    """The file from which another process imports the worker, and the trace of its error."""
    environment = {**os.environ, "PYTHONPATH": str(archive)}
    done = subprocess.run(
        [sys.executable, "-c", WHERE], env=environment, capture_output=True, text=True
    )
    return done.stdout.strip(), done.stderr


def contents(archive: Path) -> dict[str, str | bytes]:
    with ZipFile(archive) as opened:
        return {name: opened.read(name) for name in opened.namelist()}


def bytecode(archive: Path) -> list[str]:
    return [name for name in contents(archive) if name.endswith(".pyc")]


def test_modules_are_imported_compiled_and_fail_with_their_lines(archive: Path) -> None:
    assert imported(archive)[0] == f"{archive}/sparkle/worker.py"

    assert add_bytecode(archive) == 2

    path, trace = imported(archive)
    assert path == f"{archive}/sparkle/worker.pyc"
    assert f'File "{archive}/sparkle/worker.py", line 2, in fail\n    raise ValueError' in trace


def test_tests_and_what_is_no_python_are_left_out(archive: Path) -> None:
    add_bytecode(archive)

    assert bytecode(archive) == ["sparkle/__init__.pyc", "sparkle/worker.pyc"]


def opened_before(archive: Path) -> Callable[[], CodeType]:
    """Look at the archive as a process does that imports of it; return what loads the worker."""
    # It remembers where each member lies, and opens the file anew for each.
    importer = zipimporter(f"{archive}/sparkle")
    return lambda: importer.get_code("worker")


@pytest.mark.parametrize("changes", [[add_bytecode], [add_bytecode, remove_bytecode]])
@pytest.mark.parametrize("there", [{}, {"sparkle/worker.pyc": OF_ANOTHER_PYTHON}])
def test_a_process_that_has_opened_the_archive_goes_on(
    archive: Path, there: dict[str, str | bytes], changes: list[Callable[[Path], int]]
) -> None:
    written(archive, {**there, **SOURCES})
    worker = opened_before(archive)

    for change in changes:
        change(archive)

    assert worker().co_names == ("fail",)


def test_a_second_time_changes_nothing(archive: Path) -> None:
    add_bytecode(archive)
    before = archive.stat()

    assert add_bytecode(archive) == 0
    assert archive.stat() == before


def test_bytecode_of_another_python_is_replaced(archive: Path) -> None:
    with ZipFile(archive, "a") as opened:
        opened.writestr("sparkle/worker.pyc", OF_ANOTHER_PYTHON)
    assert imported(archive)[0] == f"{archive}/sparkle/worker.py"

    assert add_bytecode(archive) == 2
    assert imported(archive)[0] == f"{archive}/sparkle/worker.pyc"
    assert len(bytecode(archive)) == 2


def test_bytecode_of_a_source_that_was_replaced_is_compiled_anew(archive: Path) -> None:
    add_bytecode(archive)
    written(archive, contents(archive) | {"sparkle/worker.py": f"# A fix.\n{WORKER}"})

    assert add_bytecode(archive) == 1

    path, trace = imported(archive)
    assert path == f"{archive}/sparkle/worker.pyc"
    assert "line 3, in fail\n    raise ValueError" in trace
    assert add_bytecode(archive) == 0


def test_bytecode_of_a_source_that_is_no_python_any_more_is_dropped(archive: Path) -> None:
    add_bytecode(archive)
    written(archive, contents(archive) | {"sparkle/worker.py": "{{ no Python }}\n"})

    add_bytecode(archive)

    assert bytecode(archive) == ["sparkle/__init__.pyc"]


def test_bytecode_without_a_source_stays(archive: Path) -> None:
    with ZipFile(archive, "a") as opened:
        opened.writestr("sparkle/sold.pyc", OF_ANOTHER_PYTHON)

    assert (add_bytecode(archive), remove_bytecode(archive)) == (2, 2)

    assert bytecode(archive) == ["sparkle/sold.pyc"]


def test_the_room_of_replaced_bytecode_is_freed_with_the_bytecode(archive: Path) -> None:
    before = archive.stat().st_size
    with ZipFile(archive, "a") as opened:
        opened.writestr("sparkle/worker.pyc", OF_ANOTHER_PYTHON)
    add_bytecode(archive)

    remove_bytecode(archive)

    assert archive.stat().st_size == before


def test_removed_bytecode_leaves_the_archive_as_it_was(archive: Path) -> None:
    archive.chmod(0o640)
    before = archive.read_bytes()
    add_bytecode(archive)
    assert archive.stat().st_mode & 0o777 == 0o640

    assert remove_bytecode(archive) == 2

    assert archive.read_bytes() == before
    assert archive.stat().st_mode & 0o777 == 0o640
    assert remove_bytecode(archive) == 0
    assert os.listdir(archive.parent) == [archive.name]


def test_the_archives_are_those_of_spark_home_or_of_the_package(archive: Path) -> None:
    home = archive.parents[2]

    assert archives({"SPARK_HOME": str(home)}) == [archive]
    assert [path.name[:4] for path in archives({})] == ["py4j", "pysp"]


def test_a_home_without_archives_is_named(tmp_path: Path) -> None:
    with pytest.raises(NoArchives, match="set SPARK_HOME to Spark's directory") as raised:
        archives({"SPARK_HOME": str(tmp_path)})
    assert str(tmp_path / "python" / "lib") in str(raised.value)


def test_the_command_says_what_it_has_done(
    archive: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("SPARK_HOME", str(archive.parents[2]))

    assert [main([]), main([]), main(["--remove"]), main(["--remove"])] == [0, 0, 0, 0]

    assert capsys.readouterr().out.splitlines() == [
        f"{archive}: bytecode of 2 modules is added",
        f"{archive}: has its bytecode already",
        f"{archive}: bytecode of 2 modules is removed",
        f"{archive}: has no bytecode",
    ]


@pytest.fixture
def directory_of_another_user() -> Iterator[Path]:
    """A directory in which the test's user may not write; root, who may, is nobody meanwhile."""
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        archive = written(directory / "python" / "lib" / "pyspark.zip", SOURCES)
        directory.chmod(0o755)
        archive.parent.chmod(0o555)
        is_root = os.geteuid() == 0
        if is_root:
            os.seteuid(NOBODY)
        try:
            yield directory
        finally:
            if is_root:
                os.seteuid(0)
            archive.parent.chmod(0o755)


def test_an_archive_of_another_user_is_one_line(
    directory_of_another_user: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("SPARK_HOME", str(directory_of_another_user))
    lib = directory_of_another_user / "python" / "lib"

    assert main([]) == 1

    assert capsys.readouterr().err.splitlines() == [
        f"{lib}/pyspark.zip cannot be changed: run this as the owner of {lib}"
    ]


@pytest.mark.parametrize("damage", [slice(None), slice(60, 70)], ids=["whole", "a member"])
def test_an_archive_that_is_damaged_is_one_line(
    archive: Path,
    damage: slice,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("SPARK_HOME", str(archive.parents[2]))
    content = bytearray(archive.read_bytes())
    content[damage] = bytes(len(content[damage]))
    archive.write_bytes(content)

    assert main([]) == 1

    printed = capsys.readouterr().err
    assert printed.count("\n") == 1
    assert str(archive) in printed
    assert "install PySpark again" in printed
