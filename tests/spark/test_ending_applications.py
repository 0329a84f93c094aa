"""Queries that are stopped in order, in applications that are told to end by a signal."""

import os
import signal
import time

from tests.spark.harness import Pipeline, until

LONG = "1 hour"


def test_a_query_that_is_told_to_end_finishes_commits_and_leaves(pipeline: Pipeline) -> None:
    first = pipeline.start("first", ending="run")
    pipeline.produce(40)
    pipeline.until_written()
    second = pipeline.start("second", ending="run")
    pipeline.until_owned_by("first", "second")
    first.close_gate("written")
    pipeline.produce(40)
    first.wait_at("written")
    planned = first.batches("offsets")
    os.killpg(first.process.pid, signal.SIGINT)
    time.sleep(1)
    assert first.process.poll() is None
    first.open_gate("written")
    began = time.monotonic()
    first.wait_for_end(60)
    ended = time.monotonic()
    pipeline.until_owned_by("second", seconds=3)
    print("ended after", ended - began, "owned after", time.monotonic() - began)
    assert first.batches("commits") == planned
    pipeline.until_written()
    assert pipeline.rows() == pipeline.expected()
    second.process.send_signal(signal.SIGTERM)
    second.wait_for_end(60)
    print(second.tail())
    print(first.tail())
    until(lambda: not pipeline.owners(), 3, "nobody owns")
    assert pipeline.total_committed() == 80
