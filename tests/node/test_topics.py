"""Topics come, grow and go; versions, features and coordinators are as Kafka says them."""

import pytest

from apportion.errors import Code
from apportion.store.disk import Damaged, DiskError
from apportion.store.memory_disk import MemoryDisk
from apportion.wire.messages.api_versions import ApiVersionsRequest
from apportion.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from apportion.wire.messages.find_coordinator import FindCoordinatorRequest
from apportion.wire.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponseTopic,
)
from apportion.wire.table import SERVED_APIS
from tests.message_texts import request_of
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
    driver.ask(request_of("CreateTopics topics=[name=t num_partitions=1 replication_factor=1]"))
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
