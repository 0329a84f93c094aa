"""Topics come, grow and go; versions, features and coordinators are as Kafka says them."""

from typing import Any

import pytest

from apportion.errors import Code
from apportion.store.disk import Damaged, DiskError
from apportion.store.memory_disk import MemoryDisk
from apportion.wire.messages.api_versions import ApiVersionsRequest
from apportion.wire.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from apportion.wire.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreatableTopicResult,
    CreateTopicsRequest,
)
from apportion.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from apportion.wire.messages.describe_cluster import DescribeClusterRequest
from apportion.wire.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from apportion.wire.messages.find_coordinator import FindCoordinatorRequest
from apportion.wire.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponseTopic,
)
from apportion.wire.table import SERVED_APIS
from tests.node import kit
from tests.node.kit import NodeDriver


def described(
    driver: NodeDriver, name: str, version: int = 13, may_create: bool = False
) -> MetadataResponseTopic:
    request = MetadataRequest(
        topics=(MetadataRequestTopic(name=name),), allow_auto_topic_creation=may_create
    )
    result: MetadataResponseTopic = driver.call(request, version).topics[0]
    return result


def created(
    driver: NodeDriver,
    name: str,
    count: int = 1,
    factor: int = 1,
    configs: tuple[CreatableTopicConfig, ...] = (),
    assignments: tuple[CreatableReplicaAssignment, ...] = (),
    validate_only: bool = False,
) -> CreatableTopicResult:
    topic = CreatableTopic(
        name=name,
        num_partitions=count,
        replication_factor=factor,
        configs=configs,
        assignments=assignments,
    )
    result: CreatableTopicResult = driver.call(
        CreateTopicsRequest(topics=(topic,), validate_only=validate_only)
    ).topics[0]
    return result


def test_a_topic_is_not_said_to_exist_before_that_is_on_the_disk(driver: NodeDriver) -> None:
    topic = CreatableTopic(name="t", num_partitions=1, replication_factor=1)
    asked = driver.ask(CreateTopicsRequest(topics=(topic,)))
    read = driver.ask(MetadataRequest(topics=None))
    assert not {asked, read} & set(driver.answers)
    driver.flush()
    assert {asked, read} <= set(driver.answers)


def test_topics_are_there_after_a_crash_with_their_ids(driver: NodeDriver) -> None:
    topic_id = driver.create("t", 3)
    described_topic = described(driver.crash(), "t")
    assert (
        described_topic.topic_id,
        len(described_topic.partitions),
        described_topic.error_code,
    ) == (topic_id, 3, Code.NONE)


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"name": "t"}, Code.TOPIC_ALREADY_EXISTS),
        ({"name": "a b"}, Code.INVALID_TOPIC_EXCEPTION),
        ({"name": ""}, Code.INVALID_TOPIC_EXCEPTION),
        ({"name": ".."}, Code.INVALID_TOPIC_EXCEPTION),
        ({"name": "x" * 250}, Code.INVALID_TOPIC_EXCEPTION),
        ({"name": "t_1.x"}, Code.INVALID_TOPIC_EXCEPTION),
        ({"name": "n", "count": 0}, Code.INVALID_PARTITIONS),
        ({"name": "n", "count": -2}, Code.INVALID_PARTITIONS),
        ({"name": "n", "count": 2**31 - 1}, Code.POLICY_VIOLATION),
        ({"name": "n", "factor": 2}, Code.INVALID_REPLICATION_FACTOR),
        (
            {"name": "n", "configs": (CreatableTopicConfig(name="no.such", value="1"),)},
            Code.INVALID_CONFIG,
        ),
        (
            {
                "name": "n",
                "count": -1,
                "factor": -1,
                "assignments": (CreatableReplicaAssignment(partition_index=0, broker_ids=(2,)),),
            },
            Code.INVALID_REPLICA_ASSIGNMENT,
        ),
    ],
)
def test_topics_that_cannot_be_are_refused(
    driver: NodeDriver,
    fields: dict[str, Any],
    code: Code,
) -> None:
    driver.create("t")
    driver.create("t.1.x")
    before = driver.call(MetadataRequest(topics=None))
    assert created(driver, **fields).error_code == code
    assert driver.call(MetadataRequest(topics=None)) == before


