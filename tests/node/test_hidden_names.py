"""No answer tells a caller of topics and groups that are hidden from it: not their names, and not
whether they exist.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from apportion.security.acls import AclBinding, AclOperation, ResourceType
from apportion.wire.fields import replaced
from tests.messages import request
from tests.node.guarded import CLUSTER, GROUP, TOPIC, as_bob, guarded, may
from tests.node.guarded_requests import CASES, begin, committed, joined

if TYPE_CHECKING:
    from tests.node.conftest import Kit, NodeDriver

AclsOfBob = list[AclBinding]
ON_TOPICS = (
    *(AclOperation.READ, AclOperation.WRITE, AclOperation.CREATE, AclOperation.DELETE),
    *(AclOperation.ALTER, AclOperation.DESCRIBE, AclOperation.DESCRIBE_CONFIGS),
    AclOperation.ALTER_CONFIGS,
)
ON_GROUPS = (AclOperation.READ, AclOperation.DELETE, AclOperation.DESCRIBE)
TELLING = (
    *(AclOperation.READ, AclOperation.WRITE, AclOperation.DELETE, AclOperation.ALTER),
    AclOperation.DESCRIBE,
)
"""What lets a caller describe a resource."""
NAMES = {TOPIC: ("t", "topic-a", "topic-b"), GROUP: ("g", "group-a", "group-b")}
SHOWN_AS_IN_KAFKA = ("subscribed_topic_names", "member_metadata", "member_assignment")
"""Fields in which Kafka, too, names topics to whoever may describe the group (docs/security.md)."""

ALL_OFFSETS = request(
    "OffsetFetch", groups=[{"group_id": each, "topics": None} for each in NAMES[GROUP]]
)
WHOLE = [
    request("Metadata", topics=None),
    request("ListGroups"),
    ALL_OFFSETS,
    request("ConsumerGroupDescribe", group_ids=NAMES[GROUP], include_authorized_operations=True),
    request("DescribeGroups", groups=NAMES[GROUP], include_authorized_operations=True),
]
"""Requests that name no topic, or no group, and may be answered with all of them."""


def texts(value: Any) -> Iterator[str | bytes]:
    """Every text and every id in a message, but those that Kafka shows as well."""
    if isinstance(value, (str, bytes)):
        yield value
    elif isinstance(value, tuple):
        for each in value:
            yield from texts(each)
    elif hasattr(value, "__fields__"):
        for field in value.__fields__:
            if field.name not in (*SHOWN_AS_IN_KAFKA, "error_message"):
                yield from texts(getattr(value, field.name))


def full(kit: "type[Kit]", acls: AclsOfBob) -> "NodeDriver":
    """A node with topics and groups of both kinds, offsets and members."""
    driver = guarded(kit, *acls)
    begin(driver)
    for name in NAMES[TOPIC][1:]:
        driver.create(name)
    driver.call(joined(group_id="group-a", subscribed_topic_names=("topic-a", "t")))
    driver.call(committed(*NAMES[TOPIC], group="group-b"), 9)
    return driver


def hidden(acls: AclsOfBob, resource: ResourceType) -> set[str]:
    """The names of a type that none of the ACLs lets bob describe."""
    known = {acl.name for acl in acls if acl.resource_type == resource and acl.operation in TELLING}
    return set(NAMES[resource]) - known


acls_of_bob = st.lists(
    st.one_of(
        st.builds(may, st.sampled_from(ON_TOPICS), st.just(TOPIC), st.sampled_from(NAMES[TOPIC])),
        st.builds(may, st.sampled_from(ON_GROUPS), st.just(GROUP), st.sampled_from(NAMES[GROUP])),
    ),
    max_size=8,
    unique=True,
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(acls=acls_of_bob)
def test_no_answer_names_what_its_caller_may_not_describe(
    kit: "type[Kit]", acls: AclsOfBob
) -> None:
    driver = full(kit, acls)
    topics = hidden(acls, TOPIC)
    secrets: set[str | bytes] = {*topics, *hidden(acls, GROUP)}
    secrets |= {topic.id for topic in driver.node.topics if topic.name in topics}
    asked: list[tuple[Any, int | None]] = [(each, None) for each in WHOLE]
    asked += [(case.request, case.version) for case in CASES if is_read_only(case.name)]
    for wanted, version in asked:
        answer = as_bob(driver, wanted, version)
        unsaid = secrets - set(texts(wanted))
        assert unsaid & set(texts(answer)) == set(), wanted


def is_read_only(name: str) -> bool:
    """Whether a case leaves topics and groups as they are."""
    return name.startswith(("Describe", "Metadata", "Fetch", "List", "Offset", "Find", "Consumer"))


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_no_answer_tells_whether_a_hidden_topic_or_group_exists(
    kit: "type[Kit]", case: Any
) -> None:
    # What the case needs on the cluster is allowed.
    acls = [acl for acl, _ in case.needs if acl.resource_type == CLUSTER]
    there, nowhere = guarded(kit, *acls), guarded(kit, *acls)
    begin(there)
    nowhere.call(ALL_OFFSETS)  # by which groups have a coordinator
    answers = [as_bob(driver, case.request, case.version) for driver in (there, nowhere)]
    if case.name.startswith("ListConfigResources"):
        # Whoever may describe settings of the cluster is told of all that has some, as in Kafka.
        answers = [replaced(answer, config_resources=()) for answer in answers]
    assert answers[0] == answers[1]
