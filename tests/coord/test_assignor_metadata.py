"""Metadata of client-side assignors: when it is saved, when a group assigns anew, its versions."""

import pytest

from apportion.errors import Code
from apportion.wire.messages.consumer_group_heartbeat import (
    AssignorVersion,
    ClientAssignor,
)
from apportion.wire.records.groups import RecordClientAssignor
from tests.coord.client_side import (
    group_of,
    install,
    join,
    offer,
    prepare,
    with_one,
    with_two,
)
from tests.coord.shard_driver import ShardDriver, settings_with


def agreement(driver: ShardDriver) -> tuple[str, int] | None:
    """The assignor and the version of the group."""
    agreed: tuple[str, int] | None = group_of(driver).saved.client_assignor
    return agreed


@pytest.mark.parametrize(
    ("before", "after", "bumps"),
    [
        (offer(metadata=b"1"), offer(metadata=b"1"), False),
        (offer(metadata=b"1"), offer(metadata=b"2"), False),
        (offer(metadata=b"1"), offer(metadata=b"2", reason=2), True),
        (offer(metadata=b"1"), offer(metadata=b"1", reason=-1), True),
        (offer(reason=2), offer(reason=2), True),
        (offer(reason=2), offer(), False),
        (offer(), offer("other"), True),
        (offer(), offer(maximum_version=1), True),
        (offer(maximum_version=1), offer(maximum_version=1, version=1), True),
    ],
    ids=[
        "the same",
        "other metadata",
        "other metadata with a reason",
        "a reason",
        "a reason again",
        "a reason that is over",
        "another name",
        "other versions",
        "metadata of another version",
    ],
)
def test_an_epoch_begins_with_a_reason_or_another_offer(
    before: ClientAssignor, after: ClientAssignor, bumps: bool
) -> None:
    driver = ShardDriver()
    join(driver, "a", before)
    prepare(driver, "a", 1)
    install(driver, "a", (1, 2), {"a": {"foo": [0, 1, 2]}})
    driver.beat("a", 1)
    answer = driver.beat("a", 2, client_assignors=(after,))
    assert (answer.error_code, answer.should_compute_assignment) == (0, bumps)
    assert group_of(driver).saved.epoch == 2 + bumps
    (saved,) = group_of(driver).saved.members["a"].metadata.client_assignors
    assert saved == RecordClientAssignor(
        name=after.name,
        minimum_version=after.minimum_version,
        maximum_version=after.maximum_version,
        reason=after.reason,
        version=after.version,
        metadata=after.metadata,
    )


def test_the_same_offer_writes_nothing() -> None:
    driver = with_one(ShardDriver())
    written = len(driver.log)
    driver.beat("a", 2, client_assignors=(offer(),))
    driver.beat("a", 2)
    assert len(driver.log) == written


def test_metadata_without_a_reason_is_saved_once_in_an_interval() -> None:
    driver = with_one(ShardDriver(settings_with(group_consumer_assignment_interval_ms=1_000)))
    saved = []
    for number in range(25):
        driver.beat("a", 2, client_assignors=(offer(metadata=b"%d" % number),))
        (assignor,) = group_of(driver).saved.members["a"].metadata.client_assignors
        saved.append(int(assignor.metadata))
        driver.advance(100)
    assert saved == [0] * 10 + [10] * 10 + [20] * 5


def test_metadata_with_a_reason_is_saved_at_once() -> None:
    driver = with_one(ShardDriver(settings_with(group_consumer_assignment_interval_ms=1_000)))
    driver.beat("a", 2, client_assignors=(offer(metadata=b"1"),))
    driver.beat("a", 2, client_assignors=(offer(metadata=b"2", reason=1),))
    (assignor,) = group_of(driver).saved.members["a"].metadata.client_assignors
    assert (assignor.reason, assignor.metadata) == (1, b"2")


def saved_of(driver: ShardDriver) -> tuple[bytes, int]:
    """The metadata and the reason of "a", as they are saved."""
    (assignor,) = group_of(driver).saved.members["a"].metadata.client_assignors
    return assignor.metadata, assignor.reason


def metadata_of(driver: ShardDriver) -> bytes:
    """The metadata of "a", as it is saved."""
    return saved_of(driver)[0]


def test_metadata_that_came_too_early_is_saved_with_a_later_heartbeat() -> None:
    driver = with_one(ShardDriver(settings_with(group_consumer_assignment_interval_ms=2_000)))
    for metadata in (b"1", b"2", b"3"):
        driver.beat("a", 2, client_assignors=(offer(metadata=metadata),))
    driver.advance(1_999)
    driver.beat("a", 2)
    assert metadata_of(driver) == b"1"
    driver.advance(1)
    driver.beat("a", 2)
    assert metadata_of(driver) == b"3"
    written = len(driver.log)
    driver.advance(2_000)
    driver.beat("a", 2)
    assert (len(driver.log), group_of(driver).saved.epoch) == (written, 2)


