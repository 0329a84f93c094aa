"""A batch that is being written when the interpreter ends is waited for, within limits."""

import subprocess
import sys
from pathlib import Path

from apportion.spark.delta_sink.writer_work import WriterWork

WRITES_PAST_THE_END = """
import hashlib, threading
from apportion.spark.delta_sink.writer_work import WRITER_WORK

begun = threading.Event()

@WRITER_WORK.running()
def write():
    begun.set()
    threading.main_thread().join()
    hashlib.pbkdf2_hmac("sha256", b"a", b"b", 2_000_000)  # a second or so, in native code
    print("written")

threading.Thread(target=write, daemon=True).start()
begun.wait()
"""

WRITES_TO_TWO_TABLES = """
import atexit, sys, threading

begun, closed = threading.Event(), threading.Event()

def is_held_back():
    frame = sys._current_frames().get(thread.ident)
    names = []
    while frame is not None:
        names.append(frame.f_code.co_name)
        frame = frame.f_back
    return "wait" in names and "running" in names

def let_go_on():
    closed.set()
    while thread.is_alive() and not is_held_back():
        pass

atexit.register(let_go_on)  # before the import: so it runs after what the module has registered

from apportion.spark.delta_sink.writer_work import WRITER_WORK

@WRITER_WORK.running()
def write(table):
    begun.set()
    threading.main_thread().join()
    print(table, flush=True)

def batch():
    write("first")
    closed.wait()
    write("second")

thread = threading.Thread(target=batch, daemon=True)
thread.start()
begun.wait()
"""

CLEANING = """
import sys, threading
from collections.abc import Mapping
from apportion.spark.delta_sink.table_cleaning import DailyCleaning
from apportion.spark.delta_sink.writer_work import WRITER_WORK

begun = threading.Event()

class Options(Mapping):
    def __getitem__(self, name):
        return {"unused": "option"}[name]

    def __iter__(self):
        if threading.current_thread() is not threading.main_thread():
            begun.set()
            threading.main_thread().join()
            print("cleaned", flush=True)
        return iter(["unused"])

    def __len__(self):
        return 1

cleaning = DailyCleaning(sys.argv[1], Options())
"""

CLEANS_PAST_THE_END = f"""{CLEANING}
for _ in range(2):
    cleaning.start_if_due()
begun.wait()
"""

WRITES_PAST_THE_END_WITH_CLEANING_DUE = f"""{CLEANING}
@WRITER_WORK.running()
def write():
    begun.set()
    while not WRITER_WORK.is_closing:
        pass
    cleaning.start_if_due()
    print("written", flush=True)

threading.Thread(target=write, daemon=True).start()
begun.wait()
"""


def test_an_interpreter_ends_after_the_batch_that_a_writer_writes() -> None:
    program = subprocess.run(
        [sys.executable, "-c", WRITES_PAST_THE_END], capture_output=True, text=True, check=True
    )
    assert program.stdout == "written\n"
    assert "a Delta writer is still at work: waiting up to 60 s" in program.stderr


def test_nothing_is_begun_in_an_interpreter_that_ends() -> None:
    program = subprocess.run(
        [sys.executable, "-c", WRITES_TO_TWO_TABLES], capture_output=True, text=True
    )
    assert (program.returncode, program.stdout) == (0, "first\n")


def test_the_wait_ends_when_its_time_is_over_and_at_once_without_a_batch() -> None:
    ended = WriterWork()
    with ended.running():
        pass
    assert ended.close(0)
    work = WriterWork()
    with work.running():
        assert not work.close(0)
    assert work.is_closed


def test_no_cleaning_begins_while_the_interpreter_waits_for_a_batch(tmp_path: Path) -> None:
    program = subprocess.run(
        [sys.executable, "-c", WRITES_PAST_THE_END_WITH_CLEANING_DUE, str(tmp_path / "table")],
        capture_output=True,
        text=True,
        check=True,
    )
    assert program.stdout == "written\n"


def test_a_table_is_cleaned_once_a_day_and_an_interpreter_waits_for_that_too(
    tmp_path: Path,
) -> None:
    program = subprocess.run(
        [sys.executable, "-c", CLEANS_PAST_THE_END, str(tmp_path / "table")],
        capture_output=True,
        text=True,
        check=True,
    )
    assert program.stdout == "cleaned\n"
