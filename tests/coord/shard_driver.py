"""A shard with a hand on its clock, the log that it wrote, and what its state looks like from
outside.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from apportion.coord.classic.state import ClassicGroup
from apportion.coord.config import GroupSettings
from apportion.coord.consumer.state import (
    ConsumerGroup,
    ConsumerGroupMember,
    ConsumerGroupSavedState,
)
from apportion.coord.consumer.units import UnitNumbering
from apportion.coord.heartbeat_budget import HeartbeatBudget
from apportion.coord.metrics import GroupMetrics
from apportion.coord.records import Append, CoordinatorRecord
from apportion.coord.shard import Shard
from apportion.coord.shard_events import TopicsChanged
from apportion.coord.turn import ShardAction
from apportion.machine import (
    Arrived,
    Caller,
    Computation,
    ComputationEnd,
    Compute,
    Computed,
    ComputeFailed,
    Gone,
    Instant,
    Note,
    Reply,
    Tick,
    Ticket,
)
from apportion.sim.checks.saved import compact
from apportion.topics import Topic, Topics
from apportion.wire.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)
from apportion.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from apportion.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchResponseGroup,
)
from apportion.wire.records.codec import decode_key, decode_value, encode_key, encode_value
from apportion.wire.records.groups import ConsumerGroupMemberMetadataValue

if TYPE_CHECKING:
    from apportion.coord.group_counts import GroupCounts

HERE = Caller("client", "/127.0.0.1")
MOST_AT_ONCE = 10  # ticks at one moment


def topic_id(name: str, life: int = 0) -> bytes:
    """The id of the topic of that name; `life` counts how often it was created again."""
    return f"{name}.{life}".encode().rjust(16, b".")


def topics(life: int = 0, **partitions: Any) -> Topics:
    """Topics of these names and sizes."""
    return Topics(Topic(name, topic_id(name, life), count) for name, count in partitions.items())


def parts(by_topic: Mapping[str, range | list[int]], life: int = 0) -> tuple[TopicPartitions, ...]:
    """{"foo": [0, 1]} as a request holds it."""
    return tuple(
        TopicPartitions(topic_id=topic_id(name, life), partitions=tuple(some))
        for name, some in by_topic.items()
    )


def member_metadata(**changes: Any) -> ConsumerGroupMemberMetadataValue:
    """Return the metadata of a member that joined by `ShardDriver.join`."""
    facts = {
        "instance_id": None,
        "rack_id": None,
        "client_id": HERE.client_id,
        "client_host": HERE.host,
        "subscribed_topic_names": ("foo",),
        "subscribed_topic_regex": "",
        "rebalance_timeout_ms": 30_000,
        "server_assignor": None,
    }
    return ConsumerGroupMemberMetadataValue(**(facts | changes))


def settings_with(**changes: Any) -> GroupSettings:
    """Settings by which the heartbeat that needs a new target computes it, and `changes`."""
    return GroupSettings(**({"group_consumer_assignment_interval_ms": 0} | changes))


class ShardDriver:
    """One shard, loaded and empty at first, at 0 ms and at wall time 1,000,000 ms."""

    def __init__(self, settings: GroupSettings | None = None, known: Topics | None = None) -> None:
        self.settings = settings or settings_with()
        self.mono_ms = 0
        self.asked = 0
        self.log: list[CoordinatorRecord] = []
        # the answers that nobody has taken yet, in the order in which they came
        self.responses: list[tuple[Ticket, Any]] = []
        self.notes: list[str] = []
        self.hints: list[str] = []  # of each note
        self.actions: list[ShardAction] = []
        self.computations: list[Computation] = []  # begun, and not ended yet
        # group id -> its counts, and since when they are there
        self.appeared: dict[str, tuple[GroupCounts, int]] = {}
        self.heartbeats = HeartbeatBudget(self.settings.apportion_heartbeat_budget_per_second)
        known = topics(foo=3) if known is None else known
        self.shard = Shard(self.settings, known, heartbeats=self.heartbeats)
        self.perform(self.shard.loaded(self.now))

    @property
    def now(self) -> Instant:
        return Instant(self.mono_ms, 1_000_000 + self.mono_ms)

    def step(self, event: Any) -> None:
        """The shard is told of the event, and what it asks for is carried out."""
        self.perform(self.shard.step(event, self.now))

    def perform(self, actions: list[ShardAction]) -> list[Any]:
        """Carry out what a step asked for: the log grows; gives the replies' bodies."""
        self.actions = actions
        for group_id, group in self.shard.ledger.groups.items():
            if self.appeared.get(group_id, (None, 0))[0] is not group.live.counts:
                self.appeared[group_id] = (group.live.counts, self.mono_ms)
        bodies = []
        for action in actions:
            match action:
                case Reply(ticket, body):
                    self.shard.waiting.remove(ticket)
                    self.responses.append((ticket, body))
                    bodies.append(body)
                case Append():
                    self.log += action.one_by_one()
                case Compute(computation):
                    self.computations.append(computation)
                case Note(_, text, hint):
                    self.notes.append(text)
                    self.hints.append(hint)
        return bodies

    def ask(self, request: Any, version: int, caller: Caller = HERE) -> Ticket:
        """The ticket of a request, which may have its answer already."""
        self.asked += 1
        ticket = Ticket(self.asked)
        fresh = self.asked.to_bytes(16, "big")
        self.step(Arrived(ticket, request, version, caller, fresh))
        return ticket

    def taken_or_none(self, ticket: Ticket) -> Any:
        """The answer to the request of that ticket, if it has come."""
        for index, (spent, body) in enumerate(self.responses):
            if spent == ticket:
                del self.responses[index]
                return body
        return None

    def send(self, request: Any, version: int = 1, caller: Caller = HERE) -> Any:
        """The answer to a request that is not parked."""
        answer = self.taken_or_none(self.ask(request, version, caller))
        assert answer is not None, "the request is parked"
        return answer

    def hang_up(self, *tickets: Ticket) -> None:
        """Nobody waits for the answers to these requests any more."""
        self.step(Gone(tickets))

    def beat(
        self,
        member_id: str,
        epoch: int,
        version: int = 1,
        group_id: str = "g",
        caller: Caller = HERE,
        **facts: Any,
    ) -> ConsumerGroupHeartbeatResponse:
        """The answer to a heartbeat; `owned` is {"foo": [0, 1]}."""
        if "owned" in facts:
            owned = facts.pop("owned")
            facts["topic_partitions"] = None if owned is None else parts(owned)
        request = ConsumerGroupHeartbeatRequest(
            group_id=group_id, member_id=member_id, member_epoch=epoch, **facts
        )
        result: ConsumerGroupHeartbeatResponse = self.send(request, version, caller)
        return result

    def join(
        self, member_id: str, topics: Any = ("foo",), **facts: Any
    ) -> ConsumerGroupHeartbeatResponse:
        """The answer to a complete joining heartbeat."""
        facts = {
            "rebalance_timeout_ms": 30_000,
            "subscribed_topic_names": topics,
            "owned": {},
        } | facts
        return self.beat(member_id, 0, **facts)

    def commit(
        self,
        epoch: int,
        offsets: dict[tuple[str, int], int],
        member_id: str = "",
        version: int = 9,
        group_id: str = "g",
        metadata: str | None = "",
        **facts: Any,
    ) -> list[int]:
        """Codes by (topic, partition) of a commit of {("foo", 0): 5}."""
        wanted = tuple(
            OffsetCommitRequestTopic(
                name=name,
                topic_id=topic_id(name),
                partitions=(
                    OffsetCommitRequestPartition(
                        partition_index=partition,
                        committed_offset=offset,
                        committed_metadata=metadata,
                    ),
                ),
            )
            for (name, partition), offset in offsets.items()
        )
        request = OffsetCommitRequest(
            group_id=group_id,
            generation_id_or_member_epoch=epoch,
            member_id=member_id,
            topics=wanted,
            **facts,
        )
        answer = self.send(request, version)
        return [partition.error_code for topic in answer.topics for partition in topic.partitions]

    def fetch(
        self,
        wanted: dict[str, list[int]] | None,
        member_id: str | None = None,
        epoch: int = -1,
        version: int = 9,
        group_id: str = "g",
    ) -> OffsetFetchResponseGroup:
        """The group's answer to an OffsetFetch of {"foo": [0, 1]}, or of everything (None)."""
        named: Any = wanted and tuple(
            OffsetFetchRequestTopic(
                name=name, topic_id=topic_id(name), partition_indexes=tuple(indexes)
            )
            for name, indexes in wanted.items()
        )
        group = OffsetFetchRequestGroup(
            group_id=group_id, member_id=member_id, member_epoch=epoch, topics=named
        )
        (answer,) = self.send(OffsetFetchRequest(groups=(group,)), version).groups
        result: OffsetFetchResponseGroup = answer
        return result

    def advance(self, elapsed_ms: int) -> None:
        """Time passes, with a tick at every moment that the shard asked for, and few at one moment:
        else it would never end.
        """
        until_ms, at_once = self.mono_ms + elapsed_ms, 0
        while (wake_ms := self.shard.wake_at()) is not None and wake_ms <= until_ms:
            at_once = 1 if wake_ms > self.mono_ms else at_once + 1
            assert at_once <= MOST_AT_ONCE, "what was due is due again at once, and again"
            self.mono_ms = max(self.mono_ms, wake_ms)
            self.step(Tick())
        self.mono_ms = until_ms

    def end_computations(self) -> None:
        """Every computation that was begun ends, and the shard gets its result."""
        computations, self.computations = self.computations, []
        for computation in computations:
            self.step(end_of(computation))

    def change_topics(self, changed: Topics | list[Topic] | Iterable[Any]) -> None:
        """The cluster has these topics now."""
        self.step(TopicsChanged(Topics(changed)))

    def metrics(self) -> list[GroupMetrics]:
        """The metrics of every group."""
        found = [
            self.shard.metrics_or_none(group_id, self.now)
            for group_id in [*self.shard.ledger.groups, "no such group"]
        ]
        return [each for each in found if each is not None]

    def check_metrics(self) -> None:
        """Each group's times add up to how long it is there, and are counted for its state."""
        for group in self.metrics():
            counts, since_ms = self.appeared[group.group_id]
            assert sum(counts.state_ms(self.mono_ms).values()) == self.mono_ms - since_ms
            assert counts.state == group.state

    def crash(self) -> None:
        """The shard is rebuilt from its log, and nobody hears of what was asked."""
        self.responses.clear()
        self.shard = recovered(self.log, self.shard)
        self.perform(self.shard.loaded(self.now))


