"""The file in which a source leaves the batch that it has planned."""

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from apportion.broker import EmbeddedBroker
from apportion.client.cluster import Cluster
from apportion.member.batch.span import Span, parse_span, sorted_span
from apportion.spark.options.stream import SourceOptions
from apportion.spark.processes.private_files import create_directory
from apportion.spark.queries.introspection import SourceReading
from apportion.spark.queries.planned_batches import BatchNotLeft, PlannedBatchFile, planned_batches
from apportion.spark.reading.admission_control import ReadAllAvailable
from apportion.spark.source import GroupStreamReader
from apportion.topics import TopicIdPartition, partitions_of
from tests.spark.batch_members import produce
from tests.spark.micro_batches import TOPIC_ID

LOAD = "a" * 32
OPTIONS = {
    "kafka.bootstrap.servers": "b:9092",
    "kafka.group.id": "g",
    "subscribe": "t",
}

HELD_BY_A_PROCESS = """
import sys
from apportion.member.batch.span import Span
from apportion.spark.options.stream import SourceOptions
from apportion.spark.queries.planned_batches import PlannedBatchFile

planned = PlannedBatchFile(sys.argv[1], SourceOptions.parse({options}))
planned.write(Span("of the other process", {{}}))
print("written", flush=True)
sys.stdin.read()
"""


def span(start: int, to: int) -> Span:
    return sorted_span("checkpoint", {TopicIdPartition("t", TOPIC_ID, 0): (start, to)})


