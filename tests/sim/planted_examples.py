"""Small examples of planted bugs that no test of the part itself sees: what happens without and
with each.
"""

from collections.abc import Callable
from itertools import takewhile
from typing import Any

from apportion.deadlines import Deadlines
from apportion.errors import Code, Refused, Unanswerable
from apportion.member.batch.first_look import FirstLook
from apportion.member.batch.membership import MembershipFailed
from apportion.member.batch.range_reader import RangeReader, ReaderTimeouts
from apportion.member.batch.topic_choice import TopicChoice
from apportion.member.queries import AdoptAssignment, ExistingTopics
from apportion.member.records.streams_consumer import ReportTaskOffsetSums, StreamsRecordConsumer
from apportion.member.streams.assignor import TaskShare
from apportion.streams.metadata.model import TaskId
from apportion.topics import TopicPartition
from apportion.wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatResponse
from apportion.wire.records.groups import ConsumerGroupCurrentMemberAssignmentKey
from tests.coord import shard_driver
from tests.coord.classic_shard_driver import ClassicShardDriver, ScriptedClient, ask, join_and_sync
from tests.coord.client_side import group_of, offer, with_one
from tests.coord.shard_driver import ShardDriver, recovered, state_of, topic_id
from tests.member.looked_at import LookedAt
from tests.member.record_consumer_host import P0, P1, RecordConsumerHost
from tests.member.three_brokers import A0, ThreeBrokers


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


def who_is_left_of_those_silent_since_a_crash() -> Any:
    driver: Any = shard_driver.ShardDriver()
    driver.join("A")
    driver.crash()
    driver.advance(100_000)
    return list(driver.shard.ledger.groups["g"].saved.members)


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


def what_is_due_though_it_was_put_off() -> Any:
    deadlines, due = Deadlines(), []
    deadlines.arm(("a",), 5)
    deadlines.arm(("b",), 5)
    for key in deadlines.take_due(5):
        due.append(key)
        deadlines.arm(("b",), 9)
    return due


def what_a_static_member_is_told_after_a_generation_without_it() -> Any:
    """The generation has the number of one that the member knows, and that a crash has lost."""
    driver, client, other = ClassicShardDriver(), ScriptedClient("A"), ScriptedClient("B")
    client.instance_id, client.session_ms = "i", 2 * client.rebalance_ms
    join_and_sync(driver, client)
    driver.crash()
    client.generation += 1
    ask(driver, other, other.joining(), version=3)
    driver.advance(client.rebalance_ms)
    return Code(driver.send(client.beating(), 4).error_code)


def a_reason_begins_an_epoch() -> Any:
    driver = with_one(ShardDriver())
    driver.beat("a", 2, client_assignors=(offer(reason=1),))
    return group_of(driver).saved.epoch


def look_in_an_outage() -> str:
    """Whether a query may begin whose broker comes after ten seconds."""
    cluster = LookedAt()
    cluster.fails(ExistingTopics, Unanswerable("no broker"), 10_000)
    try:
        cluster.look(FirstLook("g", "b:9092", TopicChoice(("t",))))
    except MembershipFailed:
        return "ends"
    return "begins"


TIMEOUTS = ReaderTimeouts(request_ms=30_000, silence_ms=120_000)


def batches_of_a_range_that_needs_two_requests() -> int:
    brokers = ThreeBrokers()
    brokers.most_batches = 5
    brokers.run(RangeReader(brokers.cache, A0, (0, 100), TIMEOUTS).read())
    return len(brokers.delivered)


def how_a_read_of_a_topic_ends_that_was_created_again() -> str:
    brokers = ThreeBrokers()
    before = A0._replace(topic_id=b"o" * 16)
    reader = RangeReader(brokers.cache, before, (0, 100), TIMEOUTS)
    try:
        brokers.run(reader.read_remaining(fail_on_data_loss=False))
    except Refused:
        return "fails"
    return f"at {reader.position}"


KEPT, GONE = TaskId(0, 0), TaskId(0, 1)


def tasks_told_before_a_revocation_is_acknowledged() -> list[list[TaskId]]:
    host = RecordConsumerHost()
    host.rule = StreamsRecordConsumer(host.rule.settings)
    host.tasks = TaskShare(
        1, 11, {KEPT: (TopicPartition("t", 0),), GONE: (TopicPartition("t", 1),)}
    )
    host.receives(P0, P1)
    host.poll(limit=0)
    host.queries.clear()
    host.receives(P0, epoch=3)
    host.poll(limit=0)
    queries = host.named(ReportTaskOffsetSums, AdoptAssignment)
    before = takewhile(lambda query: not isinstance(query, AdoptAssignment), queries)
    return [[*query.offset_sums] for query in before]


EXAMPLES: dict[str, tuple[Callable[[], Any], Any, Any]] = {
    "session-after-recovery": (who_is_left_of_those_silent_since_a_crash, [], ["A"]),
    "KAFKA-16147": (who_has_what_was_given_back, [0, 1, 2], [0, 1]),
    "KAFKA-19862": (a_log_that_lost_a_release, True, "B cannot have unit 2: A still has it"),
    "due-all-the-same": (what_is_due_though_it_was_put_off, [("a",)], [("a",), ("b",)]),
    "lost-number": (
        what_a_static_member_is_told_after_a_generation_without_it,
        Code.UNKNOWN_MEMBER_ID,
        Code.NONE,
    ),
    "reason-unheard": (a_reason_begins_an_epoch, 3, 2),
    "look-ends-at-once": (look_in_an_outage, "begins", "ends"),
    "answered-is-read": (batches_of_a_range_that_needs_two_requests, 10, 5),
    "same-name-is-there": (how_a_read_of_a_topic_ends_that_was_created_again, "at 100", "fails"),
    "tasks-outlive-partitions": (tasks_told_before_a_revocation_is_acknowledged, [[KEPT]], []),
}
"""Bug -> an example, what comes of it without the bug, and with it."""
