"""Bounds of what the members of one group offer, and the membership that a successor gives up."""

from typing import Any

import pytest

from apportion.coord.consumer.client_assignors import (
    MAX_GROUP_METADATA_BYTES,
    MAX_METADATA_BYTES,
    MOST_OFFERS,
)
from apportion.errors import Code
from tests.coord.client_side import group_of, join, offer
from tests.coord.shard_driver import ShardDriver, recovered, settings_with, state_of, through_bytes


def agreement(driver: ShardDriver) -> tuple[str, int] | None:
    """The assignor and the version of the group."""
    agreed: tuple[str, int] | None = group_of(driver).saved.client_assignor
    return agreed


def test_the_offers_of_a_group_are_bounded() -> None:
    driver = ShardDriver()
    for number in range(MOST_OFFERS):
        assert join(driver, f"m{number}", offer(), offer(f"x{number}")).error_code == 0
    before = state_of(driver.shard)
    refused = join(driver, "z", offer(), offer("z"), server_assignor="range")
    assert (refused.error_code, refused.error_message) == (
        Code.INVALID_REQUEST,
        "The members of group g make 100 different offers of client assignors, and more are not "
        "allowed: use one that another member makes.",
    )
    assert state_of(driver.shard) == before
    # One that is there, and one in place of another.
    assert join(driver, "z", offer(), offer("x7")).error_code == 0
    changed = driver.beat("m0", 1, client_assignors=(offer(), offer("z")))
    assert (changed.error_code, agreement(driver)) == (0, ("lag", 0))


NO_ROOM = (
    Code.GROUP_MAX_SIZE_REACHED,
    "The client assignors of group g may have 67108864 bytes of metadata together, and there is no "
    "room for {} more: send less user data.",
)


def refusal(answer: Any) -> tuple[int, str | None]:
    """The code and the message of a response."""
    return answer.error_code, answer.error_message


def no_room(more_bytes: int) -> tuple[int, str | None]:
    """The refusal of so many bytes of metadata."""
    code, message = NO_ROOM
    return code, message.format(more_bytes)


