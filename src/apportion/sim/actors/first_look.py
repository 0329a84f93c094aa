"""The first look of a simulated query, by the rule that Spark's `load()` runs.

`member.batch.first_look` decides. Here its queries are answered through the simulated broker. There
is no answer that lets the member join or commits an offset: a look changes nothing.
"""

from collections.abc import Callable
from typing import Any

from apportion.machine import Note
from apportion.member.batch.first_look import FirstLook, look_at_cluster
from apportion.member.batch.topic_choice import TopicChoice
from apportion.member.fetches import fetch_records
from apportion.member.queries import ExistingTopics, FetchCommitted, ListOffsets
from apportion.member.records.queries import FetchRecords
from apportion.member.time_limits import Pause, ReadClock
from apportion.rules import rule_script
from apportion.sim.actors import member_answers
from apportion.sim.actors.requests import answer_request
from apportion.sim.kernel.client import REQUEST_TIMEOUT_MS
from apportion.sim.kernel.clock import Script


def take_first_look(query: Any, servers: str) -> Script:
    """Run the rule for a query's group and topics, before its member joins.

    query: the application, with its `metadata`. servers: as the rule's errors name the brokers.
    Raises MembershipFailed as the rule does.
    """
    look = FirstLook(query.group, servers, TopicChoice(query.topics))
    return rule_script(look_at_cluster(look), lambda asked: ANSWERS[type(asked)](query, asked))


def _fetch_at_ends(query: Any, asked: FetchRecords) -> Script:
    rule = fetch_records(
        query.metadata,
        asked.positions,
        max_wait_ms=asked.max_wait_ms,
        timeout_ms=REQUEST_TIMEOUT_MS,
    )
    return rule_script(rule, lambda each: answer_request(query, each))


ANSWERS: dict[type, Callable[[Any, Any], Script]] = {
    **{
        kind: member_answers.ANSWERS[kind]
        for kind in (Note, ExistingTopics, ListOffsets, FetchCommitted)
    },
    ReadClock: answer_request,
    Pause: answer_request,
    FetchRecords: _fetch_at_ends,
}
"""How the simulation answers each query of the look."""
