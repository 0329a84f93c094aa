"""Bounds of what the members of one group offer, and the membership that a successor gives up."""

from typing import Any

from apportion.coord.consumer.client_assignors import (
    MAX_GROUP_METADATA_BYTES,
    MAX_METADATA_BYTES,
    MOST_OFFERS,
)
from apportion.errors import Code
from tests.coord.client_side import group_of, join, offer, with_one
from tests.coord.shard_driver import ShardDriver, recovered, state_of, through_bytes


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


def test_the_metadata_of_a_group_is_bounded() -> None:
    driver = ShardDriver()
    size, last = MAX_METADATA_BYTES, MAX_GROUP_METADATA_BYTES // MAX_METADATA_BYTES - 1
    large = offer(metadata=bytes(size))
    for number in range(last):
        assert join(driver, f"m{number}", large).error_code == 0
    assert join(driver, "small").error_code == 0
    # What waits until the next heartbeat is not saved either, if there is no room by then.
    for metadata in (b"1", bytes(size)):
        driver.beat("small", 1, client_assignors=(offer(metadata=metadata),))
    assert join(driver, "z", offer(metadata=bytes(size - 1))).error_code == 0
    driver.advance(1_000)
    assert driver.beat("small", 1).error_code == 0
    assert group_of(driver).saved.client_metadata_bytes == MAX_GROUP_METADATA_BYTES
    before = state_of(driver.shard)
    refused = driver.beat("small", 1, client_assignors=(offer(metadata=b"12", reason=1),))
    assert (refused.error_code, refused.error_message) == (
        Code.GROUP_MAX_SIZE_REACHED,
        "The client assignors of group g have 67108864 bytes of metadata already.",
    )
    assert state_of(driver.shard) == before
    assert driver.beat("m0", 1, client_assignors=(large,)).error_code == 0


def test_a_member_that_replaces_another_gives_its_own_offer_up() -> None:
    driver = with_one(ShardDriver())
    assert join(driver, "s", instance_id="i").error_code == 0
    driver.beat("s", -2, instance_id="i")
    assert join(driver, "a", offer("other"), instance_id="i").error_code == 0
    assert (agreement(driver), list(group_of(driver).saved.members)) == (("other", 0), ["a"])


def test_metadata_that_was_read_from_the_log_holds_no_buffer() -> None:
    driver = ShardDriver()
    join(driver, "a", offer(metadata=b"lags"))
    group: Any = recovered(through_bytes(driver.log), driver.shard).ledger.groups["g"]
    (saved,) = group.saved.members["a"].metadata.client_assignors
    assert (type(saved.metadata), saved.metadata) == (bytes, b"lags")
