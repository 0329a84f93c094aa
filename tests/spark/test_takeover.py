"""Two applications, one group, one table: whatever is lost or late, each record is in the table
once.
"""

import re

from demo import host
from tests.spark.harness import Pipeline, until


def test_two_applications_share_a_topic_and_one_is_lost(pipeline: Pipeline) -> None:
    first, second = pipeline.start("first"), pipeline.start("second")
    pipeline.until_owned_by("first", "second")
    pipeline.produce(400)
    pipeline.until_written()
    second.lose()
    pipeline.produce(400)
    pipeline.until_owned_by("first")
    pipeline.until_written()
    until(lambda: pipeline.total_committed() == 800, also=[first], what="the group's offsets")
    assert pipeline.rows() == pipeline.expected()


def test_killed_after_the_delta_commit_and_before_sparks(pipeline: Pipeline) -> None:
    pipeline.produce(200)
    doomed = pipeline.start("doomed")
    doomed.close_gate("written")
    doomed.wait_at("written")
    doomed.lose()
    assert (pipeline.rows(), doomed.batches()) == (pipeline.expected(), [0])
    again = pipeline.start("again", checkpoint="doomed")
    pipeline.produce(200)
    pipeline.until_written()
    again.stop()
    assert pipeline.rows() == pipeline.expected()


def test_killed_after_sparks_commit_and_before_the_groups(pipeline: Pipeline) -> None:
    pipeline.produce(200)
    doomed = pipeline.start("doomed", planning="gated")
    doomed.close_gate("written")
    doomed.wait_at("written")
    doomed.close_gate("planning")
    doomed.open_gate("written")
    doomed.wait_at("planning")
    assert (pipeline.rows(), doomed.batches()) == (pipeline.expected(), [0, 1])
    assert {*pipeline.committed().values()} == {0}
    doomed.lose()
    heir = pipeline.start("heir")
    pipeline.produce(200)
    pipeline.until_written()
    until(lambda: pipeline.total_committed() == 400, also=[heir], what="the group's offsets")
    assert pipeline.rows() == pipeline.expected()


def test_frozen_past_its_session_of_six_seconds_with_its_fences_read_then_thawed(
    pipeline: Pipeline,
) -> None:
    zombie = pipeline.start("zombie")
    pipeline.until_owned_by("zombie")
    zombie.close_gate("reading")
    pipeline.produce(200)
    zombie.wait_at("reading")
    halted = host.suspend(zombie.process.pid)
    heir = pipeline.start("heir")
    pipeline.until_owned_by("heir")
    pipeline.produce(200)
    until(lambda: len(pipeline.rows()) == 400, what="the heir's rows", also=[heir])
    zombie.open_gate("reading")
    host.resume(halted)
    pipeline.until_owned_by("zombie", "heir")
    pipeline.produce(200)
    pipeline.until_written()
    zombie.refuse_end()
    assert pipeline.rows() == pipeline.expected()
    assert pipeline.orphans() == []


def test_an_old_application_comes_back_with_an_uncommitted_batch(pipeline: Pipeline) -> None:
    old = pipeline.start("old")
    pipeline.until_owned_by("old")
    pipeline.produce(100)
    pipeline.until_written()
    old.close_gate("reading")
    pipeline.produce(200)
    old.wait_at("reading")
    old.lose()
    old.open_gate("reading")
    pipeline.start("heir")
    pipeline.until_written()
    assert len(old.batches("offsets")) == len(old.batches("commits")) + 1
    pipeline.start("old again", checkpoint="old")
    pipeline.until_owned_by("heir", "old again")
    pipeline.produce(200)
    pipeline.until_written()
    assert pipeline.rows() == pipeline.expected()


def test_latest_loses_nothing_when_its_first_owner_dies_before_its_first_commit(
    pipeline: Pipeline,
) -> None:
    pipeline.produce(40)
    skipped = set(pipeline.produced)
    doomed = pipeline.start("doomed", starting="latest")
    until(
        lambda: pipeline.committed() == dict.fromkeys(range(4), 10),
        what="the start positions in the group",
        also=[doomed],
    )
    doomed.close_gate("reading")
    pipeline.produce(40)
    doomed.wait_at("reading")
    doomed.lose()
    assert pipeline.committed() == dict.fromkeys(range(4), 10)
    pipeline.start("heir", starting="latest")
    until(
        lambda: len(pipeline.rows()) >= 40,
        what="the rows after the start",
        also=pipeline.applications,
    )
    assert pipeline.rows() == pipeline.expected(lambda *partition: partition not in skipped)


def test_a_new_version_with_a_new_checkpoint_takes_over_while_events_flow(
    pipeline: Pipeline,
) -> None:
    old = pipeline.start("version-1")
    pipeline.until_owned_by("version-1")
    pipeline.produce(200)
    pipeline.start("version-2")
    pipeline.until_owned_by("version-1", "version-2")
    pipeline.produce(200)
    old.stop()
    pipeline.produce(200)
    pipeline.until_owned_by("version-2", seconds=10)
    pipeline.until_written()
    assert pipeline.rows() == pipeline.expected()


def test_an_idle_stream_makes_no_empty_batches_in_ten_triggers(pipeline: Pipeline) -> None:
    idle = pipeline.start("idle", planning="gated")
    pipeline.produce(40)
    pipeline.until_written()
    until(
        lambda: (
            idle.batches() == idle.batches("offsets") != [] and pipeline.total_committed() == 40
        ),
        also=[idle],
    )
    before = idle.batches("offsets")
    idle.until_triggered(10)
    assert idle.batches("offsets") == before


def test_a_filter_that_drops_the_last_rows_of_a_batch_does_not_stop_the_next(
    pipeline: Pipeline,
) -> None:
    pipeline.start("filtering", where="offset % 10 < 5")
    for _ in range(3):
        pipeline.produce(40)
        until(
            lambda: pipeline.total_committed() == len(pipeline.produced),
            what="the batch",
            also=pipeline.applications,
        )
    assert pipeline.rows() == pipeline.expected(lambda partition, offset: offset % 10 < 5)


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
