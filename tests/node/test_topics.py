"""Topics come, grow and go; versions, features and coordinators are as Kafka says them."""

from typing import TYPE_CHECKING, Any

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
from apportion.wire.table import APIS

if TYPE_CHECKING:
    from tests.node.conftest import Kit, Play


def described(
    play: "Play", name: str, version: int = 13, may_create: bool = False
) -> MetadataResponseTopic:
    request = MetadataRequest(
        topics=(MetadataRequestTopic(name=name),), allow_auto_topic_creation=may_create
    )
    result: MetadataResponseTopic = play.call(request, version).topics[0]
    return result


def created(
    play: "Play",
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
    result: CreatableTopicResult = play.call(
        CreateTopicsRequest(topics=(topic,), validate_only=validate_only)
    ).topics[0]
    return result


def test_a_topic_is_not_said_to_exist_before_that_is_on_the_disk(play: "Play") -> None:
    topic = CreatableTopic(name="t", num_partitions=1, replication_factor=1)
    asked = play.ask(CreateTopicsRequest(topics=(topic,)))
    read = play.ask(MetadataRequest(topics=None))
    assert not {asked, read} & set(play.answers)
    play.flush()
    assert {asked, read} <= set(play.answers)


def test_topics_are_there_after_a_crash_with_their_ids(play: "Play") -> None:
    topic_id = play.create("t", 3)
    described_topic = described(play.crash(), "t")
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
    play: "Play",
    fields: dict[str, Any],
    code: Code,
) -> None:
    play.create("t")
    play.create("t.1.x")
    before = play.call(MetadataRequest(topics=None))
    assert created(play, **fields).error_code == code
    assert play.call(MetadataRequest(topics=None)) == before


def test_defaults_assignments_and_trials(kit: "type[Kit]") -> None:
    play = kit.Play(num_partitions=4)
    assert created(play, "trial", validate_only=True).error_code == Code.NONE
    assert described(play, "trial").error_code == Code.UNKNOWN_TOPIC_OR_PARTITION
    assert created(play, "usual", -1, -1).num_partitions == 4
    by_hand = tuple(
        CreatableReplicaAssignment(partition_index=n, broker_ids=(1,)) for n in range(2)
    )
    assert created(play, "by_hand", -1, -1, assignments=by_hand).num_partitions == 2


def test_a_topic_twice_in_one_request_is_made_not_once(play: "Play") -> None:
    topic = CreatableTopic(name="t", num_partitions=1, replication_factor=1)
    answer = play.call(CreateTopicsRequest(topics=(topic, topic)))
    assert [each.error_code for each in answer.topics] == [Code.INVALID_REQUEST]


def test_metadata_creates_a_topic_only_where_it_is_allowed(kit: "type[Kit]") -> None:
    play = kit.Play(num_partitions=2)
    assert described(play, "t").error_code == Code.UNKNOWN_TOPIC_OR_PARTITION
    assert described(play, "a b", may_create=True).error_code == Code.INVALID_TOPIC_EXCEPTION
    made = described(play, "t", may_create=True)
    assert (made.error_code, len(made.partitions)) == (Code.NONE, 2)
    assert described(play, "old", version=3, may_create=True).error_code == Code.NONE
    strict = kit.Play(auto_create_topics_enable=False)
    assert described(strict, "t", may_create=True).error_code == Code.UNKNOWN_TOPIC_OR_PARTITION


def test_a_deleted_topic_takes_its_files_with_it_once_that_is_durable(
    play: "Play", kit: "type[Kit]"
) -> None:
    topic_id = play.create("t")
    play.call(kit.produce("t", kit.batch(b"a")), 12)
    deletion = play.ask(DeleteTopicsRequest(topics=(DeleteTopicState(name="t"),)))
    assert play.disk.list_dir(f"topics/{topic_id.hex()}") == ("t-0",)
    play.flush()
    assert play.answers[deletion].responses[0].error_code == Code.NONE
    assert play.disk.list_dir("topics") == ()
    assert described(play.crash(), "t").error_code == Code.UNKNOWN_TOPIC_OR_PARTITION


class ClingingDisk(MemoryDisk):
    """A disk that lets nothing go."""

    def delete(self, path: str) -> None:
        raise DiskError("delete", path, OSError(5, "Input/output error"))


