"""What is saved compares as one value, names what differs, and survives a log cleaner."""

from collections.abc import Sequence
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from apportion.coord import records
from apportion.coord.consumer.client_assignors import AgreedAssignor
from apportion.coord.consumer.reconcile import MemberState
from apportion.coord.consumer.state import ConsumerGroupSavedState
from apportion.sim.checks.saved import (
    SavedGroup,
    SavedMember,
    SavedShard,
    compact,
    difference_or_none,
    read_during_compaction,
    replay_records,
    saved_state,
)
from apportion.wire.records.groups import (
    ConsumerGroupCurrentMemberAssignmentValue,
    ConsumerGroupRegularExpressionValue,
    OffsetCommitValue,
    RecordClientAssignor,
)
from tests.sim.test_laws import BAR, FOO, member_metadata, partitions_given


def current(
    member_id: str,
    epoch: int,
    parts: Sequence[tuple[bytes, tuple[int, ...]]],
    revoking: Sequence[tuple[bytes, tuple[int, ...]]] = (),
    state: MemberState = MemberState.STABLE,
    group_id: str = "g",
) -> records.CoordinatorRecord:
    value = ConsumerGroupCurrentMemberAssignmentValue(
        member_epoch=epoch,
        previous_member_epoch=epoch - 1,
        state=int(state),
        assigned_partitions=partitions_given(parts, epoch),
        partitions_pending_revocation=partitions_given(revoking, epoch),
    )
    return records.current_assignment(group_id, member_id, value)


LOG = [
    records.member_metadata(
        "g", "a", member_metadata("foo", instance_id="i", server_assignor="range")
    ),
    records.member_metadata("g", "b", member_metadata("bar", "foo", subscribed_topic_regex="fo.")),
    records.regular_expression("g", "fo.", ConsumerGroupRegularExpressionValue(topics=("foo",))),
    records.group_epoch("g", 2, 7),
    records.target_assignment("g", "a", [(FOO, (0,))]),
    records.target_assignment("g", "b", [(BAR, (0,)), (FOO, (1,))]),
    records.assignment_epoch("g", 2, 0),
    current("a", 2, [(FOO, (0,))], revoking=[(FOO, (1,))], state=MemberState.UNREVOKED),
    current("b", 2, [(BAR, (0,))]),
    records.offset_commit("g", "foo", 0, OffsetCommitValue(offset=5)),
    records.offset_commit("g", "foo", 1, OffsetCommitValue(offset=6)),
    records.offset_commit("g", "foo", 1, None),
]


def test_the_whole_state_is_in_the_value() -> None:
    member: Any = SavedMember
    group: Any = SavedGroup
    assert saved_state(replay_records(LOG)) == SavedShard(
        {
            "g": group(
                epoch=2,
                assignment_epoch=2,
                metadata_hash=7,
                members={
                    "a": member(
                        member_metadata("foo", instance_id="i", server_assignor="range"),
                        epoch=2,
                        previous_epoch=1,
                        state=MemberState.UNREVOKED,
                        assigned={(FOO, 0): 2},
                        pending_revocation={(FOO, 1): 2},
                        target=((FOO, 0),),
                        target_answer=records.NO_ANSWER,
                    ),
                    "b": member(
                        member_metadata("bar", "foo", subscribed_topic_regex="fo."),
                        epoch=2,
                        previous_epoch=1,
                        state=MemberState.STABLE,
                        assigned={(BAR, 0): 2},
                        pending_revocation={},
                        target=((BAR, 0), (FOO, 1)),
                        target_answer=records.NO_ANSWER,
                    ),
                },
                instances={"i": "a"},
                subscriber_counts={"foo": 3, "bar": 1},
                expression_counts={"fo.": 1},
                resolutions={"fo.": ("foo",)},
                assignor_votes={"range": 1},
                client_offers={},
                client_assignor=None,
                protocol_counts={},
                classic_member_count=0,
                stable_members_by_epoch={2: 1},
                owners={(FOO, 0): "a", (FOO, 1): "a", (BAR, 0): "b"},
            )
        },
        {"g": {"foo": {0: OffsetCommitValue(offset=5)}}},
    )


