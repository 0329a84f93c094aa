"""Offsets go when nobody has needed them for long enough, and groups when nothing is left of them
(a.11, KIP-211).
"""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from apportion.coord import records, retention
from apportion.coord.records import CoordinatorRecord
from apportion.coord.retention import MINUTE_MS
from apportion.errors import Code
from apportion.machine import Tick
from apportion.wire.records.consumer_protocol import ConsumerProtocolSubscription
from apportion.wire.records.consumer_serde import encode
from apportion.wire.records.groups import (
    ConsumerGroupMetadataKey,
    ConsumerGroupTargetAssignmentMetadataKey,
    GroupMetadataKey,
    GroupMetadataValue,
    MemberMetadata,
    OffsetCommitKey,
    OffsetCommitValue,
)
from tests.coord.shard_driver import (
    ShardDriver,
    compacted,
    recovered,
    settings_with,
    state_of,
    through_bytes,
    topics,
)

EVERY_MS = 10_000
START_MS = 1_000_000  # the wall clock at the beginning


def driver_of(**known: Any) -> ShardDriver:
    """A shard that keeps offsets for a minute and looks for older ones every ten seconds."""
    setting = settings_with(
        offsets_retention_minutes=1, offsets_retention_check_interval_ms=EVERY_MS
    )
    return ShardDriver(setting, topics(**(known or {"foo": 3, "bar": 3})))


def kept(driver: ShardDriver, group_id: str = "g") -> list[tuple[str, int]]:
    """Topic and partition of every offset that is still there."""
    by_topic = driver.shard.ledger.offsets.get(group_id, {})
    return sorted((topic, partition) for topic, some in by_topic.items() for partition in some)


def offset_tombstone(topic: str, partition: int, group_id: str = "g") -> CoordinatorRecord:
    return CoordinatorRecord(
        OffsetCommitKey(group=group_id, topic=topic, partition=partition), None
    )


