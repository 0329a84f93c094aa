"""Every planted bug is where its guard is, and does something: a tiny example ends otherwise with
it.
"""

import re
from collections.abc import Callable
from dataclasses import replace
from inspect import isfunction, signature
from pathlib import Path
from typing import Any

import pytest

from apportion.assign.by_name import ClusterTopics, Given, by_topic
from apportion.coord.shard_events import SettingsChanged
from apportion.errors import Code
from apportion.machine import Instant, Tick
from apportion.member.batch.fences import admit_range
from apportion.member.batch.plan import LogBounds, PlanInput, plan_batch
from apportion.member.batch.span import EMPTY_SPAN, sorted_span
from apportion.member.batch.writer_reports import WriterReport
from apportion.member.consumer.machine import ConsumerMember
from apportion.member.consumer.requests import ConsumerSettings
from apportion.member.group_claims import AnotherSink, metadata_of
from apportion.member.membership import (
    Adopted,
    Answered,
    CoordinatorFound,
    SendToCoordinator,
    Subscribe,
    from_id_parts,
    to_id_parts,
)
from apportion.topics import IdPartition, TopicIdPartition
from apportion.wire.messages.consumer_group_heartbeat import (
    Assignment,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from apportion.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from apportion.wire.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup
from apportion.wire.records.groups import ConsumerGroupCurrentMemberAssignmentKey
from tests.coord import shard_driver
from tests.coord.shard_driver import recovered, state_of, topic_id, topics
from tests.coord.toy_assignor import Members, Toy, with_toy
from tests.member.planner_host import P0 as P0_OF_T
from tests.member.planner_host import PlannerHost, held, make_planner
from tests.node.kit import NodeDriver
from tests.sim.classic_examples import CLASSIC_EXAMPLES
from tests.sim.install_examples import INSTALL_EXAMPLES
from tests.sim.planted import PLANTED
from tests.sim.read_examples import READ_EXAMPLES
from tests.sim.record_examples import RECORD_EXAMPLES
from tests.sim.retry_examples import RETRY_EXAMPLES
from tests.sim.task_examples import TASK_EXAMPLES

PAGE = Path(__file__).parents[2] / "docs" / "guards.md"
P0, P1 = (IdPartition(b"T" * 16, number) for number in range(2))
PLACE = TopicIdPartition("t", b"i" * 16, 0)


def given(answer: ConsumerGroupHeartbeatResponse) -> dict[bytes, tuple[int, ...]]:
    """What an answer gives, by topic id."""
    assert answer.error_code == Code.NONE, answer
    assert answer.assignment is not None, answer
    return {part.topic_id: part.partitions for part in answer.assignment.topic_partitions}


def shared() -> shard_driver.ShardDriver:
    """A had foo-0, foo-1 and foo-2; since B joined it is told to give up one."""
    driver = shard_driver.ShardDriver()
    assert given(driver.join("A")) == {topic_id("foo"): (0, 1, 2)}
    driver.join("B")
    assert given(driver.beat("A", 2)) == {topic_id("foo"): (0, 1)}
    return driver


def what_b_gets_before_a_let_go() -> Any:
    driver = shard_driver.ShardDriver()
    driver.join("A")
    return given(driver.join("B"))


def a_beat_after_a_lost_answer() -> Any:
    driver = shared()
    driver.beat("A", 2, owned={"foo": [0, 1]})
    return driver.beat("A", 2, owned={"foo": [0, 1]}).error_code


def a_commit_of_an_older_epoch() -> Any:
    driver = shard_driver.ShardDriver()
    driver.join("A")
    return driver.commit(1, {("foo", 0): 5}, "A")


def a_commit_of_an_older_epoch_for_a_kept_partition() -> Any:
    driver = shared()
    driver.beat("A", 2, owned={"foo": [0, 1]})
    return driver.commit(2, {("foo", 0): 5}, "A")


def join() -> ConsumerGroupHeartbeatRequest:
    return ConsumerGroupHeartbeatRequest(
        group_id="g",
        member_id="m",
        member_epoch=0,
        rebalance_timeout_ms=10_000,
        subscribed_topic_names=("t",),
        topic_partitions=(),
    )


def a_join_before_the_flush() -> Any:
    play = NodeDriver()
    play.create("t")
    # its shard is loaded
    play.call(OffsetFetchRequest(groups=(OffsetFetchRequestGroup(group_id="g", topics=None),)), 9)
    return play.ask(join()) in play.answers


def a_fetch_of_a_commit_before_the_flush() -> Any:
    play = NodeDriver()
    play.create("t")
    partition = OffsetCommitRequestPartition(partition_index=0, committed_offset=7)
    play.call(OffsetFetchRequest(groups=(OffsetFetchRequestGroup(group_id="g", topics=None),)), 9)
    commit = play.ask(
        OffsetCommitRequest(
            group_id="g", topics=(OffsetCommitRequestTopic(name="t", partitions=(partition,)),)
        ),
        8,
    )
    fetch = play.ask(
        OffsetFetchRequest(groups=(OffsetFetchRequestGroup(group_id="g", topics=None),)), 9
    )
    return commit in play.answers, fetch in play.answers


def what_is_acknowledged_before_it_is_adopted() -> Any:
    def accepted(epoch: int, *assigned: IdPartition) -> ConsumerGroupHeartbeatResponse:
        assignment = Assignment(topic_partitions=to_id_parts(assigned))
        return ConsumerGroupHeartbeatResponse(
            member_id="m", member_epoch=epoch, heartbeat_interval_ms=1_000, assignment=assignment
        )

    member = ConsumerMember(ConsumerSettings(group_id="g", member_id="m"))
    start, later = Instant(0, 0), Instant(1_000, 1_000)
    member.step(Subscribe(("t",)), start)
    member.step(CoordinatorFound(1), start)
    member.step(Answered(2, accepted(1, P0, P1)), start)
    member.step(Adopted(1, (P0, P1)), start)
    member.step(Answered(3, accepted(1, P0)), start)
    beat: Any
    [beat] = [
        action.request
        for action in member.step(Tick(), later)
        if isinstance(action, SendToCoordinator)
    ]
    return beat.topic_partitions and from_id_parts(beat.topic_partitions)


def who_is_left_of_those_silent_since_a_crash() -> Any:
    driver: Any = shard_driver.ShardDriver()
    driver.join("A")
    driver.crash()
    driver.advance(100_000)
    return list(driver.shard.ledger.groups["g"].saved.members)


def who_is_left_after_a_revocation_in_time() -> Any:
    driver: Any = shared()
    driver.advance(10_000)
    driver.beat("A", 2, owned={"foo": [0, 1]})
    driver.advance(25_000)
    return list(driver.shard.ledger.groups["g"].saved.members)


def a_second_member_of_an_instance() -> Any:
    driver = shard_driver.ShardDriver()
    driver.join("A", instance_id="i")
    return driver.join("B", instance_id="i").error_code


def rows_that_the_sink_has() -> Any:
    return admit_range(PLACE, (900, 1200), 1000).lower


def where_a_restarted_source_begins() -> Any:
    driver = PlanInput(checkpoint="c", logs={PLACE: LogBounds(0, 20)}, committed={PLACE: 4})
    return plan_batch(sorted_span("c", {PLACE: (4, 10)}), driver).span.ranges[PLACE]


def where_a_query_with_another_sink_begins() -> Any:
    host, query = PlannerHost(), make_planner()
    host.offsets, host.metadata = {P0_OF_T: 4}, {P0_OF_T: metadata_of(("/lake/other",))}
    question = host.attempt(query.plan_next(EMPTY_SPAN))
    host.report = WriterReport(("/lake/t",))
    host.sees(target=held(P0_OF_T))
    try:
        return host.attempt(query.plan_next(question)).ranges[P0_OF_T]
    except AnotherSink:
        return "nowhere"


def who_has_what_was_given_back() -> Any:
    """A acknowledges foo-2 when B, for whom it was, has left: it comes back to A in the same
    step.
    """
    driver = shared()
    driver.beat("B", -1)
    assert given(driver.beat("A", 2, owned={"foo": [0, 1]})) == {topic_id("foo"): (0, 1, 2)}
    return sorted(index for _, index in state_of(driver.shard)["groups"]["g"]["held"])


def a_log_that_lost_a_release() -> Any:
    """Of A's records only the first and the last are left: the one that freed foo-2 for B was
    superseded, and is gone.
    """
    driver = shared()
    driver.beat("A", 2, owned={"foo": [0, 1]})
    assert given(driver.beat("B", 3)) == {topic_id("foo"): (2,)}
    driver.join("C")
    driver.beat("A", 3)
    mine = [
        record
        for record in driver.log
        if isinstance(record.key, ConsumerGroupCurrentMemberAssignmentKey)
        and record.key.member_id == "A"
    ]
    assert len(mine) > 2
    thinned = [record for record in driver.log if record not in mine[1:-1]]
    try:
        return state_of(recovered(thinned, driver.shard)) == state_of(driver.shard)
    except RuntimeError as error:
        return str(error)


def what_is_left_of_a_topic_that_is_not_subscribed_to() -> Any:
    driver = shard_driver.ShardDriver(known=topics(bar=1, foo=3))
    driver.join("A", topics=("bar", "foo"))
    driver.join("B")
    driver.beat("A", 2)
    driver.beat("A", 2, subscribed_topic_names=("bar",))
    assigned = state_of(driver.shard)["groups"]["g"]["members"]["A"]["assigned"]
    return sorted(index for topic, index in assigned if topic == topic_id("foo"))


def what_is_left_of_it_while_the_target_lags() -> Any:
    driver = shard_driver.ShardDriver(
        shard_driver.settings_with(group_consumer_assignment_interval_ms=1_000),
        known=topics(bar=1, foo=3),
    )
    driver.join("A", topics=("bar", "foo"))
    driver.beat("A", 2, subscribed_topic_names=("bar",))
    assigned = state_of(driver.shard)["groups"]["g"]["members"]["A"]["assigned"]
    return sorted(index for topic, index in assigned if topic == topic_id("foo"))


def what_a_member_gets_when_its_expression_is_resolved() -> Any:
    driver = shard_driver.ShardDriver()
    driver.join("A", topics=(), subscribed_topic_regex="fo.")
    driver.end_computations()
    answer = driver.beat("A", 1)
    return {} if answer.assignment is None else given(answer)


def who_gets_what_an_assignor_gives_to_both() -> Any:
    def to_both(cluster: ClusterTopics, members: Members) -> Any:
        return {member: Given(by_topic([("foo", 0)])) for member in members}

    driver = with_toy(Toy(to_both))
    driver.join("A")
    driver.join("B")
    driver.end_computations()
    driver.beat("A", 1)
    driver.end_computations()
    members = state_of(driver.shard)["groups"]["g"]["members"]
    return [name for name in members if (topic_id("foo"), 0) in (members[name]["target"] or ())]


def who_is_left_by_the_interval_that_was_told() -> Any:
    driver: Any = shard_driver.ShardDriver()
    driver.join("A")
    shorter = replace(
        driver.shard.settings,
        group_consumer_session_timeout_ms=2_000,
        group_consumer_heartbeat_interval_ms=500,
    )
    changed = SettingsChanged(driver.shard.settings, {"g": shorter})
    driver.step(changed)
    driver.advance(4_000)
    return list(driver.shard.ledger.groups["g"].saved.members)


# bug -> an example, what comes of it without the bug, and with it
EXAMPLES: dict[str, tuple[Callable[[], Any], Any, Any]] = {
    "grant-before-release": (what_b_gets_before_a_let_go, {}, {topic_id("foo"): (2,)}),
    "previous-epoch": (a_beat_after_a_lost_answer, Code.NONE, Code.FENCED_MEMBER_EPOCH),
    "commit-epoch": (a_commit_of_an_older_epoch, [Code.STALE_MEMBER_EPOCH], [Code.NONE]),
    "older-commit": (
        a_commit_of_an_older_epoch_for_a_kept_partition,
        [Code.NONE],
        [Code.STALE_MEMBER_EPOCH],
    ),
    "reply-before-durable": (a_join_before_the_flush, False, True),
    "overtaking-read": (a_fetch_of_a_commit_before_the_flush, (False, False), (False, True)),
    "early-acknowledgement": (what_is_acknowledged_before_it_is_adopted, None, (P0,)),
    "session-after-recovery": (who_is_left_of_those_silent_since_a_crash, [], ["A"]),
    "rebalance-timer": (who_is_left_after_a_revocation_in_time, ["A", "B"], ["B"]),
    "static-fencing": (a_second_member_of_an_instance, Code.UNRELEASED_INSTANCE_ID, Code.NONE),
    "sink-fence": (rows_that_the_sink_has, 1000, 900),
    "position-from-memory": (where_a_restarted_source_begins, (10, 20), (4, 20)),
    "another-sink": (where_a_query_with_another_sink_begins, "nowhere", (4, 10)),
    "session-at-once": (who_is_left_by_the_interval_that_was_told, ["A"], []),
    "KAFKA-16147": (who_has_what_was_given_back, [0, 1, 2], [0, 1]),
    "KAFKA-19862": (a_log_that_lost_a_release, True, "B cannot have unit 2: A still has it"),
    "match-keeps-epoch": (
        what_a_member_gets_when_its_expression_is_resolved,
        {topic_id("foo"): (0, 1, 2)},
        {},
    ),
    "answer-unchecked": (who_gets_what_an_assignor_gives_to_both, ["A"], ["A", "B"]),
    "KAFKA-19431": (what_is_left_of_a_topic_that_is_not_subscribed_to, [], [0]),
    "kept-while-the-target-lags": (what_is_left_of_it_while_the_target_lags, [], [0, 1, 2]),
    **INSTALL_EXAMPLES,
    **CLASSIC_EXAMPLES,
    **RECORD_EXAMPLES,
    **RETRY_EXAMPLES,
    **READ_EXAMPLES,
    **TASK_EXAMPLES,
}


@pytest.mark.parametrize("name", PLANTED)
def test_a_planted_bug_takes_the_place_of_something_that_is_asked_the_same(name: str) -> None:
    for target, attribute, faulty in PLANTED[name].swaps:
        right = getattr(target, attribute)
        assert right is not faulty
        if isfunction(right):
            assert list(signature(right).parameters) == list(signature(faulty).parameters)
        elif isinstance(right, dict):
            assert right.keys() == faulty.keys()
        else:
            assert type(right) is type(faulty)


@pytest.mark.parametrize("name", PLANTED)
def test_a_planted_bug_changes_what_happens(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    example, right, wrong = EXAMPLES[name]
    assert example() == right
    PLANTED[name].plant(monkeypatch)
    assert example() == wrong
    monkeypatch.undo()
    assert example() == right


def test_the_page_of_the_guards_names_every_planted_bug() -> None:
    assert re.findall(r"^\| `([^`]+)` \|", PAGE.read_text(), re.MULTILINE) == list(PLANTED)
