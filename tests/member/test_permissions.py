"""The sentences for clients without a permission: which one, of what, and what gives it. Those
that queries read are in `scripts/queries/permissions.txt`.
"""

import pytest

from apportion.errors import Code
from apportion.member.permissions import NEEDED, RESOURCES, denial_or_none, grant_on
from apportion.node.authorization.rights import CODES
from apportion.node.authorization.table import CHECKS

TOPIC = Code.TOPIC_AUTHORIZATION_FAILED
GROUP = Code.GROUP_AUTHORIZATION_FAILED
CLUSTER = Code.CLUSTER_AUTHORIZATION_FAILED
ADD = "by `apportion acls add --allow-principal User:NAME --operation"
NO_DESCRIBE_OF_GROUP = (
    "this client's principal has no permission for DESCRIBE on the group 'g'; "
    "a user who may alter the cluster gives "
    f"READ, which includes it, {ADD} Read --group g`"
)


def test_each_permission_is_the_one_that_a_broker_checks() -> None:
    checks = {request.__name__.removesuffix("Request"): check for request, check in CHECKS.items()}
    resources = {code: resource for resource, code in CODES.items()}
    for api, needed in NEEDED.items():
        asked = {(need.operation, need.resource) for need in checks[api].needs}
        assert asked.issuperset((operation, resources[code]) for code, operation in needed.items())


def test_words_of_a_broker_that_name_nobody_are_replaced() -> None:
    own = denial_or_none("FindCoordinator", GROUP, ("g",))
    assert own == NO_DESCRIBE_OF_GROUP
    for said in ("Group authorization failed.", "Not authorized: no.", ""):
        assert denial_or_none("FindCoordinator", GROUP, ("g",), said) == own


def test_a_principal_that_the_broker_names_is_whom_the_command_names() -> None:
    said = "User:CN=bob, O=a b has no permission for READ on group g."
    assert denial_or_none("JoinGroup", GROUP, ("g",), said) == (
        "User:CN=bob, O=a b has no permission for READ on group g; a user who may alter the "
        "cluster gives it by `apportion acls add --allow-principal 'User:CN=bob, O=a b' "
        "--operation Read --group g`"
    )


def test_of_many_topics_a_few_are_named() -> None:
    why = denial_or_none("Fetch", TOPIC, [f"t{number}" for number in range(9)])
    assert why == (
        "this client's principal has no permission for READ on the topics 't0', 't1', 't2', 't3', "
        "'t4' and 4 more; "
        f"a user who may alter the cluster gives it {ADD} Read --topic t0 --topic t1 --topic t2 "
        "--topic t3 --topic t4`"
    )


def test_another_error_is_no_matter_of_permissions() -> None:
    assert denial_or_none("Fetch", Code.CORRUPT_MESSAGE, ("t",)) is None
    assert denial_or_none("Fetch", GROUP, ("g",)) is None
    assert denial_or_none("ApiVersions", TOPIC, ("t",)) is None
    assert set(RESOURCES) == {TOPIC, GROUP, CLUSTER}


@pytest.mark.parametrize("code", RESOURCES)
def test_only_the_command_at_the_end_of_a_sentence_names_the_cluster(code: Code) -> None:
    broker = "--bootstrap h:9092"
    told = denial_or_none("DescribeConfigs", code, ["n"])
    assert told is not None
    assert grant_on(told, broker) == f"{told.removesuffix('`')} {broker}`"
    assert grant_on(code.sentence, broker) == code.sentence