@pytest.mark.parametrize("interval_ms", [0, 1_000])
def test_reasons_begin_one_epoch_in_an_interval_or_in_a_second(interval_ms: int) -> None:
    driver = with_one(ShardDriver(settings_with(group_consumer_assignment_interval_ms=interval_ms)))
    written = len(driver.log)
    for number in range(20):
        driver.beat("a", 2, client_assignors=(offer(metadata=b"%d" % number, reason=1),))
        driver.advance(50)
    # Metadata and epoch.
    assert (group_of(driver).saved.epoch, len(driver.log)) == (3, written + 2)
    driver.beat("a", 2)
    assert (group_of(driver).saved.epoch, metadata_of(driver)) == (4, b"19")


def test_a_reason_that_came_too_early_stays_beside_newer_metadata() -> None:
    driver = with_one(ShardDriver())
    for reason in (1, 2, 0):
        driver.beat("a", 2, client_assignors=(offer(metadata=b"%d" % reason, reason=reason),))
    driver.advance(1_000)
    driver.beat("a", 2)
    (saved,) = group_of(driver).saved.members["a"].metadata.client_assignors
    assert (saved.metadata, saved.reason, group_of(driver).saved.epoch) == (b"0", 2, 4)


def test_a_saved_reason_stays_beside_newer_metadata_until_a_target_has_taken_it_up() -> None:
    driver = with_two(ShardDriver())
    assert prepare(driver, "b", 2).group_epoch == 3
    # What "b" computes knows nothing of this reason, and takes partitions away from its member.
    driver.beat("a", 2, client_assignors=(offer(reason=7),))
    shares = {"a": {"foo": [0]}, "b": {"foo": [1, 2]}}
    assert install(driver, "b", (2, 3), shares).error_code == 0
    driver.advance(1_000)
    assert driver.beat("a", 2).member_epoch == 2
    given_up = driver.beat("a", 2, owned={"foo": [0]}, client_assignors=(offer(metadata=b"1"),))
    assert (given_up.member_epoch, saved_of(driver)) == (3, (b"1", 7))
    assert given_up.should_compute_assignment
    told = prepare(driver, "a", 3)
    assert told.group_epoch == 4
    assert [(each.assignor.metadata, each.assignor.reason) for each in told.members] == [
        (b"1", 7),
        (b"", 0),
    ]
    assert install(driver, "a", (3, 4), shares).error_code == 0
    driver.advance(1_000)
    driver.beat("a", 3, client_assignors=(offer(metadata=b"2"),))
    assert (saved_of(driver), group_of(driver).saved.epoch) == ((b"2", 0), 4)


def test_a_saved_reason_stays_until_a_member_assigns_and_is_written_once() -> None:
    driver = with_one(ShardDriver())
    assert driver.join("b").error_code == 0  # it offers none, so the broker assigns
    epoch = group_of(driver).saved.epoch
    driver.beat("a", 2, client_assignors=(offer(reason=7),))
    written = len(driver.log)
    for reason in (0, 7, 0):
        driver.advance(1_000)
        driver.beat("a", 2, client_assignors=(offer(reason=reason),))
    assert (saved_of(driver), len(driver.log)) == ((b"", 7), written)
    assert group_of(driver).saved.epoch == epoch
    driver.beat("b", -1)
    told = driver.beat("a", 2, owned={"foo": [0, 1]}).member_epoch
    assert prepare(driver, "a", told).members[0].assignor.reason == 7
    assert install(driver, "a", (told, epoch + 1), {"a": {"foo": [0, 1, 2]}}).error_code == 0
    driver.advance(1_000)
    driver.beat("a", told, client_assignors=(offer(),))
    assert saved_of(driver) == (b"", 0)


def test_a_reason_that_stays_does_not_keep_the_next_one_waiting() -> None:
    driver = with_two(ShardDriver())
    epoch = group_of(driver).saved.epoch
    driver.beat("a", 2, client_assignors=(offer(reason=7),))
    driver.advance(1_000)
    driver.beat("a", 2, client_assignors=(offer(metadata=b"newer"),))
    driver.beat("a", 2, client_assignors=(offer(metadata=b"newest", reason=8),))
    assert (saved_of(driver), group_of(driver).saved.epoch) == ((b"newest", 8), epoch + 2)