def end_of(computation: Computation) -> ComputationEnd:
    """How a computation ends: with a result, or with an error."""
    try:
        return Computed(computation, computation.run())
    except Exception as error:
        return ComputeFailed(computation, repr(error))


def recovered(log: Any, shard: Shard) -> Shard:
    """A shard that read `log`, with the settings and the topics of another."""
    fresh = Shard(shard.settings, shard.topics)
    for record in log:
        fresh.replay(record)
    return fresh


def through_bytes(log: list[CoordinatorRecord]) -> Iterator[CoordinatorRecord]:
    """The log as it comes back from a disk."""
    for record in log:
        key = decode_key(encode_key(record.key))
        value = None if record.value is None else decode_value(key, encode_value(record.value))
        yield CoordinatorRecord(key, value)


def compacted(log: list[CoordinatorRecord], keep_tombstones: bool) -> list[CoordinatorRecord]:
    """Only the last record of each key, where it stood."""
    return compact(log, len(log), drops_tombstones=not keep_tombstones)


def state_of(
    shard: Shard,
) -> dict[str, Any]:
    """All that is saved, in names that mean the same in every shard."""
    return {
        "groups": {group_id: _saved(group) for group_id, group in shard.ledger.groups.items()},
        "offsets": shard.ledger.offsets,
    }


