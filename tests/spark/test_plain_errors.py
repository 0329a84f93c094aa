"""Errors that leave a query's Python process without a traceback, and those that keep it."""

import json
import os
from typing import Any

import pytest
from pyspark.sql.types import StructType

from apportion.member.batch.data_loss import DataLoss
from apportion.member.batch.membership import MembershipFailed
from apportion.member.batch.span import SpanError
from apportion.member.group_claims import AnotherSink
from apportion.spark.delta_sink.connect_query import ConnectRefused
from apportion.spark.errors import NotWritable
from apportion.spark.options.values import OptionError
from apportion.spark.processes.plain_errors import HIDE, reason_of, without_traceback
from apportion.spark.processes.private_files import NoPrivateDirectory
from apportion.spark.queries.plan_text import PlanNotShown
from apportion.spark.source import GroupSource
from tests.spark.error_page import assert_on_page


def fail(error: Exception) -> None:
    """Raise an error that has a cause."""
    try:
        raise ConnectionError("the cause")
    except ConnectionError as cause:
        raise error from cause


def raise_within(error: Exception) -> None:
    with without_traceback():
        fail(error)


@pytest.mark.parametrize(
    "kind",
    [
        MembershipFailed,
        AnotherSink,
        DataLoss,
        OptionError,
        ConnectRefused,
        PlanNotShown,
        NoPrivateDirectory,
        NotWritable,
    ],
)
@pytest.mark.parametrize("worker", [True, False])
def test_an_error_in_a_sentence_loses_its_cause_and_in_sparks_process_its_traceback(
    monkeypatch: pytest.MonkeyPatch, kind: type[Exception], worker: bool
) -> None:
    monkeypatch.delenv(HIDE, raising=False)
    if worker:
        monkeypatch.setenv("PYTHON_WORKER_FACTORY_PORT", "1")
    with pytest.raises(kind, match=r"^why$") as raised:
        raise_within(kind("why"))
    assert (raised.value.__cause__, raised.value.__suppress_context__) == (None, True)
    # In the driver Spark prints the frames of the function of foreachBatch.
    assert "fail" not in [frame.name for frame in raised.traceback]
    assert os.environ.pop(HIDE, None) == ("1" if worker else None)


@pytest.mark.parametrize(
    ("offset", "why"),
    [
        (
            {"flights": {"0": 23}},
            "the offset must have exactly the keys id, topics, v, not flights",
        ),
        ("garbage", "an offset must be JSON: Expecting value: line 1 column 1 (char 0)"),
        ({"v": 3}, "this offset has format 3; this version reads formats 1 and 2: was it written"),
    ],
)
def test_an_offset_of_another_source_is_refused_in_a_sentence(
    monkeypatch: pytest.MonkeyPatch, offset: Any, why: str
) -> None:
    monkeypatch.setenv("PYTHON_WORKER_FACTORY_PORT", "1")
    monkeypatch.setenv(HIDE, "")
    options = {"kafka.bootstrap.servers": "h:9092", "kafka.group.id": "g", "subscribe": "t"}
    reader: Any = GroupSource(options).streamReader(StructType())
    limit = reader.getDefaultReadLimit()
    for ask, arguments in (
        (reader.partitions, (offset, offset)),
        (reader.latestOffset, (offset, limit)),
    ):
        with pytest.raises(SpanError) as refused:
            ask(*arguments)
        assert f"none of apportion's: {why}" in str(refused.value)
        assert_on_page("a checkpoint of another source", refused.value)
        assert os.environ[HIDE] == "1"


