"""A consumer has an answer to each query of its rule, and no other."""

from apportion.client.consumer import Consumer
from apportion.client.member_answers import ANSWERS
from apportion.client.streams import StreamsConsumer
from tests.member.asked import RECORDS, STREAMS_RECORDS, asked_by


def test_a_consumer_answers_exactly_the_queries_of_its_rule() -> None:
    assert {*Consumer._answers} == asked_by(*RECORDS)


def test_a_streams_consumer_answers_exactly_the_queries_of_its_rule() -> None:
    assert {*StreamsConsumer._answers} == asked_by(*STREAMS_RECORDS)


def test_no_answer_of_a_consumer_stands_in_for_a_shared_one() -> None:
    assert ANSWERS.items() <= Consumer._answers.items() <= StreamsConsumer._answers.items()
