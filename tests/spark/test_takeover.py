"""Two applications, one group, one table: one is lost, and each record is in the table once.

tests/spark/test_takeover_stories.py has the other moments at which an application is lost, or late.
"""

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