def test_a_disk_that_does_not_delete_holds_nobody_up(kit: "type[Kit]") -> None:
    play = kit.Play(ClingingDisk())
    topic_id = play.create("t")
    play.call(kit.produce("t", kit.batch(b"a")), 12)
    answer = play.call(DeleteTopicsRequest(topics=(DeleteTopicState(name="t"),)))
    assert [each.error_code for each in answer.responses] == [Code.NONE]
    assert play.disk.list_dir("topics") == (topic_id.hex(),)
    assert play.crash().disk.list_dir("topics") == ()


def test_files_of_a_topic_that_never_became_durable_are_swept_at_start(
    play: "Play", kit: "type[Kit]"
) -> None:
    play.ask(
        CreateTopicsRequest(
            topics=(CreatableTopic(name="t", num_partitions=1, replication_factor=1),)
        )
    )
    play.ask(kit.produce("t", kit.batch(b"a")), 12)
    next_life = play.crash(tear_bytes=0)
    assert next_life.disk.list_dir("topics") == ()


def test_logs_are_not_swept_because_the_catalog_cannot_be_read(
    play: "Play", kit: "type[Kit]"
) -> None:
    play.create("t")
    disk = play.disk.crash()
    disk.append("catalog.log", 0, b"x" * disk.size("catalog.log"))
    before = disk.list_dir("topics")
    with pytest.raises(
        Damaged, match=r"^catalog\.log holds nothing that can be read, but there are logs"
    ):
        kit.Play(disk)
    assert disk.list_dir("topics") == before != ()


def test_logs_are_kept_once_more_where_the_catalog_has_lost_its_end(
    play: "Play", kit: "type[Kit]"
) -> None:
    kept = play.create("kept").hex()
    lost = play.create("lost").hex()
    disk = play.disk.crash()
    disk.append("catalog.log", disk.size("catalog.log") - 5, b"xxxx")
    first = kit.Play(disk)
    assert disk.list_dir("topics") == tuple(sorted((kept, lost)))
    assert [(note.level, note.text.partition(";")[2]) for note in first.notes] == [
        ("warning", " logs that nothing names are kept for now")
    ]
    assert kit.Play(disk.crash()).disk.list_dir("topics") == (kept,)


def test_a_torn_log_is_told(play: "Play", kit: "type[Kit]") -> None:
    play.create("t")
    size = len(kit.batch(b"a"))
    play.ask(kit.produce("t", kit.batch(b"a")), 12)
    notes = play.crash(size - 1).notes
    assert [(note.level, note.text) for note in notes] == [
        ("warning", f"t-0 lost {size - 1} bytes that were half written")
    ]


def test_topics_are_deleted_by_name_or_by_id(play: "Play") -> None:
    topic_id = play.create("t")
    by_name = DeleteTopicsRequest(topic_names=("u",))
    assert play.call(by_name, 5).responses[0].error_code == Code.UNKNOWN_TOPIC_OR_PARTITION
    both = DeleteTopicState(name="t", topic_id=topic_id)
    assert (
        play.call(DeleteTopicsRequest(topics=(both,))).responses[0].error_code
        == Code.INVALID_REQUEST
    )
    by_id = DeleteTopicsRequest(topics=(DeleteTopicState(topic_id=topic_id),))
    assert play.call(by_id).responses[0].name == "t"
    assert play.call(by_id).responses[0].error_code == Code.UNKNOWN_TOPIC_ID


def test_partitions_are_added_and_never_taken_away(play: "Play") -> None:
    play.create("t", 2)

    def grown(count: int) -> int:
        topic = CreatePartitionsTopic(name="t", count=count, assignments=None)
        result: int = play.call(CreatePartitionsRequest(topics=(topic,))).results[0].error_code
        return result

    assert [grown(2), grown(1), grown(2**31 - 1)] == [
        Code.INVALID_PARTITIONS,
        Code.INVALID_PARTITIONS,
        Code.POLICY_VIOLATION,
    ]
    assert grown(5) == Code.NONE
    assert len(described(play.crash(), "t").partitions) == 5


def test_metadata_by_id_and_of_everything(play: "Play") -> None:
    topic_id = play.create("t")
    by_id = MetadataRequest(topics=(MetadataRequestTopic(name=None, topic_id=topic_id),))
    assert play.call(by_id).topics[0].name == "t"
    unknown = MetadataRequest(topics=(MetadataRequestTopic(name=None, topic_id=bytes(15) + b"x"),))
    assert play.call(unknown).topics[0].error_code == Code.UNKNOWN_TOPIC_ID
    assert [topic.name for topic in play.call(MetadataRequest(topics=None)).topics] == ["t"]
    assert [topic.name for topic in play.call(MetadataRequest(topics=()), 0).topics] == ["t"]
    assert play.call(MetadataRequest(topics=()), 1).topics == ()
    brokers = play.call(MetadataRequest(topics=())).brokers
    assert [(each.node_id, each.host, each.port) for each in brokers] == [(1, "here", 9092)]


