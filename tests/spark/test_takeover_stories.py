"""Takeovers that take longer: whatever is lost or late, each record is in the table once."""

from demo import host
from tests.spark.harness import Pipeline, until


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