def stays_alive(driver: ShardDriver, member_id: str, epoch: int, elapsed_ms: int) -> None:
    """Time passes while a member heartbeats."""
    for _ in range(elapsed_ms // EVERY_MS):
        assert driver.beat(member_id, epoch).error_code == Code.NONE
        driver.advance(EVERY_MS)


def test_offsets_of_an_empty_group_expire_a_retention_after_each_commit() -> None:
    driver = driver_of()
    driver.commit(-1, {("foo", 0): 5})
    driver.advance(25_000)
    driver.commit(-1, {("foo", 1): 6})
    driver.advance(MINUTE_MS - 25_000 - 1)
    assert kept(driver) == [("foo", 0), ("foo", 1)]
    driver.advance(1)
    assert driver.log[-1] == offset_tombstone("foo", 0)
    driver.advance(29_999)
    assert kept(driver) == [("foo", 1)]
    driver.advance(1)
    assert driver.log[-1] == offset_tombstone("foo", 1)
    assert (kept(driver), driver.shard.ledger.offsets) == ([], {})


def test_a_commit_begins_the_time_anew() -> None:
    driver = driver_of()
    for _ in range(10):
        driver.commit(-1, {("foo", 0): 5})
        driver.advance(MINUTE_MS - EVERY_MS)
    assert kept(driver) == [("foo", 0)]


def test_an_offset_with_a_time_to_live_goes_at_that_time() -> None:
    driver = driver_of()
    driver.commit(-1, {("foo", 0): 5}, version=4, retention_time_ms=15_000)
    driver.commit(-1, {("foo", 1): 5}, version=4, retention_time_ms=600_000)
    driver.advance(20_000)
    assert kept(driver) == [("foo", 1)]
    driver.advance(570_000)
    assert kept(driver) == [("foo", 1)]
    driver.advance(10_000)
    assert kept(driver) == []


def test_a_consumer_group_keeps_what_it_subscribes_to_and_nothing_else() -> None:
    driver = driver_of()
    driver.commit(-1, {("foo", 0): 5, ("bar", 0): 6})
    epoch = driver.join("a", topics=("foo",)).member_epoch
    stays_alive(driver, "a", epoch, 3 * MINUTE_MS)
    assert kept(driver) == [("foo", 0)]
    driver.beat("a", -1)
    # its offsets were committed long ago: what counts for a consumer group is that alone
    driver.advance(EVERY_MS)
    assert driver.log[-3:] == [
        offset_tombstone("foo", 0),
        CoordinatorRecord(ConsumerGroupTargetAssignmentMetadataKey(group_id="g"), None),
        CoordinatorRecord(ConsumerGroupMetadataKey(group_id="g"), None),
    ]
    assert state_of(driver.shard) == {"groups": {}, "offsets": {}}


def test_a_group_that_nobody_is_in_and_that_has_no_offsets_goes_at_the_next_look() -> None:
    driver = driver_of()
    driver.join("a")
    driver.advance(EVERY_MS)
    assert list(driver.shard.ledger.groups) == ["g"]
    driver.beat("a", -1)
    assert list(driver.shard.ledger.groups) == ["g"]
    driver.advance(EVERY_MS)
    assert driver.shard.ledger.groups == {}


def test_a_group_without_members_stays_as_long_as_one_of_its_offsets() -> None:
    driver = driver_of()
    epoch = driver.join("a").member_epoch
    driver.commit(epoch, {("foo", 0): 5}, "a")
    driver.beat("a", -1)
    driver.advance(MINUTE_MS - EVERY_MS)
    assert (list(driver.shard.ledger.groups), kept(driver)) == (["g"], [("foo", 0)])
    driver.advance(EVERY_MS)
    assert state_of(driver.shard) == {"groups": {}, "offsets": {}}


def classic(state_ms: int, *members: bytes, protocol_type: str = "consumer") -> CoordinatorRecord:
    """The record of a classic group; each member is what it says."""
    described = tuple(
        MemberMetadata(
            member_id=f"m{number}",
            group_instance_id=None,
            client_id="c",
            client_host="/h",
            rebalance_timeout=60_000,
            session_timeout=1_800_000,
            subscription=subscription,
            assignment=b"",
        )
        for number, subscription in enumerate(members)
    )
    leader = described[0].member_id if described else None
    value = GroupMetadataValue(
        protocol_type=protocol_type,
        generation=3,
        protocol="range" if described else None,
        leader=leader,
        current_state_timestamp=state_ms,
        members=described,
    )
    return records.classic_group("g", value)


def subscribed(*names: str) -> bytes:
    return encode(ConsumerProtocolSubscription(topics=names), 1)


COMMITTED_MS = START_MS - MINUTE_MS  # a minute ago: expired where the time of the commit counts


def test_offsets_of_a_group_empty_since_nobody_knows_when_age_from_their_commit() -> None:
    driver = driver_of()
    value = OffsetCommitValue(offset=5, commit_timestamp=START_MS)
    driver.log = [records.offset_commit("g", "foo", 0, value), classic(-1)]
    driver.crash()
    driver.advance(MINUTE_MS - EVERY_MS)
    assert kept(driver) == [("foo", 0)]
    driver.advance(2 * EVERY_MS)
    assert kept(driver) == []


@pytest.mark.parametrize(
    ("group", "left"),
    [
        pytest.param(classic(START_MS), [("bar", 0), ("foo", 0)], id="empty-since-now"),
        pytest.param(classic(START_MS - MINUTE_MS + EVERY_MS), [], id="empty-for-long"),
        pytest.param(classic(-1), [], id="empty-nobody-knows-since-when"),
        pytest.param(classic(START_MS, protocol_type=""), [], id="never-had-members"),
        pytest.param(classic(START_MS, subscribed("foo")), [("foo", 0)], id="stable"),
        pytest.param(
            classic(0, subscribed("foo"), subscribed("bar")),
            [("bar", 0), ("foo", 0)],
            id="stable-reads-all",
        ),
        pytest.param(
            classic(0, subscribed("foo"), b"?"), [("bar", 0), ("foo", 0)], id="stable-unreadable"
        ),
        pytest.param(
            classic(0, b"any", protocol_type="connect"),
            [("bar", 0), ("foo", 0)],
            id="stable-no-consumers",
        ),
    ],
)
def test_a_classic_group_keeps_what_it_may_need(
    group: CoordinatorRecord, left: list[tuple[str, int]]
) -> None:
    driver = driver_of()
    value = OffsetCommitValue(offset=5, commit_timestamp=COMMITTED_MS)
    driver.log = [
        records.offset_commit("g", "foo", 0, value),
        records.offset_commit("g", "bar", 0, value),
        group,
    ]
    driver.crash()
    driver.advance(EVERY_MS)
    assert kept(driver) == left
    assert ("g" in driver.shard.ledger.groups) is bool(left)
    if not left:
        assert driver.log[-1] == CoordinatorRecord(GroupMetadataKey(group="g"), None)


def test_a_look_at_many_offsets_is_many_short_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retention, "OFFSETS_PER_STEP", 10)
    driver = driver_of(foo=64)
    for group, offsets in enumerate((25, 3, 4, 4, 4, 4, 4)):
        driver.mono_ms = group // 5  # the last two are too young, by a millisecond
        for partition in range(offsets):
            driver.commit(-1, {("foo", partition): 1}, group_id=f"g{group}")
    driver.mono_ms = MINUTE_MS
    appended: list[int] = []
    while (driver.shard.wake_at() or 0) <= driver.mono_ms and len(appended) < 10:
        before = len(driver.log)
        driver.step(Tick())
        appended.append(len(driver.log) - before)
    assert appended == [10, 10, 5 + 3, 4 + 4, 4 + 0, 0]
    assert (sorted(driver.shard.ledger.offsets), driver.shard.wake_at()) == (
        ["g5", "g6"],
        MINUTE_MS + EVERY_MS,
    )


