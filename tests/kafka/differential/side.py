"""One broker of the differential test: it makes steps requests, and answers plain values in which the broker's ids are names.

It keeps what each member believes: its id, its epoch, what it was told last and what it has adopted. Nothing is judged here.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from apportion.client.connection import Connection, Disconnected
from apportion.wire.messages import (
    consumer_group_describe,
    consumer_group_heartbeat,
    delete_groups,
    find_coordinator,
    list_groups,
    metadata,
    offset_commit,
    offset_delete,
    offset_fetch,
)
from tests.kafka.differential import steps
from tests.kafka.differential.shown import Place, Plain, described, grouped, offsets
from tests.kafka.differential.steps import Step
from tests.kafka.differential.topics import SHARDS, drop, grow, make

PATIENCE_MS = 30_000
NO_ID = bytes(16)
STRANGE_ID = b"no topic at all!"


@dataclass(slots=True)
class Belief:
    """What a member of this broker believes."""

    member_id: str
    epoch: int = 0
    told: frozenset[Place] = frozenset()
    owned: frozenset[Place] = frozenset()
    instance: str | None = None


@dataclass(slots=True)
class Side:
    """One broker, and the members of the script that is played on it."""

    name: str
    bootstrap: str
    topic_ids: dict[str, bytes] = field(default_factory=dict)
    partitions: dict[str, int] = field(default_factory=dict)
    beliefs: dict[tuple[str, str], Belief] = field(default_factory=dict)
    patience_ms: int = PATIENCE_MS
    _connection: Connection | None = None

    def prepare(self) -> None:
        """Every group has a coordinator that has read its log."""
        asked = find_coordinator.FindCoordinatorRequest(key_type=0, coordinator_keys=("any",))
        while self.call(asked, 6).coordinators[0].error_code:
            time.sleep(0.1)
        for number in range(SHARDS * 8):  # so many groups meet every shard
            beat = steps.Beat(f"group {number} of nobody", "nobody", -1)
            while self.play(beat)["code"] in (14, 15, 16):
                time.sleep(0.1)

    def begin(self) -> None:
        """No member is known: a new script starts."""
        self.beliefs = {}

    def close(self) -> None:
        """The connection is closed."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def play(self, step: Step) -> Plain:
        """What this broker answers to the step; "closed" where it did not."""
        try:
            return PLAYS[type(step)](self, step)
        except Disconnected:
            self._connection = None
            return "closed"

    def call(self, request: Any, version: int) -> Any:
        """The broker's answer to one request."""
        if self._connection is None:
            host, _, port = self.bootstrap.rpartition(":")
            self._connection = Connection(host, int(port), "differential", self.patience_ms)
        return self._connection.call(request, timeout_ms=self.patience_ms, version=version)

    def topic_id(self, topic: str) -> bytes:
        """The id of a topic; one that no topic has for a name that is unknown."""
        return self.topic_ids.get(topic, STRANGE_ID)

    def topic_name(self, topic_id: bytes) -> str:
        """The name behind an id."""
        names = [name for name, each in self.topic_ids.items() if each == bytes(topic_id)]
        return names[0] if names else {NO_ID: "-", STRANGE_ID: steps.NOWHERE}.get(bytes(topic_id), "?")

    def who(self, member_id: str | None) -> str | None:
        """The letter of a member that goes by that id here, else the id."""
        for (_, letter), belief in self.beliefs.items():
            if belief.member_id and belief.member_id == member_id:
                return letter
        return member_id

    def places(self, parts: Any) -> frozenset[Place]:
        """The partitions in a part of a message."""
        return frozenset((self.topic_name(part.topic_id), index) for part in parts for index in part.partitions)

    def refresh(self, topic: str, until: Callable[[int], bool]) -> None:
        """The broker shows the topic with as many partitions as `until` accepts (0: it is gone), and this side knows its id."""
        asked = metadata.MetadataRequest(topics=(metadata.MetadataRequestTopic(name=topic),), allow_auto_topic_creation=False)
        while True:
            found = self.call(asked, 12).topics[0]
            if until(len(found.partitions)):
                break
            time.sleep(0.01)
        if found.partitions:
            self.topic_ids[topic], self.partitions[topic] = bytes(found.topic_id), len(found.partitions)
        else:
            self.partitions.pop(topic, None)


