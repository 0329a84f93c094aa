"""A Spark query's member has an answer to each query of the batch planner, and no other."""

from apportion.client.member_answers import ANSWERS
from apportion.member.batch import topic_choice
from apportion.spark.membership.batch_member import BatchMember
from tests.member.asked import BATCHES, asked_by


def test_a_batch_member_answers_exactly_the_queries_of_its_rule() -> None:
    # The simulated worker subscribes by names alone, so the choice of topics is no part of BATCHES.
    assert {*BatchMember._answers} == asked_by(*BATCHES, topic_choice)


def test_no_answer_of_a_batch_member_stands_in_for_a_shared_one() -> None:
    assert ANSWERS.items() <= BatchMember._answers.items()