def test_defaults_assignments_and_trials() -> None:
    driver = kit.NodeDriver(num_partitions=4)
    assert created(driver, "trial", validate_only=True).error_code == Code.NONE
    assert described(driver, "trial").error_code == Code.UNKNOWN_TOPIC_OR_PARTITION
    assert created(driver, "usual", -1, -1).num_partitions == 4
    by_hand = tuple(
        CreatableReplicaAssignment(partition_index=n, broker_ids=(1,)) for n in range(2)
    )
    assert created(driver, "by_hand", -1, -1, assignments=by_hand).num_partitions == 2


def test_a_topic_twice_in_one_request_is_made_not_once(driver: NodeDriver) -> None:
    topic = CreatableTopic(name="t", num_partitions=1, replication_factor=1)
    answer = driver.call(CreateTopicsRequest(topics=(topic, topic)))
    assert [each.error_code for each in answer.topics] == [Code.INVALID_REQUEST]


def test_metadata_creates_a_topic_only_where_it_is_allowed() -> None:
    driver = kit.NodeDriver(num_partitions=2)
    assert described(driver, "t").error_code == Code.UNKNOWN_TOPIC_OR_PARTITION
    assert described(driver, "a b", may_create=True).error_code == Code.INVALID_TOPIC_EXCEPTION
    made = described(driver, "t", may_create=True)
    assert (made.error_code, len(made.partitions)) == (Code.NONE, 2)
    assert described(driver, "old", version=3, may_create=True).error_code == Code.NONE
    strict = kit.NodeDriver(auto_create_topics_enable=False)
    assert described(strict, "t", may_create=True).error_code == Code.UNKNOWN_TOPIC_OR_PARTITION


def test_a_deleted_topic_takes_its_files_with_it_once_that_is_durable(driver: NodeDriver) -> None:
    topic_id = driver.create("t")
    driver.call(kit.produce("t", kit.batch(b"a")), 12)
    deletion = driver.ask(DeleteTopicsRequest(topics=(DeleteTopicState(name="t"),)))
    assert driver.disk.list_dir(f"topics/{topic_id.hex()}") == ("t-0",)
    driver.flush()
    assert driver.answers[deletion].responses[0].error_code == Code.NONE
    assert driver.disk.list_dir("topics") == ()
    assert described(driver.crash(), "t").error_code == Code.UNKNOWN_TOPIC_OR_PARTITION


class UndeletableDisk(MemoryDisk):
    """A disk that lets nothing go."""

    def delete(self, path: str) -> None:
        raise DiskError("delete", path, OSError(5, "Input/output error"))


def test_a_disk_that_does_not_delete_holds_nobody_up() -> None:
    driver = kit.NodeDriver(UndeletableDisk())
    topic_id = driver.create("t")
    driver.call(kit.produce("t", kit.batch(b"a")), 12)
    answer = driver.call(DeleteTopicsRequest(topics=(DeleteTopicState(name="t"),)))
    assert [each.error_code for each in answer.responses] == [Code.NONE]
    assert driver.disk.list_dir("topics") == (topic_id.hex(),)
    assert driver.crash().disk.list_dir("topics") == ()


def test_files_of_a_topic_that_never_became_durable_are_swept_at_start(driver: NodeDriver) -> None:
    driver.ask(
        CreateTopicsRequest(
            topics=(CreatableTopic(name="t", num_partitions=1, replication_factor=1),)
        )
    )
    driver.ask(kit.produce("t", kit.batch(b"a")), 12)
    next_life = driver.crash(tear_bytes=0)
    assert next_life.disk.list_dir("topics") == ()


def test_logs_are_not_swept_because_the_catalog_cannot_be_read(driver: NodeDriver) -> None:
    driver.create("t")
    disk = driver.disk.crash()
    disk.append("catalog.log", 0, b"x" * disk.size("catalog.log"))
    before = disk.list_dir("topics")
    with pytest.raises(
        Damaged, match=r"^catalog\.log holds nothing that can be read, but there are logs"
    ):
        kit.NodeDriver(disk)
    assert disk.list_dir("topics") == before != ()