def test_a_reason_that_came_too_early_is_saved_when_its_member_joins_again() -> None:
    driver = with_one(ShardDriver())
    for reason in (1, 2):
        driver.beat("a", 2, client_assignors=(offer(metadata=b"%d" % reason, reason=reason),))
    assert group_of(driver).saved.epoch == 3
    assert join(driver, "a", offer(metadata=b"0")).error_code == 0
    (saved,) = group_of(driver).saved.members["a"].metadata.client_assignors
    assert (saved.metadata, saved.reason, group_of(driver).saved.epoch) == (b"0", 2, 4)
    # It has begun an epoch, and does not wait any more.
    driver.advance(1_000)
    driver.beat("a", 2, client_assignors=(offer(metadata=b"0"),))
    assert group_of(driver).saved.epoch == 4


def test_a_reason_that_came_too_early_stays_beside_metadata_of_another_version() -> None:
    driver = with_one(ShardDriver())
    driver.beat("a", 2, client_assignors=(offer(maximum_version=1),))
    for reason in (1, 2):
        again = offer(maximum_version=1, metadata=b"0", reason=reason)
        driver.beat("a", 2, client_assignors=(again,))
    driver.beat("a", 2, client_assignors=(offer(maximum_version=1, version=1, metadata=b"1"),))
    (saved,) = group_of(driver).saved.members["a"].metadata.client_assignors
    assert (saved.metadata, saved.reason, group_of(driver).saved.epoch) == (b"1", 2, 5)


def test_a_reason_ends_with_the_offer_that_it_came_with() -> None:
    driver = with_one(ShardDriver())
    for reason in (1, 2):
        driver.beat("a", 2, client_assignors=(offer(reason=reason),))
    assert join(driver, "a", offer("other")).error_code == 0
    (saved,) = group_of(driver).saved.members["a"].metadata.client_assignors
    assert (saved.name, saved.reason, group_of(driver).saved.epoch) == ("other", 0, 4)


def test_another_offer_is_saved_at_once_in_place_of_what_waits() -> None:
    driver = with_one(ShardDriver())
    for number in range(2):
        driver.beat("a", 2, client_assignors=(offer(metadata=b"%d" % number, reason=1),))
    driver.beat("a", 2, client_assignors=(offer("other"),))
    assert agreement(driver) == ("other", 0)
    driver.advance(1_000)
    driver.beat("a", 2)
    assert (agreement(driver), group_of(driver).saved.epoch) == (("other", 0), 4)


def test_a_reason_begins_no_epoch_where_the_broker_assigns() -> None:
    driver = with_one(ShardDriver())
    driver.join("java")
    epoch = group_of(driver).saved.epoch
    driver.beat("a", 2, owned={"foo": [0, 1]}, client_assignors=(offer(reason=1),))
    driver.beat("a", 3, client_assignors=(offer("lag", maximum_version=1),))
    assert group_of(driver).saved.epoch == epoch


def test_a_client_assignor_named_as_the_brokers_is_another() -> None:
    driver = ShardDriver()
    driver.join("a")
    driver.beat("a", 1)
    epoch = group_of(driver).saved.epoch
    answer = driver.beat("a", epoch, client_assignors=(offer("uniform"),))
    assert (group_of(driver).saved.epoch, answer.should_compute_assignment) == (epoch + 1, True)


def test_a_member_is_asked_for_metadata_in_the_version_of_the_group() -> None:
    driver = ShardDriver()
    wide = offer(maximum_version=1, version=1, metadata=b"new")
    assert join(driver, "a", wide).requested_version == AssignorVersion()
    join(driver, "b", offer(metadata=b"old"))
    assert agreement(driver) == ("lag", 0)
    assert driver.beat("a", 1).requested_version == AssignorVersion(name="lag", version=0)
    assert driver.beat("b", 1).requested_version == AssignorVersion()
    again = driver.beat("a", 1, client_assignors=(offer(maximum_version=1, metadata=b"old"),))
    assert again.requested_version == AssignorVersion()
    # "b" brought the version, and computes.
    told = prepare(driver, "b", 1)
    assert (told.group_epoch, told.assignor_version) == (4, 0)
    assert [(each.assignor.version, each.assignor.metadata) for each in told.members] == [
        (0, b"old"),
        (0, b"old"),
    ]


def test_a_computation_in_another_version_is_refused() -> None:
    driver = ShardDriver()
    join(driver, "a", offer(maximum_version=1, version=1))
    assert prepare(driver, "a", 1).assignor_version == 1
    join(driver, "b", offer(maximum_version=0))
    assert install(driver, "a", (1, 2), {"a": {"foo": [0]}}).error_code == Code.UNKNOWN_MEMBER_ID
