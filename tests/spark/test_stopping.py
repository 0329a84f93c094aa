"""How the driver stops a query and its program: Spark's query and its source are played here."""

import io
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from py4j.protocol import Py4JNetworkError  # type: ignore[import-untyped]
from pyspark.errors import PySparkException, StreamingQueryException

from apportion.member.batch.span import Span, sorted_span
from apportion.spark import run, stop
from apportion.spark.processes import stop_requests
from apportion.spark.processes.stop_requests import StopAnswer, StopRequest
from apportion.spark.queries import running, stopping
from apportion.topics import TopicIdPartition

PARTITION = TopicIdPartition("t", b"i" * 16, 0)
FIRST, SECOND = (sorted_span("played", {PARTITION: (start, start + 5)}) for start in (0, 5))
DONE = StopAnswer(is_committed=True, has_left=True)
IDLE = {"isTriggerActive": False, "isDataAvailable": True}
BUSY = {"isTriggerActive": True, "isDataAvailable": True}
PLANNING = {"isTriggerActive": True, "isDataAvailable": False}


class Query:
    """A streaming query, of which `statuses` are seen one after the other, and the last for ever.

    committed: what its progress shows. answers_at: the number of looks at the status after which
    the source is asked for the next batch, and answers; else it answers as it is ended.
    """

    name, id = "played", "1"

    def __init__(
        self,
        statuses: Iterable[Any] = (IDLE,),
        committed: Span | None = FIRST,
        *,
        answer: StopAnswer | None = DONE,
        answers_at: int | None = None,
        failure: str | None = None,
    ) -> None:
        self._statuses, self._committed, self._failure = list(statuses), committed, failure
        self._answer, self._answers_at = answer, answers_at
        self.looks = self.waits = 0
        self.isActive = failure is None
        self.seen: list[StopRequest | None] = []  # the requests as it was ended
        self.on_wait: Any = lambda: None

    @property
    def status(self) -> Any:
        self.looks += 1
        if self.looks == self._answers_at:
            self._answer_driver()
        return self._statuses[min(self.looks, len(self._statuses)) - 1]

    @property
    def lastProgress(self) -> Any:
        if self._committed is None:
            return None
        offsets = ('{"other": {"0": 3}}', None, self._committed.canonical_json())
        return SimpleNamespace(sources=[SimpleNamespace(endOffset=offset) for offset in offsets])

    def explain(self, _extended: bool) -> None:
        print("No physical plan. Waiting for data.")

    def stop(self) -> None:
        assert self.isActive
        self.seen.append(stop_requests.request_or_none("played"))
        self.isActive = False
        self._answer_driver()

    def exception(self) -> str | None:
        return self._failure

    def awaitTermination(self, _seconds: float) -> None:
        self.waits += 1
        self.on_wait()

    def _answer_driver(self) -> None:
        if self._answer is not None and stop_requests.request_or_none("played") is not None:
            stop_requests.write_answer("played", self._answer)


