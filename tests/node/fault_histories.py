"""Lives of a broker in which a step may break off: faults, what clients ask, and what they know of
it.
"""

from collections.abc import Callable, Sequence
from traceback import extract_stack
from typing import Any

import pytest

from apportion.machine import Arrived, Flush, Flushed, Gone, Instant, Reply, Tick, Ticket
from apportion.node.coordinators import Coordinators
from apportion.node.partitions import Partition
from apportion.store.disk import DiskError
from apportion.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from apportion.wire.messages.incremental_alter_configs import IncrementalAlterConfigsRequest
from apportion.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from tests.message_texts import request_of
from tests.node import kit
from tests.node.config_requests import SESSION, incremental
from tests.node.kit import NodeDriver

TOPICS, PARTITIONS, GROUPS = ("t", "u"), 2, ("g", "h", "i")
EXPIRING = "r"
"""A topic whose records expire."""
RETENTION_MS = 20_000
SMALL = {
    "group.initial.rebalance.delay.ms": 100,
    "offsets.topic.num.partitions": 2,
    "offsets.topic.segment.bytes": 400,
    "log.retention.check.interval.ms": 5_000,
}
"""A broker that looks often for what has expired, and whose logs of groups are soon worth
cleaning.
"""
ALTERED = {"group": SESSION, "topic": "segment.ms", "broker": "log.roll.ms"}
"""Kind of resource -> its setting that is altered."""
LEAST_ALTERED = 10_000
WAYS_BACK = ("give_up", "_flush_failed")
"""Where the node undoes what has failed: if that fails as well, nothing is known, and the broker
ends.
"""


class Fault:
    """`name` of `owner` raises `error` at its call of that number from now on, and never again.

    was_on_the_way_back: it was raised while the node undid something.
    """

    def __init__(
        self,
        patch: pytest.MonkeyPatch,
        target: tuple[type[Any], str],
        number: int,
        is_after: bool,
        error: DiskError | RuntimeError,
    ) -> None:
        owner, name = target
        self.left, self.is_on, whole = number, False, getattr(owner, name)
        self.was_on_the_way_back = False

        def broken(*args: Any, **fields: Any) -> Flush | Partition | list[Partition] | None:
            is_now = self.is_on and self.left == 1
            self.left -= self.is_on
            if is_now:
                self.was_on_the_way_back = any(frame.name in WAYS_BACK for frame in extract_stack())
            if is_now and not is_after:
                raise error
            result = whole(*args, **fields)
            if is_now:
                raise error
            answer: Flush | Partition | list[Partition] | None = result
            return answer

        patch.setattr(owner, name, broken)


class LastingFault(Fault):
    """`name` of `owner` raises `error` at every call until the node's clock has come to `end_ms`.

    times: how often it was raised.
    """

    def __init__(
        self,
        patch: pytest.MonkeyPatch,
        target: tuple[type[Any], str],
        history: Any,
        end_ms: int,
        error: RuntimeError,
    ) -> None:
        owner, name = target
        whole = getattr(owner, name)
        self.times, self.is_on, self.was_on_the_way_back = 0, False, False

        def broken(*args: Instant | Coordinators | int, **fields: Any) -> Any:
            if self.is_on and history.now_ms < end_ms:
                self.times += 1
                self.was_on_the_way_back |= any(
                    frame.name in WAYS_BACK for frame in extract_stack()
                )
                raise error
            return whole(*args, **fields)

        patch.setattr(owner, name, broken)


class FaultHistory(NodeDriver):
    """A life of a broker in which a step may break off, and what its clients know of it."""

    faults: Sequence[Fault] = ()
    has_ended = False
    gone: Any = frozenset()
    is_refusal_final = True
    """What was refused never comes back. Where a broker has ended on the way back, the cut may not
    have reached the disk.
    """

    def begin(self) -> None:
        """Nothing is known yet."""
        self.gone, self.number = set(), 0
        self.doubtful: set[int] = set()
        self.requests: dict[int, tuple[Any, ...]] = {}
        self.broken_steps: list[tuple[Arrived | Flushed | Tick, list[Reply]]] = []

    def step(self, event: Any) -> None:
        """As a driver does it: a step that broke off is given up; where that is not possible the
        broker ends.
        """
        self._switch(True)
        try:
            actions = self.node.step(event, self.now)
        except (RuntimeError, DiskError) as error:
            try:
                actions = self.node.give_up(event, error, self.now)
            except (RuntimeError, DiskError):
                self.has_ended = True
                assert any(fault.was_on_the_way_back for fault in self.faults), (
                    "only a failure of the way back ends a broker"
                )
                return
            self.broken_steps.append(
                (event, [action for action in actions if type(action) is Reply])
            )
            # what was written stays, where only its answer was lost
            if type(event).__name__ != "Arrived":
                self.doubtful |= {action.ticket for action in actions if type(action) is Reply}
        finally:
            self._switch(False)
        self._take(
            [
                action
                for action in actions
                if type(action) is not Reply or action.ticket not in self.gone
            ]
        )

    def _switch(self, is_on: bool) -> None:
        for fault in self.faults:
            fault.is_on = is_on

    def value(self) -> bytes:
        """Something that was never written before."""
        self.number += 1
        return b"%d" % self.number

    def play(self, what: str, *fields: Any) -> None:
        """One thing happens."""
        if what == "flush":
            if self.pending:
                self.flush_once()
        elif what == "fail flush":
            if self.pending:
                self.fail_flush()
        elif what == "sleep":
            self.sleep(*fields)
        elif what == "together":
            with self.together():
                for each in fields[0]:
                    self.play(*each)
        elif what == "commit often":
            for _ in range(8):
                self.play("commit", *fields)
                self.play("flush")
        elif what == "gone":
            unanswered = [ticket for ticket in self._asked if ticket not in self.answers]
            if unanswered:
                ticket = unanswered[fields[0] % len(unanswered)]
                self.gone.add(ticket)
                self.step(Gone((Ticket(ticket),)))
        elif not self.has_ended:
            ticket = self.ask(*REQUESTS[what](self, *fields))
            self.requests[ticket] = (what, *fields, self.number)

    def last_joined(self, group: str) -> tuple[str, int, str]:
        """The member id, the generation and the leader of the last one who was let into the group,
        as far as anybody was told.
        """
        seats = [
            (answer.member_id, answer.generation_id, answer.leader)
            for ticket, (what, *details) in self.requests.items()
            if what == "join"
            and details[0] == group
            and (answer := self.answers.get(ticket)) is not None
            and not answer.error_code
        ]
        return seats[-1] if seats else ("nobody", 1, "")

    def settle(self) -> None:
        """Everything that is under way has ended."""
        for _ in range(3):
            self.sleep(400_000)
            while self.pending and not self.has_ended:
                self.flush_once()


