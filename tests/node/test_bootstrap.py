"""Metadata that a broker is given at its start: on the disk before the first request."""

from typing import TYPE_CHECKING

from apportion.machine import Flush, Flushed, Instant, Note
from apportion.node.bootstrap import NOTHING, BootstrapMetadata, UserCredential
from apportion.node.listeners import Address
from apportion.node.node import Node
from apportion.node.settings import BrokerSettings
from apportion.security.scram_credentials import ScramCredential, ScramMechanism
from apportion.store.memory_disk import MemoryDisk
from apportion.store.metadata_log import MetadataLog
from tests.node.acl_requests import acl

if TYPE_CHECKING:
    from collections.abc import Mapping

SHA_256, SHA_512 = ScramMechanism
OLD, NEW = (ScramCredential(4_096, salt, b"stored", b"server") for salt in (b"old", b"new"))
ACL = acl()


def started(disk: MemoryDisk, given: BootstrapMetadata) -> tuple["Mapping[str, object]", list[str]]:
    """The credentials for logins by SCRAM-SHA-256 once the start is over, and its log lines."""
    advertised = {"PLAINTEXT": Address("here", 9092)}
    node, now = Node(disk, BrokerSettings(), advertised), Instant(0, 0)
    lines = []
    for action in node.start(now, bytes(16), given):
        if isinstance(action, Flush):
            disk.sync(action.paths)
            node.step(Flushed(action.flush_seq), now)
        elif isinstance(action, Note):
            lines.append(action.text)
    return node.durable.scram_credentials[SHA_256], lines


def given_to_alice(credential: ScramCredential, replaces: bool = False) -> BootstrapMetadata:
    return BootstrapMetadata((UserCredential(SHA_256, "alice", credential),), (ACL,), replaces)


def test_a_start_records_users_and_acls_for_good() -> None:
    disk = MemoryDisk()
    assert started(disk, given_to_alice(OLD)) == ({"alice": OLD}, [])
    log = MetadataLog.open(disk.crash())
    assert (log.scram_credentials[SHA_256], list(log.acls)) == ({"alice": OLD}, [ACL])
    assert started(disk.crash(), NOTHING) == ({"alice": OLD}, [])


def test_a_later_start_leaves_a_user_who_is_there() -> None:
    disk = MemoryDisk()
    started(disk, given_to_alice(OLD))
    size = disk.size("catalog.log")
    line = "user alice has a credential of SCRAM-SHA-256 already, which stays as it is"
    assert started(disk, given_to_alice(NEW)) == ({"alice": OLD}, [line])
    assert disk.size("catalog.log") == size


def test_a_start_that_replaces_gives_every_user_the_new_credential() -> None:
    disk = MemoryDisk()
    started(disk, given_to_alice(OLD))
    assert started(disk, given_to_alice(NEW, replaces=True)) == ({"alice": NEW}, [])
