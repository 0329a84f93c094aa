"""A query whose member is refused for its topics; `test_record_consumer.py` has polls."""

import pytest

from apportion.errors import Code, Refused
from apportion.member.batch.queries import StartMembership
from apportion.member.membership import Failed
from apportion.member.queries import ExistingTopics, FetchCommitted, ReadMembership
from tests.member.planner_host import ALL, BEGUN, PlannerHost, make_planner

ENTRY = (ExistingTopics(("t",)), FetchCommitted(ALL, 0), StartMembership())


def test_a_query_whose_topics_are_refused_says_which() -> None:
    host = PlannerHost()
    denied = Failed(Code.TOPIC_AUTHORIZATION_FAILED, "one of its topics")
    host.sees(refusal=denied, epoch=0, target=None)
    named = Refused(denied.code, "the topic 't'")
    host.obstacles = {len(ENTRY) + 1: named}
    for why in (named.why, denied.why):
        with pytest.raises(Refused, match=f"^TOPIC_AUTHORIZATION_FAILED: {why}$"):
            host.attempt(make_planner().plan_next(BEGUN))
    assert host.asked == [*ENTRY, ReadMembership(), ExistingTopics(("t",))]