def test_logs_are_kept_once_more_where_the_catalog_has_lost_its_end(driver: NodeDriver) -> None:
    kept = driver.create("kept").hex()
    lost = driver.create("lost").hex()
    disk = driver.disk.crash()
    disk.append("catalog.log", disk.size("catalog.log") - 5, b"xxxx")
    first = kit.NodeDriver(disk)
    assert disk.list_dir("topics") == tuple(sorted((kept, lost)))
    assert [(note.level, note.text.partition(";")[2]) for note in first.notes] == [
        ("warning", " logs that nothing names are kept for now")
    ]
    assert kit.NodeDriver(disk.crash()).disk.list_dir("topics") == (kept,)


def test_a_torn_log_is_told(driver: NodeDriver) -> None:
    driver.create("t")
    size = len(kit.batch(b"a"))
    driver.ask(kit.produce("t", kit.batch(b"a")), 12)
    notes = driver.crash(size - 1).notes
    assert [(note.level, note.text) for note in notes] == [
        ("warning", f"t-0 lost {size - 1} bytes that were half written")
    ]


def test_topics_are_deleted_by_name_or_by_id(driver: NodeDriver) -> None:
    topic_id = driver.create("t")
    by_name = DeleteTopicsRequest(topic_names=("u",))
    assert driver.call(by_name, 5).responses[0].error_code == Code.UNKNOWN_TOPIC_OR_PARTITION
    both = DeleteTopicState(name="t", topic_id=topic_id)
    assert (
        driver.call(DeleteTopicsRequest(topics=(both,))).responses[0].error_code
        == Code.INVALID_REQUEST
    )
    by_id = DeleteTopicsRequest(topics=(DeleteTopicState(topic_id=topic_id),))
    assert driver.call(by_id).responses[0].name == "t"
    assert driver.call(by_id).responses[0].error_code == Code.UNKNOWN_TOPIC_ID


def test_partitions_are_added_and_never_taken_away(driver: NodeDriver) -> None:
    driver.create("t", 2)

    def grown(count: int) -> int:
        topic = CreatePartitionsTopic(name="t", count=count, assignments=None)
        result: int = driver.call(CreatePartitionsRequest(topics=(topic,))).results[0].error_code
        return result

    assert [grown(2), grown(1), grown(2**31 - 1)] == [
        Code.INVALID_PARTITIONS,
        Code.INVALID_PARTITIONS,
        Code.POLICY_VIOLATION,
    ]
    assert grown(5) == Code.NONE
    assert len(described(driver.crash(), "t").partitions) == 5


def test_metadata_by_id_and_of_everything(driver: NodeDriver) -> None:
    topic_id = driver.create("t")
    by_id = MetadataRequest(topics=(MetadataRequestTopic(name=None, topic_id=topic_id),))
    assert driver.call(by_id).topics[0].name == "t"
    unknown = MetadataRequest(topics=(MetadataRequestTopic(name=None, topic_id=bytes(15) + b"x"),))
    assert driver.call(unknown).topics[0].error_code == Code.UNKNOWN_TOPIC_ID
    assert [topic.name for topic in driver.call(MetadataRequest(topics=None)).topics] == ["t"]
    assert [topic.name for topic in driver.call(MetadataRequest(topics=()), 0).topics] == ["t"]
    assert driver.call(MetadataRequest(topics=()), 1).topics == ()
    brokers = driver.call(MetadataRequest(topics=())).brokers
    assert [(each.node_id, each.host, each.port) for each in brokers] == [(1, "here", 9092)]


def test_a_topic_that_metadata_is_asked_for_twice_is_described_once(driver: NodeDriver) -> None:
    driver.create("t", 2)
    twice = (
        MetadataRequestTopic(name="t"),
        MetadataRequestTopic(name="u"),
        MetadataRequestTopic(name="t"),
    )
    answer = driver.call(MetadataRequest(topics=twice, allow_auto_topic_creation=False), 12)
    assert [(topic.name, len(topic.partitions)) for topic in answer.topics] == [("t", 2), ("u", 0)]