def test_an_offset_that_spark_cannot_read_is_refused_in_the_same_sentence(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("PYTHON_WORKER_FACTORY_PORT", "1")
    monkeypatch.setenv(HIDE, "")
    options = {"kafka.bootstrap.servers": "h:9092", "kafka.group.id": "g", "subscribe": "t"}
    reader: Any = GroupSource(options).streamReader(StructType())
    with pytest.raises(SpanError) as refused:
        # As Spark's python_streaming_source_runner.py does, which reads the JSON by itself.
        try:
            json.loads("garbage")
        finally:
            reader.stop()
    assert_on_page("a checkpoint whose offsets are no JSON", refused.value)
    assert os.environ[HIDE] == "1"
    reader.stop()  # as with no error


def test_other_text_that_is_no_json_is_a_defect() -> None:
    options = {"kafka.bootstrap.servers": "h:9092", "kafka.group.id": "g", "subscribe": "t"}
    reader: Any = GroupSource(options).streamReader(StructType())

    class Defective(dict[str, Any]):
        def get(self, *_: object) -> Any:
            return json.loads("garbage")

    with pytest.raises(json.JSONDecodeError):
        try:
            reader.partitions({}, Defective())
        finally:
            reader.stop()


def test_a_defect_keeps_its_traceback(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHON_WORKER_FACTORY_PORT", "1")
    with pytest.raises(AssertionError) as raised:
        raise_within(AssertionError("a defect"))
    assert isinstance(raised.value.__cause__, ConnectionError)
    assert raised.traceback[-1].name == "fail"
    assert HIDE not in os.environ


SPARKS_REPORT = """
=== Streaming Query ===
Identifier: [id = 8f6c8faf, runId = 88c09706]
Current Committed Offsets: {}

Logical Plan:
~WriteToMicroBatchDataSourceV1 ForeachBatchSink
"""
IN_A_SOURCE = (
    "[PYTHON_STREAMING_DATA_SOURCE_RUNTIME_ERROR] Failed when Python streaming data source perform "
    "latestOffset: apportion.member.batch.membership.MembershipFailed: group g: not let in\n"
    " SQLSTATE: 38000"
)
IN_A_WRITER = """An exception was raised by the Python Proxy. Return Message: Traceback:
  File "clientserver.py", line 644, in _call_proxy
    return_value = getattr(self.pool[obj_id], method)(*params)
                   ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
  File "files.py", line 295, in table_schema
    raise ValueError(
"""


OF_DELTA = """OSError: Generic LocalFileSystem error
          \x1b[31m↳\x1b[0m Unable to open file /lake/_delta_log/00000000000000000001.json#1
           \x1b[31m↳\x1b[0m Permission denied (os error 13)

"""
OF_DELTA_IN_ONE_LINE = (
    "OSError: Generic LocalFileSystem error: Unable to open file "
    "/lake/_delta_log/00000000000000000001.json#1: Permission denied (os error 13)"
)
OF_DELTAS_KERNEL = """DeltaError: Kernel error: Json error: Truncated
   0: <unknown>
  12: start_thread
             at ./nptl/pthread_create.c:442:8
"""
OF_PYDANTIC = """ValidationError: 1 error for Order
cents
  Input should be a number
"""


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (IN_A_SOURCE, "group g: not let in"),
        (f"{IN_A_WRITER}ValueError: no offsets\nin it\n", "ValueError: no offsets in it"),
        (f"{IN_A_WRITER}{OF_DELTA}", OF_DELTA_IN_ONE_LINE),
        (
            f"{IN_A_WRITER}PythonException: in a worker:\n{IN_A_WRITER}{OF_PYDANTIC}",
            "ValidationError: 1 error for Order cents Input should be a number",
        ),
        (f"{IN_A_WRITER}{OF_DELTAS_KERNEL}", "DeltaError: Kernel error: Json error: Truncated"),
        (f"{IN_A_WRITER}apportion.spark.queries.stateless.StatefulQuery: a state\n", "a state"),
        ("[CONCURRENT_STREAM_LOG_UPDATE] twice", "[CONCURRENT_STREAM_LOG_UPDATE] twice"),
    ],
)
def test_the_reason_of_a_failed_query_is_the_errors_own_words(text: str, reason: str) -> None:
    assert reason_of(text + SPARKS_REPORT) == reason
