"""The catalog: replaying its file gives the live one, whatever a crash left of the last line."""

import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from apportion.security.acls import (
    AclBinding,
    AclOperation,
    AclPermission,
    PatternType,
    ResourceType,
)
from apportion.security.scram_credentials import ScramCredential, ScramMechanism
from apportion.store.disk import Damaged, DiskError
from apportion.store.files import RealDisk
from apportion.store.memory_disk import MemoryDisk
from apportion.store.metadata_log import BROKER, GROUP, PATH, TOPIC, MetadataLog
from apportion.topics import Topic, Topics

NAMES = ("flights", "flights-v2", "naïve", "a.b_c")


def state(catalog: MetadataLog) -> tuple[Any, ...]:
    configs = {
        kind: [(name, catalog.config_of(name, kind)) for name in catalog.configured(kind)]
        for kind in (TOPIC, BROKER, GROUP)
    }
    return (
        *(catalog.topics, configs, catalog.cluster_id, catalog.scram_credentials),
        sorted(catalog.acls),
    )


def topic_id(number: int) -> bytes:
    return number.to_bytes(16, "big")


def credential(number: int) -> ScramCredential:
    """A credential whose parts differ from those of every other number."""
    return ScramCredential(4_096 + number, *(bytes([number, part]) for part in range(3)))


def acl(name: str, principal: str = "User:alice") -> AclBinding:
    """An ACL by which somebody may read a topic."""
    return AclBinding(
        *(ResourceType.TOPIC, name, PatternType.LITERAL, principal, "*"),
        *(AclOperation.READ, AclPermission.ALLOW),
    )


def act(catalog: Any, number: int, change: tuple[str, str, int]) -> None:
    """One change that fits the catalog as it is."""
    what, name, count = change
    if what == "ids":
        catalog.claim_producer_ids(count)
    elif what == "cluster":
        if catalog.cluster_id is None:
            catalog.name_cluster(name)
    elif what == "scram":
        for mechanism in ScramMechanism:
            if name not in catalog.scram_credentials[mechanism] or count % 3:
                catalog.alter_scram_credentials([(mechanism, name, credential(number))])
            else:
                catalog.alter_scram_credentials([(mechanism, name, None)])
    elif what == "acls":
        mine = [acl(name), acl(name, f"User:{count}")]
        if count % 3:
            catalog.add_acls(mine)
        else:
            catalog.remove_acls(mine)
    elif what in (BROKER, GROUP):
        catalog.configure(what, name, {"k": str(count)} if count % 3 else {})
    elif catalog.topics.named(name) is None:
        catalog.create_topic(
            Topic(name, topic_id(number), count),
            {"segment.bytes": str(count)} if count % 2 else None,
        )
    elif what == TOPIC:
        catalog.configure(TOPIC, name, {"segment.bytes": str(count)} if count % 3 else {})
    elif what == "delete":
        catalog.delete_topic(name)
    else:
        catalog.add_partitions(name, catalog.topics.named(name).partitions + count)


changes = st.tuples(
    st.sampled_from(("ids", "cluster", "delete", "grow", "scram", "acls", TOPIC, BROKER, GROUP)),
    st.sampled_from(NAMES),
    st.integers(1, 9),
)


@settings(max_examples=300, deadline=None)
@given(st.lists(changes, max_size=20))
def test_replaying_the_file_gives_the_live_catalog(
    changes_made: list[tuple[str, str, int]],
) -> None:
    disk = MemoryDisk()
    live = MetadataLog.open(disk)
    for number, change in enumerate(changes_made):
        act(live, number, change)
        disk.sync(live.take_unsynced_paths())
        assert state(MetadataLog.open(disk.crash())) == state(live)
    again = MetadataLog.open(disk)
    assert again.claim_producer_ids(5) == live.claim_producer_ids(5)


def test_a_catalog_keeps_what_it_was_told(tmp_path: Path) -> None:
    disk = RealDisk(tmp_path)
    catalog = MetadataLog.open(disk)
    assert (catalog.topics, catalog.cluster_id, catalog.take_unsynced_paths()) == (
        Topics(),
        None,
        (),
    )
    catalog.name_cluster("cluster-1")
    assert catalog.take_unsynced_paths() == (PATH, ".")
    catalog.create_topic(Topic("flights", topic_id(1), 12), {"segment.bytes": "1000"})
    catalog.create_topic(Topic("gone", topic_id(2), 1))
    catalog.delete_topic("gone")
    catalog.add_partitions("flights", 13)
    assert (catalog.claim_producer_ids(1000), catalog.claim_producer_ids(1)) == (
        range(1000),
        range(1000, 1001),
    )
    assert (catalog.take_unsynced_paths(), catalog.take_unsynced_paths()) == ((PATH,), ())
    disk.close()
    reopened = MetadataLog.open(RealDisk(tmp_path))
    assert reopened.topics == Topics([Topic("flights", topic_id(1), 13)])
    assert (reopened.config_of("flights"), reopened.config_of("gone"), reopened.cluster_id) == (
        {"segment.bytes": "1000"},
        {},
        "cluster-1",
    )
    assert (reopened.claim_producer_ids(2), reopened.take_unsynced_paths()) == (
        range(1001, 1003),
        (PATH, "."),
    )