@pytest.fixture(autouse=True)
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The temporary directory."""
    (tmp_path / "temporary").mkdir()
    monkeypatch.setenv("TMPDIR", str(tmp_path / "temporary"))
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "temporary"))
    return tmp_path / "temporary"


@pytest.fixture
def planned() -> Iterator[PlannedBatchFile]:
    file = PlannedBatchFile(LOAD, SourceOptions.parse(OPTIONS))
    yield file
    file.close()


def reading(span: Span) -> SourceReading:
    """What a query without a secret has planned."""
    return SourceReading("g", span, "b:9092", client_id="apportion-spark-g")


def read() -> list[SourceReading]:
    return list(planned_batches(LOAD).values())


@contextmanager
def source_of_another_process(load: str) -> Iterator[Callable[[], None]]:
    """Another process whose source has left a batch. It yields what kills it."""
    command = [sys.executable, "-c", HELD_BY_A_PROCESS.format(options=OPTIONS), load]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as other:

        def kill() -> None:
            other.send_signal(signal.SIGKILL)
            other.wait(30)

        assert other.stdout is not None
        assert other.stdout.readline() == b"written\n"
        yield kill
        kill()


def files(temporary: Path) -> list[str]:
    return [path.name for path in (temporary / f"apportion-{os.getuid()}").iterdir()]


def test_the_batch_of_a_running_source_is_found_by_its_load(
    planned: PlannedBatchFile, temporary: Path
) -> None:
    assert read() == []
    for ends in (5, 9):
        planned.write(span(0, ends))
        assert read() == [reading(span(0, ends))]
    assert files(temporary) == [f"{LOAD}.{os.getpid()}.batch"]
    assert planned_batches("b" * 32) == {}


def test_a_late_read_of_an_older_batch_leaves_the_batch_in_progress(
    planned: PlannedBatchFile,
) -> None:
    planned.write(span(0, 5))  # a batch that a restarted query replays before it plans any
    planned.expect(span(5, 9))
    planned.write(span(5, 9))
    planned.write(span(0, 5))
    assert read() == [reading(span(5, 9))]


def test_a_source_says_what_it_planned_last_while_a_program_reads_an_older_batch() -> None:
    with EmbeddedBroker() as broker, ThreadPoolExecutor(1) as spark:
        cluster = Cluster(broker.bootstrap)
        (partition,) = partitions_of(cluster.create_topic("t", 1))
        options = {**OPTIONS, "kafka.bootstrap.servers": broker.bootstrap}
        options["startingOffsets"] = "earliest"
        reader = GroupStreamReader(SourceOptions.parse(options), LOAD)

        def next_batch(last: dict[str, Any]) -> dict[str, Any]:
            while (end := reader.latestOffset(last, ReadAllAvailable())) == last:
                pass
            reader.partitions(last, end)
            return end

        # Not in the main thread, where the reader would take SIGTERM from pytest.
        question = spark.submit(next_batch, reader.initialOffset()).result(60)
        produce(cluster, partition, 3)
        first = spark.submit(next_batch, question).result(60)
        produce(cluster, partition, 2)
        second = spark.submit(next_batch, first).result(60)
        spark.submit(reader.partitions, question, first).result(60)
        found = [each.span for each in read()]
        spark.submit(reader.stop).result(60)
        cluster.close()
    assert found == [parse_span(second)]


def test_a_source_that_ends_takes_its_file_along(
    planned: PlannedBatchFile, temporary: Path
) -> None:
    planned.write(span(0, 5))
    planned.close()
    assert (read(), files(temporary)) == ([], [])


def test_the_batch_of_a_killed_source_is_not_found() -> None:
    with source_of_another_process(LOAD) as kill:
        assert read() == [reading(Span("of the other process", {}))]
        kill()
    assert read() == []


def test_a_source_removes_what_killed_ones_have_left_and_nothing_else(
    planned: PlannedBatchFile, temporary: Path
) -> None:
    directory = create_directory()
    with source_of_another_process("b" * 32) as kill:
        kill()
    (directory / f"{'b' * 32}.1.batch-draft").touch()  # killed before the file had its name
    of_others = [f"{'c' * 32}.1.draft", f"stop-{'c' * 32}.request"]
    for name in of_others:
        (directory / name).touch()
    with source_of_another_process("d" * 32):
        (running,) = (path.name for path in planned_batches("d" * 32))
        planned.write(span(0, 5))
        assert sorted(files(temporary)) == sorted(
            [f"{LOAD}.{os.getpid()}.batch", running, *of_others]
        )


def test_no_secret_and_no_address_of_a_secured_cluster_is_left_on_the_disk() -> None:
    secured = SourceOptions.parse(
        {
            **OPTIONS,
            "kafka.security.protocol": "SASL_PLAINTEXT",
            "kafka.sasl.mechanism": "PLAIN",
            "kafka.sasl.jaas.config": (
                "org.apache.kafka.common.security.plain.PlainLoginModule required "
                'username="u" password="hidden";'
            ),
        }
    )
    file = PlannedBatchFile(LOAD, secured)
    file.write(span(0, 5))
    (path,) = planned_batches(LOAD)
    assert (read(), "hidden" in path.read_text()) == (
        [SourceReading("g", span(0, 5), client_id="apportion-spark-g")],
        False,
    )
    file.close()


def test_where_the_batch_cannot_be_left_the_one_before_is_not_taken_for_it(
    planned: PlannedBatchFile, temporary: Path
) -> None:
    planned.write(span(0, 5))
    private = temporary / f"apportion-{os.getuid()}"
    private.chmod(0o777)  # others may write there now
    planned.write(span(5, 9))
    private.chmod(0o700)
    assert read() == []


def test_beside_another_query_of_its_load_a_source_must_be_able_to_leave_its_batch(
    planned: PlannedBatchFile, temporary: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    planned.write(span(0, 5))
    monkeypatch.setattr("os.getpid", lambda: 1)  # of the other query's source
    other = PlannedBatchFile(LOAD, SourceOptions.parse(OPTIONS))
    in_its_place = temporary / f"apportion-{os.getuid()}" / f"{LOAD}.1.batch-draft"
    in_its_place.mkdir()
    with pytest.raises(BatchNotLeft) as refusal:
        other.write(span(5, 9))
    assert str(refusal.value) == (
        "two running queries read from one load(), and this one cannot leave what it reads in the "
        f"temporary directory ({refusal.value.__cause__}). Through Spark Connect a writer would "
        "take the batch of the other query for its own: give each query a load() of its own, and "
        "see that the directory that TMPDIR names has room"
    )
    in_its_place.rmdir()


def test_a_source_that_once_left_no_batch_is_refused_beside_another_of_its_load(
    planned: PlannedBatchFile, temporary: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    create_directory()
    in_its_place = temporary / f"apportion-{os.getuid()}" / f"{LOAD}.1.batch-draft"
    in_its_place.mkdir()
    with monkeypatch.context() as patch:
        patch.setattr("os.getpid", lambda: 1)
        other = PlannedBatchFile(LOAD, SourceOptions.parse(OPTIONS))
        other.write(span(0, 5))
    planned.write(span(0, 5))  # a writer of the other query may have taken it for its own
    in_its_place.rmdir()
    monkeypatch.setattr("os.getpid", lambda: 1)
    with pytest.raises(BatchNotLeft, match="two running queries read from one load"):
        other.write(span(5, 9))
    assert read() == [reading(span(0, 5))]


def test_without_a_directory_a_source_goes_on(temporary: Path) -> None:
    temporary.rmdir()
    file = PlannedBatchFile(LOAD, SourceOptions.parse(OPTIONS))
    file.write(span(0, 5))
    assert read() == []
    file.close()