def begun(**settings: Any) -> Any:
    """Such a life, in which nothing has happened yet."""
    history = FaultHistory(**settings)
    history.begin()
    return history


def produce(history: Any, topic: str, partitions: tuple[int, ...]) -> tuple[ProduceRequest, int]:
    data = tuple(
        PartitionProduceData(index=index, records=kit.batch(history.value()))
        for index in partitions
    )
    return ProduceRequest(
        acks=-1, timeout_ms=1, topic_data=(TopicProduceData(name=topic, partition_data=data),)
    ), 12


def fetch(history: Any, topic: str, partitions: tuple[int, ...]) -> tuple[FetchRequest, int]:
    wanted = tuple(
        FetchPartition(partition=index, fetch_offset=0, partition_max_bytes=1 << 20)
        for index in partitions
    )
    topics = (FetchTopic(topic=topic, partitions=wanted),)
    return FetchRequest(max_wait_ms=2_000, min_bytes=300, max_bytes=1 << 20, topics=topics), 12


def commit(history: Any, group: str, topic: str) -> tuple[Any, int]:
    history.value()
    partitions = f"[committed_offset={history.number}]"
    text = f"OffsetCommit group_id={group} topics=[name={topic} partitions={partitions}]"
    return request_of(text), 9


def committed(history: Any, groups: tuple[str, ...]) -> tuple[Any, int]:
    topics = ", ".join(f"name={topic} partition_indexes=[0]" for topic in TOPICS)
    asked = ", ".join(f"group_id={group} topics=[{topics}]" for group in groups)
    return request_of(f"OffsetFetch groups=[{asked}]"), 9


def join(history: Any, group: str, is_back: bool = False) -> tuple[Any, int]:
    member_id = history.last_joined(group)[0] if is_back else ""
    timeouts = "session_timeout_ms=10000 rebalance_timeout_ms=20000"
    who = f"group_id={group} member_id={member_id} {timeouts}"
    return request_of(f"JoinGroup {who} protocol_type=consumer protocols=[name=range]"), 3


def sync(history: Any, group: str) -> tuple[Any, int]:
    member_id, generation, leader = history.last_joined(group)
    given = f"member_id={member_id} assignment={history.value().decode()}"
    who = f"group_id={group} generation_id={generation} member_id={member_id}"
    return request_of(f"SyncGroup {who} assignments=[{given if member_id == leader else ''}]"), 3


def delete(history: Any, topic: str, index: int, offset: int) -> tuple[Any, int]:
    partitions = f"[partition_index={index} offset={offset}]"
    return request_of(
        f"DeleteRecords topics=[name={topic} partitions={partitions}] timeout_ms=1"
    ), 2


def beat(history: Any, member: str, epoch: int) -> tuple[Any, int]:
    joins = "rebalance_timeout_ms=10000 subscribed_topic_names=[t,u] topic_partitions=[]"
    who = f"group_id=c member_id={member} member_epoch={epoch}"
    return request_of(f"ConsumerGroupHeartbeat {who} {'' if epoch else joins}"), 1


def make(history: Any, name: str) -> tuple[Any, int]:
    return request_of(f"CreateTopics topics=[name={name} num_partitions=1 replication_factor=1]"), 7


def alter(history: Any, kind: str, name: str) -> tuple[IncrementalAlterConfigsRequest, int]:
    """A value that was never there before, for the one setting of ALTERED."""
    history.value()
    change = (ALTERED[kind], "=", str(LEAST_ALTERED + history.number))
    return incremental((kind, name, (change,))), 1


REQUESTS: dict[str, Callable[..., Any]] = {
    "produce": produce,
    "fetch": fetch,
    "commit": commit,
    "committed": committed,
    "join": join,
    "sync": sync,
    "leave": lambda history, group: (
        request_of(f"LeaveGroup group_id={group} member_id={history.last_joined(group)[0]}"),
        2,
    ),
    "beat": beat,
    "delete": delete,
    "make": make,
    "alter": alter,
    "describe": lambda history, groups: (
        request_of(f"DescribeGroups groups=[{','.join(groups)}]"),
        5,
    ),
    "drop": lambda history, name: (request_of(f"DeleteTopics topics=[name={name}]"), 6),
    "grow": lambda history, name: (
        request_of(f"CreatePartitions topics=[name={name} count=3 assignments=null]"),
        3,
    ),
    "metadata": lambda history: (request_of("Metadata topics=null"), 12),
    "list": lambda history: (request_of("ListGroups"), 5),
    "number": lambda history: (request_of("InitProducerId transactional_id=null"), 4),
}
