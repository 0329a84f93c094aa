"""Applications as processes: how those of spark-submit end, and what the logs of others say."""

import re
import signal
import subprocess
import sys

from tests.spark.error_page import assert_on_page
from tests.spark.harness import ROOT, Pipeline, until

SLOW_LISTENER = """
import time

from apportion.spark import PrometheusListener
from tests.spark.application import spark_session


class Slow(PrometheusListener):
    def onQueryTerminated(self, event):
        time.sleep(0.5)
        super().onQueryTerminated(event)


spark = spark_session()
spark.streams.addListener(Slow(port=0))
query = spark.readStream.format("rate").load().writeStream.format("noop").start()
query.stop()
"""


def test_an_application_of_spark_submit_finishes_its_batch_before_java_ends(
    pipeline: Pipeline,
) -> None:
    submitted = pipeline.start("submitted", ending="run", submit=True)
    pipeline.produce(8)
    pipeline.until_committed()
    submitted.close_gate("written")
    pipeline.produce(8)
    submitted.wait_at("written")
    pipeline.produce(8)  # for another batch, which is not begun
    planned = submitted.batches("offsets")
    submitted.process.terminate()
    until(lambda: "Java process is told to end" in submitted.tail(), 30)
    submitted.until_asked_to_stop()
    submitted.open_gate("written")
    # The Java process is the first one here, and ends by the signal.
    assert submitted.process.wait(60) == 128 + signal.SIGTERM
    until(lambda: not pipeline.owners(), 3, "nobody owns")
    assert submitted.batches() == planned
    ends = pipeline.committed()
    assert pipeline.rows() == pipeline.expected(
        lambda partition, offset: offset < (ends[partition] or 0)
    )


def test_an_application_of_spark_submit_that_has_read_everything_ends_with_code_0(
    pipeline: Pipeline,
) -> None:
    pipeline.produce(8)
    submitted = pipeline.start("submitted", ending="run", submit=True, trigger="available now")
    submitted.wait_for_end()
    # Java's own end finds no hook that would call the program, which is gone.
    assert [line for line in submitted.tail().splitlines() if " ERROR " in line] == []
    until(lambda: not pipeline.owners(), 3, "nobody owns")
    assert (pipeline.total_committed(), pipeline.rows()) == (8, pipeline.expected())


def test_a_query_that_waits_for_its_topic_says_so_in_sparks_layout(pipeline: Pipeline) -> None:
    application = pipeline.start("one", topic="flihgts")
    line = (
        rf"\d\d/\d\d/\d\d \d\d:\d\d:\d\d WARN apportion\.spark: group {pipeline.group}: "
        r"topic flihgts does not exist yet; it is read from its beginning once it does: "
        rf"is its name right\? `apportion topics create flihgts --bootstrap {pipeline.bootstrap}` "
        r"creates it"
    )
    log = pipeline.path / "one.log"
    until(lambda: "does not exist yet" in log.read_text(), what="the line", also=[application])
    assert_on_page("a topic that does not exist", log.read_text())
    (logged,) = (each for each in log.read_text().splitlines() if "does not exist yet" in each)
    assert re.fullmatch(line, logged), logged


def test_a_batch_that_outlasts_the_time_between_polls_is_warned_of(pipeline: Pipeline) -> None:
    slow = pipeline.start("slow", source={"kafka.max.poll.interval.ms": "6000"})
    pipeline.until_owned_by("slow")
    slow.close_gate("written")
    pipeline.produce(40)
    slow.wait_at("written")
    until(lambda: pipeline.owners() == {}, what="the end of the membership", also=[slow])
    slow.open_gate("written")
    warning = re.compile(
        r"the last batch took ([6-9]|\d\d) s; after 6 s \(kafka\.max\.poll\.interval\.ms\)"
    )
    until(lambda: warning.search(slow.tail()), what="the warning", also=[slow])


def test_a_program_that_ends_with_its_query_leaves_no_event_undelivered() -> None:
    ended = subprocess.run(
        [sys.executable, "-c", SLOW_LISTENER], cwd=ROOT, capture_output=True, text=True, timeout=300
    )
    assert ended.returncode == 0
    assert "Exception" not in ended.stdout + ended.stderr