def _saved(
    group: ClassicGroup | ConsumerGroup,
) -> Any:
    return group.saved if isinstance(group, ClassicGroup) else _group(group.saved)


def _group(
    saved: ConsumerGroupSavedState,
) -> dict[str, Any]:
    return {
        "epoch": saved.epoch,
        "metadata_hash": saved.metadata_hash,
        "assignment_epoch": saved.assignment_epoch,
        "members": {
            member_id: _member(member, saved.units) for member_id, member in saved.members.items()
        },
        "instances": saved.instances,
        "subscribers": saved.subscriber_counts,
        "expressions": saved.expression_counts,
        "resolutions": saved.resolutions,
        "votes": saved.assignor_votes,
        "offers": saved.client_offers,
        "metadata bytes": saved.client_metadata_bytes,
        "agreed": saved.client_assignor,
        "speakers": saved.protocol_counts,
        "classics": saved.classic_member_count,
        "settled_at": saved.stable_members_by_epoch,
        "held": saved.owners.owned(saved.units),
    }


def _member(member: ConsumerGroupMember, units: UnitNumbering) -> dict[str, Any]:
    return {
        "metadata": member.metadata,
        "epoch": member.epoch,
        "previous_epoch": member.previous_epoch,
        "state": member.state,
        "assigned": by_name(member.assigned.as_mapping(), units),
        "revoking": by_name(member.pending_revocation.as_mapping(), units),
        "target": None
        if member.target is None
        else sorted(by_name(dict.fromkeys(member.target.tolist()), units)),
        "answer": member.target_answer,
    }


def by_name(
    grants: Mapping[int, int | None], units: UnitNumbering
) -> dict[tuple[bytes, int], int | None]:
    """Units under the name that they have everywhere."""
    return {(units.ids[unit >> 32], unit & 0xFFFFFFFF): epoch for unit, epoch in grants.items()}