def test_a_topic_that_metadata_is_asked_for_twice_is_described_once(play: "Play") -> None:
    play.create("t", 2)
    twice = (
        MetadataRequestTopic(name="t"),
        MetadataRequestTopic(name="u"),
        MetadataRequestTopic(name="t"),
    )
    answer = play.call(MetadataRequest(topics=twice, allow_auto_topic_creation=False), 12)
    assert [(topic.name, len(topic.partitions)) for topic in answer.topics] == [("t", 2), ("u", 0)]


def test_the_cluster_keeps_its_id(play: "Play") -> None:
    first = play.call(DescribeClusterRequest(endpoint_type=1))
    assert len(first.cluster_id) == 22
    assert play.crash().call(DescribeClusterRequest(endpoint_type=1)) == first


def test_features_that_start_at_0_are_said_from_version_4_on(play: "Play") -> None:
    request = ApiVersionsRequest(client_software_name="test", client_software_version="1")
    old, new = play.call(request, 3), play.call(request, 4)
    assert [each.name for each in old.supported_features] == []
    assert [(each.name, each.min_version, each.max_version) for each in new.supported_features] == [
        ("group.version", 0, 1)
    ]
    assert [(each.name, each.max_version_level) for each in old.finalized_features] == [
        ("group.version", 1)
    ]
    assert {key.api_key: (key.min_version, key.max_version) for key in new.api_keys}[0] == (0, 13)
    assert sorted(key.api_key for key in new.api_keys) == sorted(APIS)


def test_groups_are_coordinated_here_and_transactions_nowhere(play: "Play") -> None:
    coordinators = play.call(FindCoordinatorRequest(coordinator_keys=("g", "h"))).coordinators
    assert [
        (each.key, each.node_id, each.host, each.port, each.error_code) for each in coordinators
    ] == [
        ("g", 1, "here", 9092, Code.NONE),
        ("h", 1, "here", 9092, Code.NONE),
    ]
    assert len(described(play, "__consumer_offsets").partitions) == 50
    assert described(play, "__consumer_offsets").is_internal
    refused = play.call(FindCoordinatorRequest(key="t", key_type=1), 3)
    assert (refused.error_code, refused.error_message) == (
        Code.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
        "this broker has no transactions yet",
    )


def test_settings_are_described_by_name(kit: "type[Kit]") -> None:
    play = kit.Play(num_partitions=7)
    config = CreatableTopicConfig(name="retention.ms", value="1000")
    created(play, "t", configs=(config,))

    def settings(kind: int, name: str, *keys: str) -> tuple[int, list[tuple[str, str, int]]]:
        resource = DescribeConfigsResource(
            resource_type=kind, resource_name=name, configuration_keys=keys or None
        )
        result = play.call(DescribeConfigsRequest(resources=(resource,))).results[0]
        return result.error_code, [
            (each.name, each.value, each.config_source) for each in result.configs
        ]

    assert settings(2, "t", "retention.ms", "segment.bytes") == (
        Code.NONE,
        [("retention.ms", "1000", 1), ("segment.bytes", "1073741824", 5)],
    )
    play.call(MetadataRequest(topics=(MetadataRequestTopic(name="__consumer_offsets"),)))
    assert settings(2, "__consumer_offsets", "cleanup.policy", "segment.bytes") == (
        Code.NONE,
        [("cleanup.policy", "compact", 1), ("segment.bytes", "16777216", 4)],
    )
    assert settings(4, "1", "num.partitions") == (Code.NONE, [("num.partitions", "7", 4)])
    assert settings(2, "u") == (Code.UNKNOWN_TOPIC_OR_PARTITION, [])
    assert settings(8, "1")[0] == Code.INVALID_REQUEST


def test_a_failed_flush_takes_back_the_topic_that_it_was_about(play: "Play") -> None:
    play.create("t")
    topic = CreatableTopic(name="u", num_partitions=1, replication_factor=1)
    ticket = play.ask(CreateTopicsRequest(topics=(topic,)))
    play.fail_flush()
    assert play.answers[ticket].topics[0].error_code == Code.KAFKA_STORAGE_ERROR
    assert [each.name for each in play.call(MetadataRequest(topics=None)).topics] == ["t"]
    play.create("u")
    assert [each.name for each in play.crash().call(MetadataRequest(topics=None)).topics] == [
        "t",
        "u",
    ]