def test_a_start_looks_after_a_whole_interval() -> None:
    driver = driver_of()
    driver.commit(-1, {("foo", 0): 5})
    driver.mono_ms += MINUTE_MS
    driver.crash()
    assert (kept(driver), driver.shard.wake_at()) == ([("foo", 0)], MINUTE_MS + EVERY_MS)
    driver.advance(EVERY_MS)
    assert kept(driver) == []


partitions = st.tuples(st.sampled_from(("foo", "bar")), st.integers(0, 2))
any_step = st.one_of(
    st.tuples(st.just("commit"), st.sampled_from("gh"), partitions),
    st.tuples(st.just("lease"), st.sampled_from("gh"), partitions),
    st.tuples(
        st.just("join"),
        st.sampled_from("gh"),
        st.sampled_from([("foo",), ("bar",), ("bar", "foo"), ()]),
    ),
    st.tuples(st.just("leave"), st.sampled_from("gh"), st.none()),
    st.tuples(st.just("crash"), st.none(), st.none()),
    st.tuples(st.just("time"), st.sampled_from([1, 9_999, 10_000, 40_000]), st.none()),
)


class RetentionModel:
    """What a plain list of commits and members says must be there after each look."""

    def __init__(self) -> None:
        self.driver = driver_of()
        self.driver.settings = settings_with(
            offsets_retention_minutes=1,
            offsets_retention_check_interval_ms=EVERY_MS,
            group_consumer_session_timeout_ms=60_000,
        )
        self.driver.crash()
        self.commits: dict[
            tuple[str, str, int], int
        ] = {}  # (group, topic, partition) -> when it may go, if it is not needed
        self.subscriptions: dict[str, tuple[str, ...]] = {}  # group -> topics of its only member

    def act(self, step: str, first: Any, second: Any) -> None:
        driver = self.driver
        if step in ("commit", "lease"):
            lease: dict[str, Any] = {"retention_time_ms": 20_000} if step == "lease" else {}
            version, lives_ms = (4, 20_000) if lease else (9, MINUTE_MS)
            if first not in self.subscriptions:
                assert driver.commit(-1, {second: 1}, group_id=first, version=version, **lease) == [
                    Code.NONE
                ]
                self.commits[first, *second] = driver.now.wall_ms + lives_ms
        elif step == "join":
            answer = driver.join("m", topics=second, group_id=first)
            assert answer.error_code == Code.NONE
            self.subscriptions[first] = second
        elif step == "leave":
            if first in self.subscriptions:
                driver.beat("m", -1, group_id=first)
                del self.subscriptions[first]
        elif step == "crash":
            driver.crash()
        else:
            self.pass_time(first)

    def pass_time(self, elapsed_ms: Any) -> None:
        until_ms = self.driver.mono_ms + elapsed_ms
        while self.driver.mono_ms < until_ms:
            step_ms = min(EVERY_MS, until_ms - self.driver.mono_ms)
            for group in self.subscriptions:
                there: Any = self.driver.shard.ledger.groups[group]
                self.driver.beat(
                    "m",
                    there.saved.members["m"].epoch,
                    group_id=group,
                )
            self.driver.advance(step_ms)
            self.check()

    def check(self) -> None:
        """Nothing that is needed or young is missing, and nothing is there that was not
        committed.
        """
        there = {(group, *partition) for group in "gh" for partition in kept(self.driver, group)}
        for partition, ends_ms in list(self.commits.items()):
            is_needed = partition[1] in self.subscriptions.get(partition[0], ())
            assert partition in there or not (is_needed or self.driver.now.wall_ms < ends_ms)
            if partition not in there:
                del self.commits[partition]
        assert there == set(self.commits)


@settings(max_examples=80, deadline=None)
@given(st.lists(any_step, min_size=5, max_size=40))
def test_a_log_of_which_offsets_have_expired_replays_to_what_is_live(
    steps: list[tuple[str, int | str | None, tuple[int | str, ...] | None]],
) -> None:
    machine = RetentionModel()
    for step in steps:
        machine.act(*step)
        driver = machine.driver
        assert state_of(driver.shard) == state_of(
            recovered(through_bytes(driver.log), driver.shard)
        )
        for keep_tombstones in (True, False):
            assert state_of(driver.shard) == state_of(
                recovered(compacted(driver.log, keep_tombstones), driver.shard)
            )
    for group in "gh":
        machine.act("leave", group, None)
    machine.pass_time(MINUTE_MS + 2 * EVERY_MS)
    assert state_of(machine.driver.shard) == {"groups": {}, "offsets": {}}