def full_group(free_bytes: int, driver: ShardDriver | None = None) -> ShardDriver:
    """A group with room for so many bytes of metadata, of which "small" has one."""
    driver = driver or ShardDriver()
    for number in range(MAX_GROUP_METADATA_BYTES // MAX_METADATA_BYTES - 1):
        assert join(driver, f"m{number}", LARGE).error_code == 0
    assert join(driver, "small", offer(metadata=b"1")).error_code == 0
    rest = offer(metadata=bytes(MAX_METADATA_BYTES - 1 - free_bytes))
    assert join(driver, "rest", rest).error_code == 0
    assert group_of(driver).saved.client_metadata_bytes == MAX_GROUP_METADATA_BYTES - free_bytes
    return driver


LARGE = offer(metadata=bytes(MAX_METADATA_BYTES))


def sent_by(driver: ShardDriver, member_id: str, metadata: bytes, reason: int = 0) -> int:
    """The code of a heartbeat with that metadata."""
    sent = offer(metadata=metadata, reason=reason)
    return driver.beat(member_id, 1, client_assignors=(sent,)).error_code


def saved_of(driver: ShardDriver, member_id: str) -> tuple[bytes, int]:
    """The metadata and the reason of a member, as they are saved."""
    (saved,) = group_of(driver).saved.members[member_id].metadata.client_assignors
    return saved.metadata, saved.reason


def test_a_member_cannot_join_a_group_without_room_for_its_metadata() -> None:
    driver = full_group(free_bytes=1)
    before = state_of(driver.shard)
    assert refusal(join(driver, "z", offer(metadata=b"12"))) == no_room(2)
    assert state_of(driver.shard) == before
    assert join(driver, "z", offer(metadata=b"1")).error_code == 0


def test_another_offer_needs_room_for_its_metadata() -> None:
    driver = full_group(free_bytes=1)
    before = state_of(driver.shard)
    for name, metadata in (("other", b"123"), ("lag", b"123")):
        larger = offer(name, metadata=metadata, maximum_version=1)
        assert refusal(driver.beat("small", 1, client_assignors=(larger,))) == no_room(2)
    assert state_of(driver.shard) == before


def test_a_member_keeps_its_older_metadata_where_newer_ones_have_no_room() -> None:
    driver = full_group(free_bytes=1)
    written = len(driver.log)
    assert sent_by(driver, "small", b"123") == 0
    assert saved_of(driver, "small") == (b"1", 0)
    assert len(driver.log) == written
    assert driver.notes == [
        "group g: there is no room for the 3 bytes of metadata that member small (client client, "
        "host 127.0.0.1) sends for its client-side assignors: those of all members may have "
        "67108864; its older metadata is kept; send less user data"
    ]
    assert sent_by(driver, "small", b"12") == 0
    assert saved_of(driver, "small") == (b"12", 0)


def test_a_reason_is_heard_though_its_metadata_have_no_room() -> None:
    driver = full_group(free_bytes=1)
    epoch = group_of(driver).saved.epoch
    assert sent_by(driver, "small", b"123", reason=2) == 0
    assert (saved_of(driver, "small"), group_of(driver).saved.epoch) == ((b"1", 2), epoch + 1)
    # Now it comes too early.
    for metadata in (b"2", b"345"):
        assert sent_by(driver, "small", metadata, reason=4) == 0
    driver.advance(1_000)
    driver.beat("small", 1)
    assert (saved_of(driver, "small"), group_of(driver).saved.epoch) == ((b"2", 4), epoch + 2)


def test_a_member_that_joins_again_keeps_its_older_metadata_where_there_is_no_room() -> None:
    driver = full_group(free_bytes=1)
    assert join(driver, "small", offer(metadata=b"123", reason=1)).error_code == 0
    assert saved_of(driver, "small") == (b"1", 1)


def test_metadata_that_wait_need_room_when_they_come() -> None:
    driver = full_group(free_bytes=3)
    for metadata in (b"2", b"1234"):
        assert sent_by(driver, "small", metadata) == 0
    assert driver.notes == []
    # What waits is larger than what is saved, and takes the room of both that come later.
    assert refusal(join(driver, "z", offer(metadata=b"1"))) == no_room(1)
    assert sent_by(driver, "rest", bytes(MAX_METADATA_BYTES - 3)) == 0
    assert len(driver.notes) == 1
    driver.advance(1_000)
    assert driver.beat("small", 1).error_code == 0
    assert saved_of(driver, "small") == (b"1234", 0)
    assert group_of(driver).saved.client_metadata_bytes == MAX_GROUP_METADATA_BYTES


@pytest.mark.parametrize("end", ["less", "leave", "another offer", "crash"])
def test_room_is_free_again_when_nothing_waits_for_it(end: str) -> None:
    driver = full_group(free_bytes=1)
    for metadata in (b"2", b"12"):
        assert sent_by(driver, "small", metadata) == 0
    assert join(driver, "z", offer(metadata=b"1")).error_code == Code.GROUP_MAX_SIZE_REACHED
    match end:
        case "less":
            sent_by(driver, "small", b"3")
        case "leave":
            driver.beat("small", -1)
        case "another offer":
            driver.beat("small", 1, client_assignors=(offer("other"), offer()))
        case "crash":
            driver.crash()
    assert join(driver, "z", offer(metadata=b"1")).error_code == 0


def test_metadata_of_the_same_size_need_no_room() -> None:
    driver = full_group(free_bytes=0)
    for number in range(5):
        for each in range(100):
            metadata = bytes([number]) * MAX_METADATA_BYTES
            assert sent_by(driver, f"m{each}", metadata) == 0
    assert driver.notes == []


def test_a_full_group_costs_one_line_of_the_log_in_a_minute() -> None:
    hour_ms = 3_600_000
    driver = ShardDriver(
        settings_with(
            group_consumer_session_timeout_ms=hour_ms, group_consumer_max_session_timeout_ms=hour_ms
        )
    )
    full_group(0, driver)
    for _ in range(121):
        for member_id in ("small", "rest"):
            assert sent_by(driver, member_id, bytes(MAX_METADATA_BYTES)) == 0
        driver.advance(1_000)
    assert len([note for note in driver.notes if "no room" in note]) == 3


def test_metadata_that_was_read_from_the_log_holds_no_buffer() -> None:
    driver = ShardDriver()
    join(driver, "a", offer(metadata=b"lags"))
    group: Any = recovered(through_bytes(driver.log), driver.shard).ledger.groups["g"]
    (saved,) = group.saved.members["a"].metadata.client_assignors
    assert (type(saved.metadata), saved.metadata) == (bytes, b"lags")
