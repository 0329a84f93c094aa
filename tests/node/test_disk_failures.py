"""Log lines about a disk that refuses requests: at the beginning, each minute, and at the end."""

from errno import EACCES, EIO, EMFILE, ENOSPC
from os import strerror
from typing import Any

import pytest

from apportion.errors import Code
from apportion.machine import Note
from apportion.store.disk import DiskError
from apportion.store.memory_disk import MemoryDisk
from apportion.wire.codec import Buffer
from tests.message_texts import request_and_version, request_of, words
from tests.node import kit
from tests.node.fault_histories import FaultHistory
from tests.node.group_requests import commit
from tests.node.kit import NodeDriver

VERSION = 12
BATCH = kit.batch(b"a")
FULL = f"cannot append {len(BATCH)} bytes to {{}}: no space left"


class RefusingDisk(MemoryDisk):
    """A disk that refuses to append and to create with this error number, unless that is 0."""

    refuses = 0

    def append(self, path: str, at: int, data: Buffer) -> None:
        self._refuse("append to")
        super().append(path, at, data)

    def resize(self, path: str, size_bytes: int) -> None:
        if path not in self._names:
            self._refuse("create")
        super().resize(path, size_bytes)

    def _refuse(self, attempt: str) -> None:
        if self.refuses:
            raise DiskError(attempt, "a file", OSError(self.refuses, strerror(self.refuses)))


@pytest.fixture
def refused() -> NodeDriver:
    """A broker whose disk can refuse, with a topic of a record and a group of one commit."""
    driver = FaultHistory(RefusingDisk())
    driver.begin()
    driver.create("t")
    driver.call(kit.produce("t", BATCH), VERSION)
    driver.call(commit("g", 1), 9)
    return driver


def begins(why: str, remedy: str, space: str = "memory") -> Note:
    return Note(
        "error", f"the disk refuses writes, which are tried again: {why}; {remedy} ({space})"
    )


PRODUCE = kit.produce("t", BATCH)
OVER = Note("info", "the disk has refused nothing for a minute (memory)")


def test_a_full_disk_is_told_when_it_begins_each_minute_and_when_it_is_over() -> None:
    driver = NodeDriver()
    driver.create("t")
    driver.disk.free_bytes = 10
    [path] = [f"topics/{driver.node.topics.named('t').id.hex()}/t-0/{0:020d}.log"]  # type: ignore[union-attr]
    for _ in range(3):
        driver.call(PRODUCE, VERSION)
    why, space = FULL.format(path), "memory has 0 bytes free"
    started = begins(why, "make room on its file system", space)
    assert driver.notes == [started]
    driver.sleep(59_999)
    assert driver.notes == [started]
    driver.sleep(1)
    lasts = Note(
        "error",
        f"the disk has refused 2 more in a minute, the last one 60 s ago: {why}; "
        f"make room on its file system ({space} now)",
    )
    assert driver.notes == [started, lasts]
    driver.disk.free_bytes = 5_000
    driver.call(PRODUCE, VERSION)
    driver.sleep(60_000)
    [*_, over] = driver.notes
    left = f"memory has {driver.disk.free_bytes:,} bytes free now"
    assert over == Note("info", f"the disk has refused nothing for a minute ({left})")
    driver.sleep(600_000)
    assert len(driver.notes) == 3


def test_the_line_of_a_minute_has_the_last_refusal_its_age_and_its_remedy(refused: Any) -> None:
    for number, seconds in ((ENOSPC, 10), (EACCES, 53)):
        for _ in range(2):
            refused.disk.refuses = number
            refused.call(PRODUCE, VERSION)
        refused.disk.refuses = 0
        refused.sleep(seconds * 1000)
    [_, lasts] = refused.notes
    assert lasts == Note(
        "error",
        "the disk has refused 3 more in a minute, the last one 50 s ago: cannot append to a file: "
        f"{strerror(EACCES)}; let the broker's user write there (memory)",
    )


