"""Each simulated application has an answer to each query of its rule, and no other."""

from apportion.member.batch import first_look, topic_choice
from apportion.member.queries import MatchingTopics
from apportion.sim.actors import first_look as simulated_look
from apportion.sim.actors import worker
from apportion.sim.actors.reader import Reader
from apportion.sim.streams.process import StreamsProcess
from apportion.sim.streams.thread import StreamThread
from tests.member.asked import BATCHES, RECORDS, STREAMS_RECORDS, asked_by

AT_THE_END = {MatchingTopics}
"""What only consumers ask that read from the end, which the simulator does not play."""


def test_a_simulated_reader_answers_exactly_the_queries_of_its_rule() -> None:
    assert {*Reader.answers} == asked_by(*RECORDS) - AT_THE_END


def test_a_simulated_worker_answers_exactly_the_queries_of_its_rule() -> None:
    assert {*worker.ANSWERS} == asked_by(*BATCHES)


def test_a_simulated_look_answers_exactly_the_queries_of_its_rule_without_a_pattern() -> None:
    asked = asked_by(first_look, topic_choice)
    assert {*simulated_look.ANSWERS} == asked - {MatchingTopics}


def test_a_simulated_stream_thread_answers_exactly_the_queries_of_its_rule() -> None:
    assert {*StreamThread.answers} == asked_by(*STREAMS_RECORDS) - AT_THE_END


def test_a_simulated_streams_process_answers_exactly_the_queries_of_its_rule() -> None:
    assert {*StreamsProcess.answers} == asked_by(*STREAMS_RECORDS) - AT_THE_END