def test_client_side_assignors_are_in_the_value() -> None:
    offered = member_metadata(client_assignors=(RecordClientAssignor(name="lag"),))
    answer = records.TargetAnswer(1, 2, b"so")
    log = [
        records.member_metadata("g", "a", offered),
        records.target_assignment("g", "a", [], answer),
    ]
    group: Any = saved_state(replay_records(log)).groups["g"]
    assert (group.client_offers, group.client_assignor, group.members["a"].target_answer) == (
        {(("lag", 0, 0),): 1},
        AgreedAssignor("lag", 0),
        answer,
    )


def test_the_numbering_of_topics_and_the_order_of_records_do_not_matter() -> None:
    backwards: Any = replay_records(reversed(LOG[:10]))
    forwards: Any = replay_records(LOG)
    assert backwards.groups["g"].saved.units.ids != forwards.groups["g"].saved.units.ids
    assert saved_state(backwards) == saved_state(forwards)


def test_a_counter_that_is_zero_is_not_there() -> None:
    ledger: Any = replay_records(LOG)
    ledger.groups["g"].saved.assignor_votes["uniform"] = 0
    assert difference_or_none(saved_state(ledger), saved_state(replay_records(LOG))) is None


def test_the_value_stays_when_the_ledger_goes_on() -> None:
    ledger = replay_records(LOG)
    before = saved_state(ledger)
    group = ledger.groups["g"].saved
    assert isinstance(group, ConsumerGroupSavedState)
    group.instances.clear()
    assert group is not None
    group.members["b"].epoch = 9
    ledger.offsets["g"]["foo"].clear()
    assert before == saved_state(replay_records(LOG))


def test_the_first_difference_is_named() -> None:
    live = saved_state(replay_records(LOG))

    def differs(*changes: records.CoordinatorRecord) -> Any:
        return difference_or_none(live, saved_state(replay_records([*LOG, *changes])))

    assert differs() is None
    assert (
        differs(records.group_epoch("g", 3, 7)) == "groups g, epoch is 2 live and 3 in the replay."
    )
    assert differs(records.target_assignment("g", "b", [(BAR, (0,))])) == (
        f"groups g, members b, target is [{BAR.hex()}-0, {FOO.hex()}-1] live and "
        f"[{BAR.hex()}-0] in the replay."
    )
    assert (
        differs(current("b", 2, []))
        == f"groups g, members b, assigned {BAR.hex()}-0 is 2 live and missing in the replay."
    )
    assert differs(records.group_epoch("h", 1, 0)).startswith("groups h is SavedGroup(epoch=1, ")
    assert differs(records.group_epoch("h", 1, 0)).endswith(" in the replay and missing live.")
    assert differs(records.offset_commit("g", "foo", 0, OffsetCommitValue(offset=4))) == (
        f"offsets g, foo, 0 is {OffsetCommitValue(offset=5)!r} live and "
        f"{OffsetCommitValue(offset=4)!r} in the replay."
    )


def offset(partition: int, committed: int | None) -> records.CoordinatorRecord:
    (record,) = commits("g", partition, committed)
    return record


def test_a_cleaner_leaves_the_last_record_of_each_key_and_does_not_touch_the_rest() -> None:
    log = [offset(0, 1), offset(1, 1), offset(0, None), offset(1, 2), offset(0, 3), offset(1, None)]
    assert compact(log, 0, True) == log
    assert compact(log, 3, False) == [
        offset(1, 1),
        offset(0, None),
        offset(1, 2),
        offset(0, 3),
        offset(1, None),
    ]
    assert compact(log, 3, True) == [offset(1, 1), offset(1, 2), offset(0, 3), offset(1, None)]
    assert compact(log, 6, False) == [offset(0, 3), offset(1, None)]
    assert compact(log, 6, True) == [offset(0, 3)]
    assert len(log) == 6


