"""The rule by which a member asks the cluster for its leader's task assignor."""

from typing import Any

import pytest

from apportion.errors import Code, Refused, Unanswerable
from apportion.member.leader_queries import CreateTopics, DescribeTopics, answer_query
from apportion.member.membership import (
    MetadataFetched,
    QueryCluster,
    TopicDescription,
    Unanswered,
)
from apportion.member.queries import ExistingTopics
from apportion.rules import run_rule
from apportion.streams.queries import CreateInternalTopics
from apportion.streams.topology import InternalTopic
from apportion.topics import Topic, Topics

NAMES = ("repartition", "changelog")


def described(*names: str) -> tuple[TopicDescription, ...]:
    return tuple(
        TopicDescription(name, bytes([number] * 16), 1) for number, name in enumerate(names, 1)
    )


def created(shown: tuple[str, ...]) -> tuple[Any, list[str]]:
    """The answer to a leader that wants the topics of NAMES, of which one exists and `shown` show
    up; with it the names of those that were created.
    """
    named: list[str] = []

    def answer(query: Any) -> Any:
        match query:
            case ExistingTopics():
                return Topics([Topic("changelog", b"c" * 16, 1)])
            case CreateTopics(topics):
                named.extend(topic.name for topic in topics)
                return None
            case DescribeTopics(names):
                assert names == NAMES
                return described(*shown)
        raise AssertionError(query)

    wanted = CreateInternalTopics(tuple(InternalTopic(name, 1) for name in NAMES))
    return run_rule(answer_query(QueryCluster(5, wanted)), answer), named


def test_a_leader_hears_of_its_internal_topics_once_all_of_them_show_up() -> None:
    assert created(NAMES) == (MetadataFetched(5, described(*NAMES)), ["repartition"])
    missing, _ = created(NAMES[:1])
    why = "internal topics do not show up yet"
    assert missing == Unanswered(5, why, Code.UNKNOWN_TOPIC_OR_PARTITION)


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (Refused(Code.TOPIC_AUTHORIZATION_FAILED, "no"), Code.TOPIC_AUTHORIZATION_FAILED),
        (Unanswerable("no"), Code.NONE),
    ],
)
def test_a_leader_hears_why_the_cluster_has_no_answer_and_with_which_code(
    error: Exception, code: Code
) -> None:
    def refuse(_: Any) -> Any:
        raise error

    action = QueryCluster(5, CreateInternalTopics((InternalTopic(NAMES[0], 1),)))
    assert run_rule(answer_query(action), refuse) == Unanswered(5, "no", code)