def _owned(side: Side, step: steps.Beat, belief: Belief) -> Any:
    """The partitions that the member says it owns."""
    if step.owned is None:
        return None
    places = {
        steps.TOLD: belief.told,
        steps.HELD: belief.owned,
        steps.PART: frozenset(sorted(belief.told)[1:]),
        steps.EMPTY: frozenset(),
        steps.GREEDY: belief.told | _of_others(side, step),
        steps.STRANGE: belief.told | {(steps.NOWHERE, 0)},
    }[step.owned]
    return tuple(
        consumer_group_heartbeat.TopicPartitions(topic_id=side.topic_id(name), partitions=indexes)
        for name, indexes in grouped(places).items()
    )


def _of_others(side: Side, step: steps.Beat) -> frozenset[Place]:
    held = sorted(
        place
        for (group, letter), belief in side.beliefs.items()
        if group == step.group and letter != step.member
        for place in belief.told
    )
    return frozenset(held[:1])


def _beat(side: Side, step: steps.Beat) -> Plain:
    key = (step.group, step.member)
    belief = side.beliefs.get(key) or Belief(step.member)
    member_id = belief.member_id if step.member_id is None else step.member_id
    answer = side.call(
        consumer_group_heartbeat.ConsumerGroupHeartbeatRequest(
            group_id=step.group,
            member_id=member_id,
            member_epoch=step.epoch,
            instance_id=step.instance,
            rack_id=step.rack,
            rebalance_timeout_ms=step.rebalance_ms,
            subscribed_topic_names=step.topics,
            subscribed_topic_regex=step.regex,
            server_assignor=step.assignor,
            topic_partitions=_owned(side, step, belief),
        ),
        step.version,
    )
    assignment = None if answer.assignment is None else side.places(answer.assignment.topic_partitions)
    if answer.error_code == 0:
        if step.epoch == 0:
            belief = Belief(member_id if member_id else answer.member_id, instance=step.instance)
        belief.epoch = answer.member_epoch
        if step.owned == steps.TOLD:
            belief.owned = belief.told
        if assignment is not None:
            belief.told = assignment
        side.beliefs[key] = belief
    return {
        "code": answer.error_code,
        "has message": answer.error_message is not None,
        "member": side.who(answer.member_id),
        "epoch": answer.member_epoch,
        "interval": answer.heartbeat_interval_ms,
        "assignment": None if assignment is None else grouped(assignment),
    }


def _member_id(side: Side, group: str, letter: str | None) -> str | None:
    belief = side.beliefs.get((group, letter or ""))
    return letter if belief is None else belief.member_id


def _commit(side: Side, step: steps.Commit) -> Plain:
    by_topic: dict[str, list[steps.Offset]] = {}
    for each in step.offsets:
        by_topic.setdefault(each.topic, []).append(each)
    topics = tuple(
        offset_commit.OffsetCommitRequestTopic(
            name=name,
            topic_id=side.topic_id(name),
            partitions=tuple(
                offset_commit.OffsetCommitRequestPartition(
                    partition_index=each.partition,
                    committed_offset=each.offset,
                    committed_leader_epoch=each.leader_epoch,
                    committed_metadata=None if each.note is None else "x" * each.note,
                )
                for each in wanted
            ),
        )
        for name, wanted in by_topic.items()
    )
    answer = side.call(
        offset_commit.OffsetCommitRequest(
            group_id=step.group,
            generation_id_or_member_epoch=step.epoch,
            member_id=_member_id(side, step.group, step.member) or "",
            group_instance_id=step.instance,
            retention_time_ms=step.retention_ms,
            topics=topics,
        ),
        step.version,
    )
    by_id = step.version >= 10
    return {
        f"{side.topic_name(topic.topic_id) if by_id else topic.name}-{each.partition_index}": each.error_code
        for topic in answer.topics
        for each in topic.partitions
    }