def test_a_reader_that_the_cleaner_overtakes_sees_the_old_beginning_and_the_new_rest() -> None:
    log = [
        offset(0, 1),
        offset(1, 1),
        offset(0, None),
        offset(1, 2),
        offset(2, None),
        offset(1, 3),
        offset(0, 9),
    ]
    assert read_during_compaction(log, 1, 6) == [
        offset(0, 1),
        offset(0, None),
        offset(2, None),
        offset(1, 3),
        offset(0, 9),
    ]
    assert read_during_compaction(log, 4, 2) == log


def test_a_claim_may_be_read_whose_release_the_cleaner_took() -> None:
    """KAFKA-19862: b has what a gave up, and the record in which a gave it up is gone."""
    log = [
        *LOG[:6],
        current("a", 2, [(FOO, (0, 1))]),
        current("a", 3, [(FOO, (0,))]),
        current("b", 3, [(FOO, (1,))]),
    ]
    log.append(current("a", 4, [(FOO, (0,))]))
    left = read_during_compaction(log, 7, len(log))
    assert left == [*log[:7], log[8], log[9]]
    assert (
        difference_or_none(saved_state(replay_records(log)), saved_state(replay_records(left)))
        is None
    )


def stays(
    group_id: str, member_id: str, epoch: int, topic_names: tuple[str, ...], partition: int
) -> list[records.CoordinatorRecord]:
    """A member that says what it wants, and gets it; no two members ever have one partition."""
    partitions = [(BAR if member_id == "a" else FOO, (partition,))]
    return [
        records.member_metadata(
            group_id,
            member_id,
            member_metadata(*topic_names, instance_id=f"i{partition}{member_id}"),
        ),
        records.group_epoch(group_id, epoch, epoch),
        records.target_assignment(group_id, member_id, partitions),
        records.assignment_epoch(group_id, epoch, 0),
        current(member_id, epoch, partitions, group_id=group_id),
    ]


def ends(group_id: str) -> list[records.CoordinatorRecord]:
    """A group that its members leave, and that is deleted."""
    gone = [
        record for member_id in "ab" for record in records.member_tombstones(group_id, member_id)
    ]
    return [*gone, *records.group_tombstones(group_id)]


def commits(
    group_id: str, partition: int, committed: int | None
) -> list[records.CoordinatorRecord]:
    return [
        records.offset_commit(
            group_id,
            "foo",
            partition,
            None if committed is None else OffsetCommitValue(offset=committed),
        )
    ]


GROUPS, MEMBERS, PARTITIONS = st.sampled_from("gh"), st.sampled_from("ab"), st.integers(0, 2)
STEPS = st.one_of(
    st.builds(commits, GROUPS, PARTITIONS, st.none() | st.integers(0, 9)),
    st.builds(
        stays,
        GROUPS,
        MEMBERS,
        st.integers(2, 9),
        st.sampled_from([("foo",), ("bar", "foo"), ()]),
        PARTITIONS,
    ),
    st.builds(records.member_tombstones, GROUPS, MEMBERS),
    st.builds(ends, GROUPS),
)
LOGS = st.lists(STEPS, max_size=12).map(lambda steps: [record for step in steps for record in step])


@settings(max_examples=200, deadline=None)
@given(
    LOGS,
    st.lists(st.tuples(st.floats(0, 1), st.booleans()), min_size=1, max_size=3),
    st.floats(0, 1),
    st.floats(0, 1),
)
def test_however_often_a_log_is_cleaned_it_says_the_same(
    log: list[records.CoordinatorRecord],
    rounds: list[tuple[float, bool]],
    share: float,
    read: float,
) -> None:
    """The last cleaner comes while the log is read. The logs of real coordinators pass the same law
    in the tests of `coord`.
    """
    left = log
    for cleaned, drops_tombstones in rounds:
        left = compact(left, round(len(left) * cleaned), drops_tombstones)
    left = read_during_compaction(left, round(len(left) * share * read), round(len(left) * share))
    assert (
        difference_or_none(saved_state(replay_records(log)), saved_state(replay_records(left)))
        is None
    )
