"""The sentences for clients without a permission: which one, of what, and what gives it."""

import pytest

from apportion.errors import Code
from apportion.member.cluster_queries.configs import AlterConfigsQuery
from apportion.member.cluster_queries.group_changes import DeleteGroupQuery
from apportion.member.cluster_queries.groups import FindCoordinatorQuery
from apportion.member.cluster_queries.offsets import OffsetCommitQuery, OffsetFetchQuery
from apportion.member.cluster_queries.topic_changes import CreateTopicsQuery, NewTopic
from apportion.member.cluster_queries.topics import ListOffsetsQuery, MetadataQuery
from apportion.member.permissions import NEEDED, RESOURCES, denial_or_none, grant_on
from apportion.node.authorization.rights import CODES
from apportion.node.authorization.table import CHECKS
from apportion.topics import TopicIdPartition
from apportion.wire.messages.describe_configs import BROKER
from tests.member.refusal import refusal
from tests.messages import response

TOPIC = Code.TOPIC_AUTHORIZATION_FAILED
GROUP = Code.GROUP_AUTHORIZATION_FAILED
CLUSTER = Code.CLUSTER_AUTHORIZATION_FAILED
PARTITION = TopicIdPartition("a", b"A" * 16, 0)
ADD = "by `apportion acls add --allow-principal User:NAME --operation"
NO_READ_OF_GROUP = (
    "this client's principal has no permission for READ on the group 'g'; "
    "whoever may alter the cluster gives it "
    f"{ADD} Read --group g`"
)
NO_DESCRIBE_OF_GROUP = (
    "this client's principal has no permission for DESCRIBE on the group 'g'; "
    "whoever may alter the cluster gives "
    f"READ, which includes it, {ADD} Read --group g`"
)


def test_each_permission_is_the_one_that_a_broker_checks() -> None:
    checks = {request.__name__.removesuffix("Request"): check for request, check in CHECKS.items()}
    resources = {code: resource for resource, code in CODES.items()}
    for api, needed in NEEDED.items():
        asked = {(need.operation, need.resource) for need in checks[api].needs}
        assert asked.issuperset((operation, resources[code]) for code, operation in needed.items())


def test_metadata_names_all_topics_that_are_refused_alike() -> None:
    topics = [
        {"error_code": TOPIC, "name": "a"},
        {"error_code": Code.INVALID_TOPIC_EXCEPTION, "name": "b"},
        {"error_code": TOPIC, "name": "it's"},
    ]
    query = MetadataQuery(("a", "b", "it's"))
    refused = query.parse(response("Metadata", topics=topics)).refused
    assert refused is not None
    assert (refused.code, refused.why) == (
        TOPIC,
        "this client's principal has no permission for DESCRIBE on the topics 'a', \"it's\"; "
        "whoever may alter the cluster gives "
        f"READ, which includes it, {ADD} Read --topic a --topic 'it'\"'\"'s'`",
    )


def test_a_topic_that_is_refused_by_its_id_alone_has_no_name_to_show() -> None:
    topic = {"error_code": TOPIC, "name": None, "topic_id": b"\0" * 15 + b"\1"}
    query = MetadataQuery((b"\0" * 15 + b"\1",))
    refused = query.parse(response("Metadata", topics=[topic])).refused
    assert refused is not None
    assert refused.why == f"the topic of id AAAAAAAAAAAAAAAAAAAAAQ: {TOPIC.sentence}"


def test_the_group_is_named_with_what_it_takes_to_use_it() -> None:
    found = response("FindCoordinator", coordinators=[{"key": "g", "error_code": GROUP}])
    assert refusal(FindCoordinatorQuery("g"), found) == (GROUP, NO_DESCRIBE_OF_GROUP)
    group = {"group_id": "g", "error_code": GROUP}
    fetched = response("OffsetFetch", groups=[group])
    assert refusal(OffsetFetchQuery("g", (PARTITION,)), fetched) == (GROUP, NO_DESCRIBE_OF_GROUP)
    deleted = response("DeleteGroups", results=[group])
    assert refusal(DeleteGroupQuery("g"), deleted) == (
        GROUP,
        "this client's principal has no permission for DELETE on the group 'g'; "
        f"whoever may alter the cluster gives it {ADD} Delete --group g`",
    )


@pytest.mark.parametrize(
    ("code", "why"),
    [
        (GROUP, NO_READ_OF_GROUP),
        (
            TOPIC,
            "this client's principal has no permission for READ on the topic 'a'; "
            f"whoever may alter the cluster gives it {ADD} Read --topic a`",
        ),
        (Code.INVALID_COMMIT_OFFSET_SIZE, Code.INVALID_COMMIT_OFFSET_SIZE.sentence),
    ],
)
def test_a_commit_names_the_group_or_the_topic_by_its_error(code: Code, why: str) -> None:
    topic = {"name": "a", "partitions": [{"partition_index": 0, "error_code": code}]}
    answer = response("OffsetCommit", topics=[topic])
    refused = refusal(OffsetCommitQuery("g", {PARTITION: 1}), answer)
    is_denied = code in (GROUP, TOPIC)
    assert refused == (code, why if is_denied else f"OffsetCommit of group 'g': {why}")


def test_the_brokers_own_words_stay_since_they_may_name_the_principal() -> None:
    said = "User:bob has no permission for CREATE on topic flights."
    topic = {"name": "flights", "error_code": TOPIC, "error_message": said}
    created = response("CreateTopics", topics=[topic])
    query = CreateTopicsQuery((NewTopic("flights", 1),), 1_000)
    assert refusal(query, created) == (
        TOPIC,
        "User:bob has no permission for CREATE on topic flights; "
        "whoever may alter the cluster gives it "
        f"{ADD} Create --topic flights`",
    )


def test_words_of_a_broker_that_name_nobody_are_replaced() -> None:
    own = denial_or_none("FindCoordinator", GROUP, ("g",))
    assert own == NO_DESCRIBE_OF_GROUP
    for said in ("Group authorization failed.", "Not authorized: no.", ""):
        assert denial_or_none("FindCoordinator", GROUP, ("g",), said) == own


def test_the_cluster_needs_no_name() -> None:
    resource = {"error_code": CLUSTER, "resource_name": "1"}
    altered = response("IncrementalAlterConfigs", responses=[resource])
    assert refusal(AlterConfigsQuery(BROKER, "1", {"a": "b"}), altered) == (
        CLUSTER,
        "this client's principal has no permission for ALTER_CONFIGS on the cluster; "
        f"whoever may alter the cluster gives it {ADD} AlterConfigs --cluster`",
    )


def test_an_answer_for_one_partition_names_its_topic() -> None:
    topic = {"name": "a", "partitions": [{"partition_index": 0, "error_code": TOPIC}]}
    query = ListOffsetsQuery(-1, {PARTITION: 0})
    assert refusal(query, response("ListOffsets", topics=[topic])) == (
        TOPIC,
        "ListOffsets of a-0: this client's principal has no permission for DESCRIBE on the topic "
        f"'a'; whoever may alter the cluster gives READ, which includes it, {ADD} Read --topic a`",
    )


def test_of_many_topics_a_few_are_named() -> None:
    why = denial_or_none("Fetch", TOPIC, [f"t{number}" for number in range(9)])
    assert why == (
        "this client's principal has no permission for READ on the topics 't0', 't1', 't2', 't3', "
        "'t4' and 4 more; "
        f"whoever may alter the cluster gives it {ADD} Read --topic t0 --topic t1 --topic t2 "
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