def test_a_last_line_torn_at_any_byte_is_cut_and_the_catalog_goes_on() -> None:
    tear_bytes, whole = 0, False
    while not whole:
        disk = MemoryDisk()
        catalog = MetadataLog.open(disk)
        catalog.create_topic(Topic("a.b_c", topic_id(1), 1))
        disk.sync(catalog.take_unsynced_paths())
        before = state(catalog)
        size = disk.size(PATH)
        catalog.create_topic(Topic("naïve", topic_id(2), 1), {"k": "v"})
        whole = tear_bytes == disk.size(PATH) - size
        after = state(catalog)
        disk = disk.crash(tear_bytes)
        reopened = MetadataLog.open(disk)
        assert state(reopened) == (after if whole else before)
        reopened.create_topic(Topic("flights", topic_id(3), 3))
        assert state(MetadataLog.open(disk)) == state(reopened)
        tear_bytes += 1
    assert tear_bytes > 60


def test_a_snapshot_of_credentials_stays_as_it_was() -> None:
    catalog = MetadataLog.open(MemoryDisk())
    mechanism = ScramMechanism.SCRAM_SHA_256
    catalog.alter_scram_credentials([(mechanism, "alice", credential(1))])
    before = catalog.scram_credentials
    assert catalog.scram_credentials is before
    catalog.alter_scram_credentials(
        [(mechanism, "alice", credential(2)), (mechanism, "bob", credential(3))]
    )
    catalog.alter_scram_credentials([(mechanism, "bob", None)])
    assert (dict(before[mechanism]), dict(catalog.scram_credentials[mechanism])) == (
        {"alice": credential(1)},
        {"alice": credential(2)},
    )
    with pytest.raises(TypeError):
        before[mechanism]["eve"] = credential(4)  # type: ignore[index]


def test_a_credential_torn_at_any_byte_is_as_before_or_whole() -> None:
    mechanism, found = ScramMechanism.SCRAM_SHA_512, []
    for tear_bytes in range(300):
        disk = MemoryDisk()
        catalog = MetadataLog.open(disk)
        catalog.alter_scram_credentials([(mechanism, "alice", credential(1))])
        disk.sync(catalog.take_unsynced_paths())
        catalog.alter_scram_credentials([(mechanism, "alice", credential(2))])
        reopened = MetadataLog.open(disk.crash(tear_bytes))
        found.append(reopened.scram_credentials[mechanism])
    whole_from = found.index({"alice": credential(2)})
    assert whole_from > 100
    assert found == [{"alice": credential(1)}] * whole_from + [{"alice": credential(2)}] * (
        300 - whole_from
    )


def test_a_snapshot_of_acls_stays_as_it_was() -> None:
    catalog = MetadataLog.open(MemoryDisk())
    catalog.add_acls([acl("a"), acl("b")])
    before = catalog.acls
    assert catalog.acls is before
    catalog.remove_acls([acl("a")])
    catalog.add_acls([acl("a", "User:bob")])
    assert (sorted(before), sorted(catalog.acls)) == (
        [acl("a"), acl("b")],
        [acl("a", "User:bob"), acl("b")],
    )
    assert catalog.end.acls is catalog.acls


def test_acls_of_one_request_torn_at_any_byte_are_all_there_or_none() -> None:
    found = []
    for tear_bytes in range(200):
        disk = MemoryDisk()
        catalog = MetadataLog.open(disk)
        catalog.add_acls([acl("a")])
        disk.sync(catalog.take_unsynced_paths())
        catalog.add_acls([acl("naïve"), acl("c")])
        found.append(sorted(MetadataLog.open(disk.crash(tear_bytes)).acls))
    before, after = [acl("a")], [acl("a"), acl("c"), acl("naïve")]
    whole_from = found.index(after)
    assert whole_from > 100
    assert found == [before] * whole_from + [after] * (200 - whole_from)


def three_topics() -> MemoryDisk:
    disk = MemoryDisk()
    catalog = MetadataLog.open(disk)
    for number, name in enumerate(NAMES[:3]):
        catalog.create_topic(Topic(name, topic_id(number), 1))
    return disk


def test_an_unreadable_line_in_the_middle_stops_the_start_with_file_and_line() -> None:
    disk = three_topics()
    second = bytes(disk.view(PATH, 0, disk.size(PATH))).index(b"flights-v2")
    disk.append(PATH, second, b"x")
    with pytest.raises(
        Damaged, match=f"^{re.escape(PATH)}, line 2: cannot be read, though later lines can$"
    ):
        MetadataLog.open(disk)


def test_a_change_of_a_later_version_stops_the_start_with_file_and_line() -> None:
    disk = MemoryDisk()
    disk.append(PATH, 0, b'f9cc7078 {"change":"paint"}\n')
    with pytest.raises(
        Damaged, match=r"^catalog\.log, line 1: a change that this version does not know: 'paint'$"
    ):
        MetadataLog.open(disk)


def test_a_catalog_that_is_cut_back_is_as_it_was_then() -> None:
    disk = MemoryDisk()
    catalog = MetadataLog.open(disk)
    catalog.create_topic(Topic("flights", topic_id(1), 1))
    before, size = catalog.topics, disk.size(PATH)
    catalog.add_partitions("flights", 2)
    catalog = catalog.truncated(size)
    assert catalog.topics == before
    assert MetadataLog.open(disk).topics == before


def test_a_full_disk_leaves_the_catalog_as_it_was() -> None:
    disk = MemoryDisk()
    catalog = MetadataLog.open(disk)
    catalog.create_topic(Topic("flights", topic_id(1), 1))
    before = state(catalog)
    disk.free_bytes = 20
    with pytest.raises(
        DiskError, match=r"^cannot append \d+ bytes to catalog\.log: no space left$"
    ):
        catalog.create_topic(Topic("naïve", topic_id(2), 1))
    assert state(catalog) == before == state(MetadataLog.open(disk))
