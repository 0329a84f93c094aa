"""The data directory of `apportion serve`: one of its own or an empty one, and no other."""

import subprocess
import sys
from itertools import combinations
from pathlib import Path

import pytest

from apportion.broker import EmbeddedBroker
from apportion.server.data_directory import refuse_foreign_directory


def serve(directory: Path) -> tuple[int, str, str]:
    """Return exit code, stdout and stderr of a start that is refused."""
    command = [sys.executable, "-m", "apportion.cli.main", "serve", "--listen", "127.0.0.1:0"]
    done = subprocess.run(
        [*command, "--data-dir", str(directory)], capture_output=True, text=True, timeout=60
    )
    return done.returncode, done.stdout, done.stderr


def fill(directory: Path, *names: str) -> Path:
    """Make a directory with these entries: directories where a name ends with a slash."""
    directory.mkdir()
    for name in names:
        if name.endswith("/"):
            (directory / name).mkdir()
        else:
            (directory / name).touch()
    return directory


def test_a_directory_with_other_files_is_refused_and_left_as_it_is(tmp_path: Path) -> None:
    names = (".lock", "a-0/", "cleaner-offset-checkpoint", "meta.properties", "zebra.txt")
    foreign = fill(tmp_path / "kafka", *names)
    assert serve(foreign) == (
        2,
        "",
        f"apportion serve: {foreign} holds a-0, cleaner-offset-checkpoint, meta.properties and 1 "
        "more, and no data of a broker: give --data-dir a new or an empty directory.\n",
    )
    assert {path.name for path in foreign.iterdir()} == {name.rstrip("/") for name in names}


def test_a_file_is_no_data_directory(tmp_path: Path) -> None:
    file = tmp_path / "data"
    file.write_text("mine")
    sentence = f"apportion serve: cannot use the directory {file}: it is a file\n"
    assert (serve(file), file.read_text()) == ((2, "", sentence), "mine")


@pytest.mark.parametrize("names", [(), ("lost+found/",), (".DS_Store", ".snapshot/")])
def test_a_directory_without_files_of_somebody_is_taken(
    tmp_path: Path, names: tuple[str, ...]
) -> None:
    refuse_foreign_directory(fill(tmp_path / "new", *names))


def test_a_directory_that_is_not_there_yet_is_taken(tmp_path: Path) -> None:
    refuse_foreign_directory(tmp_path / "new")


def test_any_remainder_of_a_crashed_first_start_is_accepted(tmp_path: Path) -> None:
    with EmbeddedBroker(tmp_path / "whole"):
        made = [
            f"{path.name}/" if path.is_dir() else path.name
            for path in (tmp_path / "whole").iterdir()
        ]
    for count in range(len(made) + 1):
        for number, left in enumerate(combinations(made, count)):
            refuse_foreign_directory(fill(tmp_path / f"{count}-{number}", *left))


def test_a_directory_of_a_broker_may_have_other_files_too(tmp_path: Path) -> None:
    refuse_foreign_directory(fill(tmp_path / "ours", "catalog.log", "topics/", "notes.txt"))
