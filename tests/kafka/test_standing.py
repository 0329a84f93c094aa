"""The Kafkas that workers share: one for all, and none when the last worker is gone."""

import subprocess
import sys
from pathlib import Path

import psutil

from tests.kafka.conftest import until
from tests.kafka.standing import ROOT

USE = """
import sys
from pathlib import Path
from tests.kafka.standing import StandingKafkas
print(StandingKafkas(Path(sys.argv[1])).attached("plain", Path(sys.argv[2])).bootstrap, flush=True)
sys.stdin.read()
"""


def user(directory: Path, jars: Path) -> "subprocess.Popen[str]":
    """A process that has a Kafka until it is killed."""
    command = [sys.executable, "-c", USE, str(directory), str(jars)]
    return subprocess.Popen(
        command, cwd=ROOT, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )


def brokers(directory: Path) -> list[int]:
    """The processes that run with a file of this directory."""
    alive = psutil.process_iter(["cmdline"])
    # A process that ends meanwhile, anybody's, has no command line.
    lines = {each.pid: " ".join(each.info["cmdline"] or ()) for each in alive}
    return [pid for pid, line in lines.items() if "kafka.Kafka" in line and str(directory) in line]


def test_a_kafka_outlives_who_started_it_and_ends_with_its_last_user(
    jars: Path, tmp_path: Path
) -> None:
    directory = tmp_path / "standing"
    with user(directory, jars) as one, user(directory, jars) as other:
        assert one.stdout is not None
        assert other.stdout is not None
        assert one.stdout.readline() == other.stdout.readline() != ""
        (broker,) = brokers(directory)
        for killed in (one, other):
            assert brokers(directory) == [broker]
            killed.kill()
            killed.wait()
    until(lambda: brokers(directory) == [])
    with user(directory, jars) as another:
        assert another.stdout is not None
        assert another.stdout.readline() != ""
        assert brokers(directory) not in ([], [broker])
        another.kill()
    until(lambda: brokers(directory) == [])