def once(act: Callable[[], None]) -> Callable[[], None]:
    """Act at the first call alone."""
    left = [act]
    return lambda: left.pop()() if left else None


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Short waits, and neither requests nor answers left at the end."""
    monkeypatch.setattr(stopping, "POLL_INTERVAL_S", 0.001)
    monkeypatch.setattr(stopping, "LEAVE_TIMEOUT_S", 0.05)
    yield
    assert stop_requests.request_or_none("played") is None
    assert stop_requests.answer_or_none("played") is None


def test_a_query_between_two_triggers_is_ended_with_what_spark_has_committed() -> None:
    query = Query()
    assert stop(query) is True
    assert (query.looks, query.seen) == (1, [StopRequest(FIRST)])


def test_the_progress_of_spark_4_0_shows_what_it_has_committed() -> None:
    sources = [
        SimpleNamespace(endOffset=text)
        for text in ("{'other': {'0': 3}}", "neither", "None", str(FIRST.to_json()))
    ]
    query = SimpleNamespace(lastProgress=SimpleNamespace(sources=sources))
    assert stopping.committed_spans(query) == [FIRST]


def test_a_running_batch_is_waited_for_until_the_source_is_asked_for_the_next() -> None:
    query = Query([BUSY], answers_at=4)
    assert stop(query) is True
    assert query.looks == 4


def test_a_running_batch_is_waited_for_until_its_trigger_is_over() -> None:
    query = Query([BUSY, BUSY, BUSY, IDLE])
    assert stop(query) is True
    assert query.looks == 4


@pytest.mark.parametrize("statuses", [[IDLE], [PLANNING]])
def test_a_query_that_has_planned_nothing_is_ended_at_once(statuses: list[Any]) -> None:
    query = Query(statuses, committed=None)
    assert stop(query) is True
    assert (query.looks, query.seen) == (1, [None])


def test_a_first_batch_is_waited_for_although_nobody_knows_its_source() -> None:
    query = Query([BUSY, BUSY, IDLE], committed=None)
    assert stop(query) is True
    assert query.looks == 3


def test_queries_that_have_ended_are_left_alone() -> None:
    ended, failed = Query(), Query(failure="why")
    ended.isActive = False
    assert (stop(ended), stop(failed), stop(ended, failed), stop()) == (True, False, False, True)


def test_a_batch_that_takes_too_long_is_said_and_interrupted(
    caplog: pytest.LogCaptureFixture,
) -> None:
    query = Query([BUSY], answer=StopAnswer(is_committed=False, has_left=True))
    assert stop(query, timeout_s=0.01) is False
    assert (query.isActive, caplog.messages) == (
        False,
        [
            "query played: the batch that runs was not finished in 0.01 s: it is interrupted, and "
            "its records are read again",
            "query played: its last batch is not committed to the group, so it is read again",
        ],
    )


def test_a_query_whose_source_cannot_be_asked_is_ended_between_two_batches(
    caplog: pytest.LogCaptureFixture, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    no_directory = tmp_path / "file"
    no_directory.touch()
    monkeypatch.setattr("tempfile.tempdir", str(no_directory))
    query = Query([BUSY, BUSY, IDLE])
    query.on_wait = once(lambda: os.kill(os.getpid(), signal.SIGTERM))
    assert run(query) == 1
    assert (query.isActive, query.looks, query.seen) == (False, 3, [None])
    (line,) = caplog.messages
    assert line.startswith(
        "query played: its source cannot be asked to commit its last batch: let TMPDIR name a "
        "directory where this user may write, the same for the driver and its Java process ("
    )


def test_a_source_that_does_not_answer_is_said(caplog: pytest.LogCaptureFixture) -> None:
    assert stop(Query(answer=None)) is False
    assert caplog.messages == ["query played: its source has not said that it left the group"]


def test_the_driver_logs_what_a_source_says_as_its_process_ends(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level("INFO", "apportion.spark.rebalance")
    line = "group g: left the group: gave up t 0"
    assert stop(Query(answer=DONE._replace(line=line))) is True
    assert caplog.messages == [line]
    caplog.clear()
    # One that was asked for another batch has logged it.
    assert stop(Query([BUSY], answers_at=2)) is True
    assert caplog.messages == []


def test_an_answer_that_came_too_late_for_an_earlier_stop_does_not_count() -> None:
    stop_requests.write_answer("played", DONE)
    query = Query([BUSY, BUSY, IDLE])
    assert stop(query) is True
    assert query.looks == 3


def test_a_stop_that_is_interrupted_takes_its_request_back() -> None:
    def interrupt() -> None:
        assert stop_requests.request_or_none("played") == StopRequest(FIRST)
        raise KeyboardInterrupt

    query = Query([BUSY])
    query.on_wait = interrupt
    with pytest.raises(KeyboardInterrupt):
        stop(query)
    assert query.isActive


def test_a_query_that_fails_meanwhile_is_not_waited_for() -> None:
    def fail() -> None:
        query.isActive, query._failure = False, "why"
        raise StreamingQueryException("why")

    query = Query([BUSY])
    query.on_wait = fail
    assert stop(query) is False
    assert query.waits == 1


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_program_is_stopped_in_order_by_a_signal_and_gets_its_handlers_back(
    number: signal.Signals, capfd: pytest.CaptureFixture[str]
) -> None:
    before = signal.getsignal(number)
    query = Query()
    query.on_wait = lambda: os.kill(os.getpid(), number)
    assert run(query, timeout_s=7) == 0
    assert (query.seen, signal.getsignal(number)) == ([StopRequest(FIRST)], before)
    name = "Ctrl-C" if number == signal.SIGINT else "SIGTERM"
    assert capfd.readouterr().err == (
        f"{name}: the batch that runs is finished first, for up to 7 s; {name} again stops at "
        "once\n"
        "stopped: the last batch is committed, and the group is left\n"
    )


def test_a_second_query_on_a_checkpoint_is_told_to_have_its_own() -> None:
    spark = "[CONCURRENT_STREAM_LOG_UPDATE] Concurrent update to the log."
    assert running.advised(spark) == (
        f"{spark} Another query runs with this checkpoint: give each application a "
        "checkpointLocation of its own, and all of them the same group and table"
    )
    assert running.advised("group etl: not let in") == "group etl: not let in"


def test_a_signal_within_a_write_to_stderr_does_not_end_the_program(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Signalled(io.FileIO):
        """A file that is written to as the signal comes."""

        def write(self, data: Any) -> int:
            os.kill(os.getpid(), signal.SIGTERM)
            return super().write(data)

    query = Query()
    query.on_wait = lambda: print("a line", file=sys.stderr, flush=True)
    file = io.TextIOWrapper(io.BufferedWriter(Signalled(tmp_path / "log", "w")))
    with file, monkeypatch.context() as patched:
        patched.setattr(sys, "stderr", file)
        assert run(query) == 0
    assert (tmp_path / "log").read_text() == "a line\n"


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_second_signal_stops_at_once(
    number: signal.Signals, caplog: pytest.LogCaptureFixture
) -> None:
    query = Query([BUSY])
    query.on_wait = lambda: os.kill(os.getpid(), number)
    assert run(query) == 128 + number
    assert (query.isActive, caplog.messages) == (
        False,
        [
            "query played: the batch that runs is not waited for: it is interrupted, and its "
            "records are read again"
        ],
    )


def test_a_third_signal_ends_a_program_that_does_not_come_back() -> None:
    program = (
        "import os, signal, time\n"
        "from apportion.spark.queries.running import StopSignals\n"
        "with StopSignals(25):\n"
        "    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGTERM):\n"
        "        os.kill(os.getpid(), number)\n"
        "    time.sleep(60)\n"
    )
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert ended.returncode == -signal.SIGTERM
    assert (
        ended.stderr.splitlines()[-1] == "SIGTERM: stops at once; the batch that runs is read again"
    )


def test_a_program_ends_with_its_queries_and_with_code_1_if_one_fails(
    caplog: pytest.LogCaptureFixture,
) -> None:
    ended = Query()
    ended.isActive = False
    assert run(ended) == 0
    going, failed = Query(), Query(failure="the reason\n=== Streaming Query ===\nand a plan")
    assert run(going, failed) == 1
    assert (going.isActive, caplog.messages) == (False, ["query played has failed: the reason"])


@pytest.mark.parametrize("error", [Py4JNetworkError(), ConnectionRefusedError()])
def test_a_program_whose_java_process_is_lost_ends_with_a_sentence(
    error: Exception, caplog: pytest.LogCaptureFixture
) -> None:
    def fail() -> None:
        raise error

    query = Query()
    query.on_wait = fail
    assert run(query) == 1
    assert caplog.messages == ["Spark's Java process has ended, and the queries with it"]


def test_a_program_that_spark_connect_tells_nothing_ends_with_a_sentence(
    caplog: pytest.LogCaptureFixture,
) -> None:
    def fail() -> None:
        raise PySparkException("RPC that terminated with:\n\tstatus = UNAVAILABLE")

    query: Any = Query()
    query.on_wait = fail
    assert run(query) == 1
    assert caplog.messages == [
        "Spark Connect does not tell of the queries any more: RPC that terminated with: status = "
        "UNAVAILABLE"
    ]
    query._jsq = None  # as a query of a classic session has it: then the error is a defect
    with pytest.raises(PySparkException):
        run(query)


def test_a_batch_that_was_not_finished_gives_code_1() -> None:
    query = Query([BUSY], answer=StopAnswer(is_committed=False, has_left=True))
    query.on_wait = once(lambda: os.kill(os.getpid(), signal.SIGTERM))
    assert run(query, timeout_s=0.01) == 1


def test_a_program_needs_a_query_and_the_main_thread() -> None:
    with pytest.raises(ValueError, match=r"run\(\) needs a query"):
        run()
    errors: list[str] = []

    def run_elsewhere() -> None:
        try:
            run(Query())
        except ValueError as error:
            errors.append(str(error))

    thread = threading.Thread(target=run_elsewhere)
    thread.start()
    thread.join()
    assert errors == [
        "run() must be called in the main thread, which alone gets signals: call "
        "apportion.spark.stop(query) in another thread"
    ]
    assert running.POLL_INTERVAL_S > 0
