"""Applications that `run` their query, and are told to end while a batch runs."""

import os
import signal

from tests.spark.harness import Pipeline, until


def test_an_application_that_is_told_to_end_finishes_its_batch_commits_and_leaves(
    pipeline: Pipeline,
) -> None:
    first = pipeline.start("first", ending="run")
    pipeline.produce(40)
    pipeline.until_written()
    second = pipeline.start("second", ending="run")
    pipeline.until_owned_by("first", "second")
    first.close_gate("written")
    pipeline.produce(40)
    first.wait_at("written")
    planned = first.batches("offsets")
    # To every process of the terminal's foreground job, as Ctrl-C is.
    os.killpg(first.process.pid, signal.SIGINT)
    until(lambda: "Ctrl-C: the batch that runs is finished first" in first.tail(), 30)
    first.open_gate("written")
    first.wait_for_end(60)
    # The session timeout is 6 s: it left.
    pipeline.until_owned_by("second", seconds=3)
    assert first.batches() == planned
    pipeline.until_written()
    second.process.send_signal(signal.SIGTERM)
    second.wait_for_end(60)
    until(lambda: not pipeline.owners(), 3, "nobody owns")
    assert (pipeline.total_committed(), pipeline.rows()) == (80, pipeline.expected())


def test_an_application_of_spark_submit_finishes_its_batch_before_java_ends(
    pipeline: Pipeline,
) -> None:
    submitted = pipeline.start("submitted", ending="run", submit=True)
    pipeline.produce(8)
    pipeline.until_written()
    submitted.close_gate("written")
    pipeline.produce(8)
    submitted.wait_at("written")
    planned = submitted.batches("offsets")
    submitted.process.terminate()
    until(lambda: "Java process is told to end" in submitted.tail(), 30)
    submitted.open_gate("written")
    # The Java process is the first one here, and ends by the signal.
    assert submitted.process.wait(60) == 128 + signal.SIGTERM
    until(lambda: not pipeline.owners(), 3, "nobody owns")
    assert submitted.batches() == planned
    assert (pipeline.total_committed(), pipeline.rows()) == (16, pipeline.expected())


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
