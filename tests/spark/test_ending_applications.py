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
    pipeline.produce(40)  # for another batch, which is not begun
    planned = first.batches("offsets")
    # To every process of the terminal's foreground job, as Ctrl-C is.
    os.killpg(first.process.pid, signal.SIGINT)
    until(lambda: "Ctrl-C: the batch that runs is finished first" in first.tail(), 30)
    first.until_asked_to_stop()
    first.open_gate("written")
    first.wait_for_end(60)
    # The session timeout is 6 s: it left.
    pipeline.until_owned_by("second", seconds=3)
    assert first.batches() == planned
    pipeline.until_written()
    second.process.send_signal(signal.SIGTERM)
    second.wait_for_end(60)
    until(lambda: not pipeline.owners(), 3, "nobody owns")
    assert (pipeline.total_committed(), pipeline.rows()) == (120, pipeline.expected())
