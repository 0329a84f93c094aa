"""Two applications, one group, one table: whatever is lost or late, each record is in the table
once.
"""

import re
import time

from apportion.testing import host
from tests.spark.harness import Stage, until


def test_two_applications_share_a_topic_and_one_is_lost(stage: Stage) -> None:
    first, second = stage.start("first"), stage.start("second")
    stage.until_owned_by("first", "second")
    stage.produce(400)
    stage.until_written()
    second.lose()
    stage.produce(400)
    stage.until_owned_by("first")
    stage.until_written()
    until(lambda: stage.total_committed() == 800, also=[first], what="the group's offsets")
    assert stage.rows() == stage.expected()


def test_killed_after_the_delta_commit_and_before_sparks(stage: Stage) -> None:
    stage.produce(200)
    doomed = stage.start("doomed")
    doomed.close_gate("written")
    doomed.wait_at("written")
    doomed.lose()
    assert (stage.rows(), doomed.batches()) == (stage.expected(), [0])
    again = stage.start("again", checkpoint="doomed")
    stage.produce(200)
    stage.until_written()
    again.stop()
    assert stage.rows() == stage.expected()


def test_killed_after_sparks_commit_and_before_the_groups(stage: Stage) -> None:
    stage.produce(200)
    doomed = stage.start("doomed", planning="gated")
    doomed.close_gate("written")
    doomed.wait_at("written")
    doomed.close_gate("planning")
    doomed.open_gate("written")
    doomed.wait_at("planning")
    assert (stage.rows(), doomed.batches()) == (stage.expected(), [0, 1])
    assert {*stage.committed().values()} == {0}
    doomed.lose()
    heir = stage.start("heir")
    stage.produce(200)
    stage.until_written()
    until(lambda: stage.total_committed() == 400, also=[heir], what="the group's offsets")
    assert stage.rows() == stage.expected()


def test_frozen_past_its_session_of_six_seconds_with_its_fences_read_then_thawed(
    stage: Stage,
) -> None:
    zombie = stage.start("zombie")
    stage.until_owned_by("zombie")
    zombie.close_gate("reading")
    stage.produce(200)
    zombie.wait_at("reading")
    halted = host.suspend(zombie.process.pid)
    heir = stage.start("heir")
    stage.until_owned_by("heir")
    stage.produce(200)
    until(lambda: len(stage.rows()) == 400, what="the heir's rows", also=[heir])
    zombie.open_gate("reading")
    host.resume(halted)
    stage.until_owned_by("zombie", "heir")
    stage.produce(200)
    stage.until_written()
    zombie.refuse_end()
    assert stage.rows() == stage.expected()
    assert stage.orphans() == []


def test_an_old_application_comes_back_with_an_uncommitted_batch(stage: Stage) -> None:
    old = stage.start("old")
    stage.until_owned_by("old")
    stage.produce(100)
    stage.until_written()
    old.close_gate("reading")
    stage.produce(200)
    old.wait_at("reading")
    old.lose()
    old.open_gate("reading")
    stage.start("heir")
    stage.until_written()
    assert len(old.batches("offsets")) == len(old.batches("commits")) + 1
    stage.start("old again", checkpoint="old")
    stage.until_owned_by("heir", "old again")
    stage.produce(200)
    stage.until_written()
    assert stage.rows() == stage.expected()


def test_latest_loses_nothing_when_its_first_owner_dies_before_its_first_commit(
    stage: Stage,
) -> None:
    stage.produce(40)
    skipped = set(stage.produced)
    doomed = stage.start("doomed", starting="latest")
    until(
        lambda: stage.committed() == dict.fromkeys(range(4), 10),
        what="the start positions in the group",
        also=[doomed],
    )
    doomed.close_gate("reading")
    stage.produce(40)
    doomed.wait_at("reading")
    doomed.lose()
    assert stage.committed() == dict.fromkeys(range(4), 10)
    stage.start("heir", starting="latest")
    until(lambda: len(stage.rows()) >= 40, what="the rows after the start", also=stage.applications)
    assert stage.rows() == stage.expected(lambda *partition: partition not in skipped)


def test_a_new_version_with_a_new_checkpoint_takes_over_while_events_flow(stage: Stage) -> None:
    old = stage.start("version-1")
    stage.until_owned_by("version-1")
    stage.produce(200)
    stage.start("version-2")
    stage.until_owned_by("version-1", "version-2")
    stage.produce(200)
    old.stop()
    stage.produce(200)
    stage.until_owned_by("version-2", seconds=10)
    stage.until_written()
    assert stage.rows() == stage.expected()


def test_an_idle_stream_makes_no_empty_batches_in_five_seconds(stage: Stage) -> None:
    idle = stage.start("idle")
    stage.produce(40)
    stage.until_written()
    until(
        lambda: idle.batches() == idle.batches("offsets") != [] and stage.total_committed() == 40,
        also=[idle],
    )
    before = idle.batches("offsets")
    seen_at = time.monotonic()
    until(lambda: time.monotonic() - seen_at > 5, also=[idle])  # ten triggers pass
    assert idle.batches("offsets") == before


def test_a_filter_that_drops_the_last_rows_of_a_batch_does_not_stop_the_next(stage: Stage) -> None:
    stage.start("filtering", where="offset % 10 < 5")
    for _ in range(3):
        stage.produce(40)
        until(
            lambda: stage.total_committed() == len(stage.produced),
            what="the batch",
            also=stage.applications,
        )
    assert stage.rows() == stage.expected(lambda partition, offset: offset % 10 < 5)


def test_a_batch_of_four_of_the_six_seconds_between_polls_is_warned_of(stage: Stage) -> None:
    slow = stage.start("slow", source={"kafka.max.poll.interval.ms": "6000"})
    stage.until_owned_by("slow")
    slow.close_gate("written")
    stage.produce(40)
    slow.wait_at("written")
    entered_at = time.monotonic()
    until(lambda: time.monotonic() - entered_at > 4, also=[slow])
    slow.open_gate("written")
    warning = re.compile(
        r"the last batch took ([4-9]|\d\d) s; after 6 s \(kafka\.max\.poll\.interval\.ms\)"
    )
    until(lambda: warning.search(slow.tail()), what="the warning", also=[slow])