def _fetch(side: Side, step: steps.Fetch) -> Plain:
    wanted = step.partitions
    if step.version < 8:
        topics = None
        if wanted is not None:
            topics = tuple(offset_fetch.OffsetFetchRequestTopic(name=name, partition_indexes=each) for name, each in wanted)
        request = offset_fetch.OffsetFetchRequest(group_id=step.group, topics=topics, require_stable=step.stable)
        answer = side.call(request, step.version)
        return {"code": answer.error_code, "offsets": dict(offsets(side, answer.topics, step.version))}
    of_topics = None
    if wanted is not None:
        of_topics = tuple(
            offset_fetch.OffsetFetchRequestTopics(name=name, topic_id=side.topic_id(name), partition_indexes=each)
            for name, each in wanted
        )
    group = offset_fetch.OffsetFetchRequestGroup(
        group_id=step.group,
        member_id=_member_id(side, step.group, step.member),
        member_epoch=step.epoch,
        topics=of_topics,
    )
    (found,) = side.call(offset_fetch.OffsetFetchRequest(groups=(group,), require_stable=step.stable), step.version).groups
    return {"code": found.error_code, "offsets": dict(offsets(side, found.topics, step.version))}


def _forget(side: Side, step: steps.Forget) -> Plain:
    topics = tuple(
        offset_delete.OffsetDeleteRequestTopic(
            name=name, partitions=tuple(offset_delete.OffsetDeleteRequestPartition(partition_index=index) for index in indexes)
        )
        for name, indexes in step.partitions
    )
    answer = side.call(offset_delete.OffsetDeleteRequest(group_id=step.group, topics=topics), 0)
    codes = {f"{topic.name}-{each.partition_index}": each.error_code for topic in answer.topics for each in topic.partitions}
    return {"code": answer.error_code, "partitions": codes}


def _describe(side: Side, step: steps.Describe) -> Plain:
    request = consumer_group_describe.ConsumerGroupDescribeRequest(
        group_ids=step.groups, include_authorized_operations=step.operations
    )
    return {group.group_id: described(side, group) for group in side.call(request, step.version).groups}


def _list(side: Side, step: steps.ListGroups) -> Plain:
    request = list_groups.ListGroupsRequest(states_filter=step.states, types_filter=step.types)
    answer = side.call(request, step.version)
    ours = {group for group, _ in side.beliefs if not group.startswith(steps.LONELY)}
    groups = {
        group.group_id: (group.protocol_type, group.group_state, group.group_type)
        for group in answer.groups
        if group.group_id in ours
    }
    return {"code": answer.error_code, "groups": groups}


def _delete(side: Side, step: steps.DeleteGroups) -> Plain:
    answer = side.call(delete_groups.DeleteGroupsRequest(groups_names=step.groups), step.version)
    return {result.group_id: result.error_code for result in answer.results}


def _settle(side: Side, step: steps.Settle) -> Plain:
    """Sizes when nothing moves any more, and how many partitions went from one member that stayed to another."""
    members = sorted(letter for group, letter in side.beliefs if group == step.group and side.beliefs[group, letter].epoch > 0)
    before = {place: letter for letter in members for place in side.beliefs[step.group, letter].owned}
    for _ in range(50):
        is_quiet = True
        for letter in members:
            belief = side.beliefs[step.group, letter]
            was = (belief.epoch, belief.told, belief.owned)
            answer = _beat(side, steps.Beat(step.group, letter, belief.epoch, owned=steps.TOLD, instance=belief.instance))
            if answer["code"]:
                return {"stopped by": letter, "code": answer["code"]}
            is_quiet = is_quiet and was == (belief.epoch, belief.told, belief.owned)
        if is_quiet:
            break
    after = {place: letter for letter in members for place in side.beliefs[step.group, letter].owned}
    return {
        "epochs": {letter: side.beliefs[step.group, letter].epoch for letter in members},
        "sizes": tuple(sorted(len(side.beliefs[step.group, letter].owned) for letter in members)),
        "owned": tuple(sorted(after)),
        "moved": sum(1 for place, letter in before.items() if after.get(place, letter) != letter),
        "is quiet": is_quiet,
    }


PLAYS: dict[type[Step], Callable[[Side, Any], Plain]] = {
    steps.Beat: _beat,
    steps.Commit: _commit,
    steps.Fetch: _fetch,
    steps.Forget: _forget,
    steps.Describe: _describe,
    steps.ListGroups: _list,
    steps.DeleteGroups: _delete,
    steps.MakeTopic: make,
    steps.Grow: grow,
    steps.DropTopic: drop,
    steps.Settle: _settle,
}
