"""Each driver of Spark's rules has an answer to each query of its rule, and no other."""

from apportion.client import cluster_answers
from apportion.client.member_answers import ANSWERS
from apportion.member.batch import bounded_read, first_look, offset_times, plan, topic_choice
from apportion.spark.membership import first_look as first_look_driver
from apportion.spark.membership.batch_member import BatchMember
from apportion.spark.reading import batch_reader
from tests.member.asked import BATCHES, asked_by


def test_a_batch_member_answers_exactly_the_queries_of_its_rule() -> None:
    # The simulated worker subscribes by names alone, so the choice of topics is no part of BATCHES.
    assert {*BatchMember._answers} == asked_by(*BATCHES, topic_choice)


def test_no_answer_of_a_batch_member_stands_in_for_a_shared_one() -> None:
    assert ANSWERS.items() <= BatchMember._answers.items()


def test_the_driver_of_a_first_look_answers_exactly_the_queries_of_its_rule() -> None:
    assert {*first_look_driver.ANSWERS} == asked_by(first_look, topic_choice)


def test_a_batch_reader_answers_exactly_the_queries_of_its_rule() -> None:
    asked = asked_by(bounded_read, offset_times, plan, topic_choice)
    assert {*batch_reader.ANSWERS} == asked


def test_no_answer_of_a_rule_without_a_member_stands_in_for_a_shared_one() -> None:
    for answers in (first_look_driver.ANSWERS, batch_reader.ANSWERS):
        assert cluster_answers.ANSWERS.items() <= answers.items()
