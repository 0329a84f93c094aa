"""What each of Spark's processes imports of apportion: a short job starts five of them and more."""

import subprocess
import sys
from pathlib import Path

OF_READING = "numba", "llvmlite", "apportion.columns"
OF_PLANNING = "apportion.spark.membership", "apportion.member.batch.planner"
OF_WRITING = "apportion.spark.topic_sink", "confluent_kafka", "deltalake"
CLIENT = "apportion.client.connection", "apportion.wire.table", "apportion.assign.racks"
OF_MEMBERSHIP = "apportion.member.membership", "apportion.member.assignors.runs"
OF_OPTIONS = "apportion.spark.options.stream", "apportion.member.batch.plan"
SELDOM = "re2", "urllib.request"

OPTIONS = (
    '{"kafka.bootstrap.servers": "127.0.0.1:1", "kafka.group.id": "g", "subscribe": "flights", '
    '"startingOffsets": "earliest"}'
)


def test_the_process_that_finds_the_source_imports_no_part_of_its_work() -> None:
    imported = _imported("import pyspark_apportion")

    assert not imported & _with_rooms(OF_READING, OF_PLANNING, OF_WRITING, CLIENT, SELDOM)


def test_the_process_that_pickles_the_reader_imports_no_client() -> None:
    imported = _imported(
        "from apportion.spark.source import GroupSource\n"
        f"source = GroupSource({OPTIONS})\n"
        "import pickle\n"
        "from pyspark.sql.types import StructType\n"
        "pickle.dumps(source.streamReader(StructType()).read)"
    )

    assert not imported & _with_rooms(OF_READING, OF_PLANNING, OF_WRITING, CLIENT, SELDOM)
    assert not imported & {*OF_MEMBERSHIP}


def test_the_process_that_reads_imports_neither_options_nor_a_membership(tmp_path: Path) -> None:
    pickled = tmp_path / "read.pickle"
    _imported(
        "from apportion.spark.source import GroupSource\n"
        f"source = GroupSource({OPTIONS})\n"
        "import pathlib, pickle\n"
        "from pyspark.sql.types import StructType\n"
        f"pathlib.Path({str(pickled)!r}).write_bytes(\n"
        "    pickle.dumps(source.streamReader(StructType()).read)\n"
        ")"
    )

    imported = _imported(
        "import pathlib, pickle\n"
        f"read = pickle.loads(pathlib.Path({str(pickled)!r}).read_bytes())\n"
        "from apportion.spark.reading.slices import TaskSlices\n"
        "assert list(read(TaskSlices(()))) == []"
    )

    assert "apportion.client.connection" in imported
    assert not imported & _with_rooms(OF_PLANNING, OF_WRITING, OF_MEMBERSHIP, OF_OPTIONS, SELDOM)


def test_the_process_that_plans_batches_imports_nothing_to_read_them() -> None:
    imported = _imported(
        "from apportion.spark.source import GroupSource\n"
        f"source = GroupSource({OPTIONS})\n"
        "from pyspark.sql.types import StructType\n"
        "source.streamReader(StructType()).stop()\n"
        "import apportion.spark.membership.batch_member\n"
        "import apportion.spark.membership.first_look"
    )

    assert not imported & _with_rooms(OF_READING, OF_WRITING, SELDOM)


def _with_rooms(*groups: tuple[str, ...]) -> set[str]:
    return {name for group in groups for name in group}


def _imported(program: str) -> set[str]:
    """Return the modules that a fresh interpreter has imported after a program of Spark's."""
    begin = "import pyspark.sql.worker.create_data_source, sys\n"
    done = subprocess.run(
        [sys.executable, "-c", f"{begin}{program}\nprint(*sys.modules)"],
        capture_output=True,
        text=True,
        check=True,
    )
    return set(done.stdout.split())