def test_the_cluster_keeps_its_id(driver: NodeDriver) -> None:
    first = driver.call(DescribeClusterRequest(endpoint_type=1))
    assert len(first.cluster_id) == 22
    assert driver.crash().call(DescribeClusterRequest(endpoint_type=1)) == first


def test_features_that_start_at_0_are_said_from_version_4_on(driver: NodeDriver) -> None:
    request = ApiVersionsRequest(client_software_name="test", client_software_version="1")
    old, new = driver.call(request, 3), driver.call(request, 4)
    assert [each.name for each in old.supported_features] == []
    assert [(each.name, each.min_version, each.max_version) for each in new.supported_features] == [
        ("group.version", 0, 1)
    ]
    assert [(each.name, each.max_version_level) for each in old.finalized_features] == [
        ("group.version", 1)
    ]
    assert {key.api_key: (key.min_version, key.max_version) for key in new.api_keys}[0] == (0, 13)
    assert sorted(key.api_key for key in new.api_keys) == sorted(SERVED_APIS)


def test_groups_are_coordinated_here_and_transactions_nowhere(driver: NodeDriver) -> None:
    coordinators = driver.call(FindCoordinatorRequest(coordinator_keys=("g", "h"))).coordinators
    assert [
        (each.key, each.node_id, each.host, each.port, each.error_code) for each in coordinators
    ] == [
        ("g", 1, "here", 9092, Code.NONE),
        ("h", 1, "here", 9092, Code.NONE),
    ]
    assert len(described(driver, "__consumer_offsets").partitions) == 50
    assert described(driver, "__consumer_offsets").is_internal
    refused = driver.call(FindCoordinatorRequest(key="t", key_type=1), 3)
    assert (refused.error_code, refused.error_message) == (
        Code.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
        "this broker has no transactions yet",
    )


def test_settings_are_described_by_name() -> None:
    driver = kit.NodeDriver(num_partitions=7)
    config = CreatableTopicConfig(name="retention.ms", value="1000")
    created(driver, "t", configs=(config,))

    def settings(kind: int, name: str, *keys: str) -> tuple[int, list[tuple[str, str, int]]]:
        resource = DescribeConfigsResource(
            resource_type=kind, resource_name=name, configuration_keys=keys or None
        )
        result = driver.call(DescribeConfigsRequest(resources=(resource,))).results[0]
        return result.error_code, [
            (each.name, each.value, each.config_source) for each in result.configs
        ]

    assert settings(2, "t", "retention.ms", "segment.bytes") == (
        Code.NONE,
        [("retention.ms", "1000", 1), ("segment.bytes", "1073741824", 5)],
    )
    driver.call(MetadataRequest(topics=(MetadataRequestTopic(name="__consumer_offsets"),)))
    assert settings(2, "__consumer_offsets", "cleanup.policy", "segment.bytes") == (
        Code.NONE,
        [("cleanup.policy", "compact", 1), ("segment.bytes", "16777216", 4)],
    )
    assert settings(4, "1", "num.partitions") == (Code.NONE, [("num.partitions", "7", 4)])
    assert settings(2, "u") == (Code.UNKNOWN_TOPIC_OR_PARTITION, [])
    assert settings(8, "1")[0] == Code.INVALID_REQUEST


def test_a_failed_flush_takes_back_the_topic_that_it_was_about(driver: NodeDriver) -> None:
    driver.create("t")
    topic = CreatableTopic(name="u", num_partitions=1, replication_factor=1)
    ticket = driver.ask(CreateTopicsRequest(topics=(topic,)))
    driver.fail_flush()
    assert driver.answers[ticket].topics[0].error_code == Code.KAFKA_STORAGE_ERROR
    assert [each.name for each in driver.call(MetadataRequest(topics=None)).topics] == ["t"]
    driver.create("u")
    assert [each.name for each in driver.crash().call(MetadataRequest(topics=None)).topics] == [
        "t",
        "u",
    ]
