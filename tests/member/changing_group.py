"""A group that may have another protocol with each request, for the rules that describe it."""

from collections.abc import Iterable
from typing import Any, TypeVar

from apportion.assign.by_name import Subscription
from apportion.errors import Code, Refused
from apportion.member.assignors.serde import encode_subscription
from apportion.member.cluster_queries.groups import (
    ConsumerGroupDescribeQuery,
    DescribeGroupsQuery,
    ListedGroupQuery,
)
from apportion.member.queries import AskCoordinator, ExistingTopics
from apportion.rules import Rule, run_rule
from apportion.topics import Topics
from apportion.wire.messages import consumer_group_describe, describe_groups
from apportion.wire.messages.list_groups import ListedGroup

T = TypeVar("T")
DescribedGroup = describe_groups.DescribedGroup | consumer_group_describe.DescribedGroup
CLASSIC = describe_groups.DescribedGroup(
    group_id="g",
    group_state="Stable",
    members=tuple(
        describe_groups.DescribedGroupMember(
            member_id=member_id, member_metadata=encode_subscription(Subscription((topic,)))
        )
        for member_id, topic in (("b", "t"), ("a", "t"), ("c", "other"))
    ),
)
CONSUMER = consumer_group_describe.DescribedGroup(
    group_id="g",
    group_state="Stable",
    members=(
        consumer_group_describe.Member(member_id="e", subscribed_topic_names=("t",)),
        consumer_group_describe.Member(member_id="d", subscribed_topic_regex="t.*"),
        consumer_group_describe.Member(member_id="f", subscribed_topic_names=("other",)),
    ),
)


class ChangingGroup:
    """A cluster with at most the group `g`, whose type is the next of `types` with each request.

    types: of each request, None for no group; the last one stays. asked: Kafka's names of the APIs.
    refuses: an error with which ConsumerGroupDescribe always fails. tells_types: the list has them.
    described: the group as it is described, in place of CLASSIC or CONSUMER.
    """

    def __init__(
        self,
        types: Iterable[str | None],
        refuses: Code | None = None,
        tells_types: bool = True,
        described: DescribedGroup | None = None,
    ) -> None:
        self.asked: list[str] = []
        self._types = iter(types)
        self._type: str | None = None
        self._refuses = refuses
        self._tells_types = tells_types
        self._described = described

    def run(self, rule: Rule[T]) -> T:
        """Run a rule to its end, with the answers of this cluster."""
        return run_rule(rule, self._answer)

    def _answer(self, query: Any) -> Any:
        if isinstance(query, ExistingTopics):
            return Topics()
        assert isinstance(query, AskCoordinator)
        assert query.query.group_id == "g"
        self.asked.append(query.query.api)
        self._type = next(self._types, self._type)
        match query.query:
            case DescribeGroupsQuery():
                return (self._described or CLASSIC) if self._type == "classic" else None
            case ConsumerGroupDescribeQuery():
                if self._refuses is not None:
                    raise Refused(self._refuses)
                if self._type != "consumer":
                    raise Refused(Code.GROUP_ID_NOT_FOUND)
                return self._described or CONSUMER
            case ListedGroupQuery():
                return None if self._type is None else listed(self._type, self._tells_types)
        raise AssertionError(query)


def listed(group_type: str, tells_types: bool = True) -> ListedGroup:
    """Return the group `g` in a list, in which Kafka begins the types with a capital letter."""
    return ListedGroup(group_id="g", group_type=group_type.capitalize() if tells_types else "")