@pytest.mark.parametrize(
    ("number", "remedy"),
    [
        (ENOSPC, "make room on its file system"),
        (EACCES, "let the broker's user write there"),
        (EMFILE, "raise the limit of open files (ulimit -n)"),
        (EIO, "the system's log may say what is wrong with the disk"),
    ],
)
@pytest.mark.parametrize(
    ("attempt", "request_", "version", "code"),
    [
        ("append to", PRODUCE, VERSION, Code.KAFKA_STORAGE_ERROR),
        (
            "create",
            request_of("DeleteRecords topics=[name=t partitions=[partition_index=0 offset=1]]"),
            2,
            Code.KAFKA_STORAGE_ERROR,
        ),
        ("append to", commit("g", 2), 9, Code.COORDINATOR_NOT_AVAILABLE),
        (
            "append to",
            request_of("CreateTopics topics=[name=u num_partitions=1 replication_factor=1]"),
            7,
            Code.KAFKA_STORAGE_ERROR,
        ),
    ],
    ids=["produce", "delete-records", "commit", "create-topics"],
)
def test_a_request_that_the_disk_refuses_has_a_line_in_the_log(
    refused: Any,
    attempt: str,
    request_: Any,
    version: int,
    code: Code,
    number: int,
    remedy: str,
) -> None:
    refused.disk.refuses = number
    for _ in range(3):
        answer = refused.call(request_, version)
        assert f"error_code={code.name}" in words(answer)
    assert refused.notes == [begins(f"cannot {attempt} a file: {strerror(number)}", remedy)]
    refused.disk.refuses = 0
    refused.sleep(60_000)
    refused.sleep(60_000)
    assert refused.notes[2:] == [OVER]


def test_flushes_that_fail_again_and_again_have_one_line_a_minute(refused: Any) -> None:
    for _ in range(20):
        refused.ask(PRODUCE, VERSION)
        refused.sleep(1_000)
        refused.fail_flush()
    assert refused.notes == [begins("no", "the system's log may say what is wrong with the disk")]


MEMBERS = {
    "classic": (
        "JoinGroup 3 group_id=h session_timeout_ms=6000 rebalance_timeout_ms=6000 "
        "protocol_type=consumer protocols=[name=range]",
        "SyncGroup 3 group_id=h member_id={} generation_id=1 assignments=[member_id={}]",
    ),
    "consumer": (
        "ConsumerGroupHeartbeat 1 group_id=h member_id=m member_epoch=0 "
        "rebalance_timeout_ms=6000 subscribed_topic_names=[t] topic_partitions=[]",
    ),
}


@pytest.fixture(params=MEMBERS)
def member(refused: Any, request: Any) -> str:
    """The id of the only member of a group, which is silent from now on."""
    member = ""
    for line in MEMBERS[request.param]:
        ticket = refused.ask(*request_and_version(line.format(member, member), {}))
        refused.sleep(1)
        refused.flush()
        member = getattr(refused.answers[ticket], "member_id", member)
    return member


def lines_about(driver: NodeDriver, member: str) -> list[str]:
    return [note.text for note in driver.notes if f"member {member} " in note.text]


def test_a_member_is_told_to_be_gone_once_when_that_is_on_the_disk(
    refused: Any, member: str
) -> None:
    refused.disk.refuses = ENOSPC
    refused.sleep(59_000)
    assert lines_about(refused, member) == []
    refused.disk.refuses = 0
    refused.sleep(60_000)
    refused.flush()
    [gone] = lines_about(refused, member)
    assert gone == f"group h: member {member} was silent for too long and is gone"


def test_a_member_whose_removal_the_disk_does_not_keep_is_not_told_to_be_gone(
    refused: Any, member: str
) -> None:
    for _ in range(3):
        refused.sleep(60_000)
        refused.fail_flush()
        assert lines_about(refused, member) == []
    refused.sleep(60_000)
    assert lines_about(refused, member) == []
    refused.flush()
    [gone] = lines_about(refused, member)
    assert gone == f"group h: member {member} was silent for too long and is gone"
