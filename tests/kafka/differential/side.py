"""One broker of the differential test: it makes steps requests, and answers plain values in which
the broker's ids are names.

It keeps each member's view: its id, its epoch, its last assignment and what it has adopted. Nothing
is judged here.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from apportion.client.connection import BrokerConnection, Disconnected
from tests.kafka.differential import classic_clients, classic_side, classic_steps, steps, stored
from tests.kafka.differential.connections import Line
from tests.kafka.differential.plain_values import Plain, TopicIndex, described, gathered, grouped
from tests.kafka.differential.steps import Step
from tests.kafka.differential.topics import SHARDS, drop, grow, make
from tests.messages import request

PATIENCE_MS = 30_000
NO_ID = bytes(16)
STRANGE_ID = b"no topic at all!"


@dataclass(slots=True)
class MemberView:
    """What a member of this broker knows of its membership."""

    member_id: str
    epoch: int = 0
    assigned: frozenset[TopicIndex] = frozenset()
    owned: frozenset[TopicIndex] = frozenset()
    instance: str | None = None


@dataclass(slots=True)
class Side:
    """One broker, and the members of the script that is played on it."""

    name: str
    bootstrap: str
    topic_ids: dict[str, bytes] = field(default_factory=dict)
    partitions: dict[str, int] = field(default_factory=dict)
    views: dict[tuple[str, str], MemberView] = field(default_factory=dict)
    ids: dict[str, str] = field(default_factory=dict)
    """The ids of classic members by their labels."""
    labels: dict[str, str] = field(default_factory=dict)
    lines: dict[str, Line] = field(default_factory=dict)
    """The connection of each classic member, for what may be answered late."""
    crowds: dict[str, classic_clients.ClassicClients] = field(default_factory=dict)
    """Classic clients that mind their own business, by group."""
    timeout_ms: int = PATIENCE_MS
    _connection: BrokerConnection | None = None
    _posted: dict[str, Any] = field(default_factory=dict)
    _came: dict[str, Any] = field(default_factory=dict)

    def prepare(self) -> None:
        """Every group has a coordinator that has read its log."""
        asked = request("FindCoordinator", key_type=0, coordinator_keys=("any",))
        while self.call(asked, 6).coordinators[0].error_code:
            time.sleep(0.1)
        for number in range(SHARDS * 8):  # so many groups meet every shard
            beat = steps.Beat(f"group {number} of nobody", "nobody", -1)
            while self.play(beat)["code"] in (14, 15, 16):
                time.sleep(0.1)

    def begin(self) -> None:
        """No member is known: a new script starts."""
        self.hang_up()
        self.views, self.ids, self.labels, self.crowds = {}, {}, {}, {}
        self._posted, self._came = {}, {}

    def hang_up(self) -> None:
        """The members' own connections are closed, and nobody waits for anything."""
        for line in self.lines.values():
            line.close()
        self.lines = {}

    def close(self) -> None:
        """The connections are closed."""
        self.hang_up()
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

    def call(self, asked: Any, version: int) -> Any:
        """The broker's answer to one request."""
        if self._connection is None:
            host, _, port = self.bootstrap.rpartition(":")
            self._connection = BrokerConnection(host, int(port), "differential", self.timeout_ms)
        return self._connection.call(asked, timeout_ms=self.timeout_ms, version=version)

    def topic_id(self, topic: str) -> bytes:
        """The id of a topic; one that no topic has for a name that is unknown."""
        return self.topic_ids.get(topic, STRANGE_ID)

    def topic_name(self, topic_id: bytes) -> str:
        """The name behind an id."""
        names = [name for name, each in self.topic_ids.items() if each == bytes(topic_id)]
        return (
            names[0] if names else {NO_ID: "-", STRANGE_ID: steps.NOWHERE}.get(bytes(topic_id), "?")
        )

    def who(self, member_id: str | None) -> str | None:
        """The letter of a member that goes by that id here, or the label of a classic one; else the
        id.
        """
        if member_id in self.labels:
            return self.labels[member_id]
        if member_id is not None and classic_side.MADE.fullmatch(member_id):
            return f"{member_id[: -classic_side.UUID_LETTERS]}?"  # nobody was told it before
        for (_, letter), view in self.views.items():
            if view.member_id and view.member_id == member_id:
                return letter
        return member_id

    def id_of(self, letter: str, member_id: str | None) -> str:
        """What a step says as its member's id: None is the newest one that the letter has, a label
        stands for an id.
        """
        if member_id is not None:
            return self.ids.get(member_id, member_id)
        labels = [label for label in self.ids if label.startswith(letter)]
        return self.ids[labels[-1]] if labels else ""

    def identify(self, group: str, letter: str, member_id: str, generation: int) -> None:
        """The classic member of that letter goes by that id in that generation, under a label of
        its own.
        """
        if member_id not in self.labels:
            label = f"{letter}{1 + sum(1 for known in self.ids if known.startswith(letter))}"
            self.ids[label], self.labels[member_id] = member_id, label
        self.views[group, letter] = MemberView(member_id, generation)

    def post(self, step: Any, asked: Any, version: int) -> None:
        """The step's request is on its member's own connection."""
        line = self.lines.setdefault(step.member, Line(self.bootstrap, "differential"))
        self._posted[step.member] = step
        line.post(asked, version)

    def take_up(self, line: Line) -> None:
        """What has come on a member's connection is noted, once all of it is here."""
        (letter,) = (letter for letter, each in self.lines.items() if each is line)
        answer = line.take()
        if answer is not None:
            self._came[letter] = answer

    def answered(self) -> dict[str, Plain]:
        """What has come on members' connections since this was asked last: by letter."""
        came, self._came = self._came, {}
        for letter, answer in came.items():
            step = self._posted[letter]
            if (
                isinstance(step, classic_steps.Join)
                and answer != "closed"
                and answer.error_code in (0, 79)
            ):
                self.identify(step.group, letter, answer.member_id, answer.generation_id)
        return {
            letter: answer
            if answer == "closed"
            else ANSWERED[type(self._posted[letter])](self, answer)
            for letter, answer in came.items()
        }

    def partitions_in(self, parts: Any) -> frozenset[TopicIndex]:
        """The partitions in a part of a message."""
        return frozenset(
            (self.topic_name(part.topic_id), index) for part in parts for index in part.partitions
        )

    def refresh(self, topic: str, until: Callable[[int], bool]) -> None:
        """The broker shows the topic with as many partitions as `until` accepts (0: it is gone),
        and this side knows its id.
        """
        asked = request("Metadata", topics=[{"name": topic}], allow_auto_topic_creation=False)
        while True:
            shown = self.call(asked, 12).topics[0]
            if until(len(shown.partitions)):
                break
            time.sleep(0.01)
        if shown.partitions:
            self.topic_ids[topic], self.partitions[topic] = (
                bytes(shown.topic_id),
                len(shown.partitions),
            )
        else:
            self.partitions.pop(topic, None)


def _owned(side: Side, step: steps.Beat, view: MemberView) -> Any:
    """The partitions that the member says it owns."""
    if step.owned is None:
        return None
    partitions = {
        steps.TOLD: view.assigned,
        steps.HELD: view.owned,
        steps.PART: frozenset(sorted(view.assigned)[1:]),
        steps.EMPTY: frozenset(),
        steps.GREEDY: view.assigned | _of_others(side, step),
        steps.TWICE: view.assigned,
        steps.STRANGE: view.assigned | {(steps.NOWHERE, 0)},
    }[step.owned]
    times = 2 if step.owned == steps.TWICE else 1
    return times * [
        {"topic_id": side.topic_id(name), "partitions": times * indexes}
        for name, indexes in grouped(partitions).items()
    ]


def _of_others(side: Side, step: steps.Beat) -> frozenset[TopicIndex]:
    held = sorted(
        partition
        for (group, letter), view in side.views.items()
        if group == step.group and letter != step.member
        for partition in view.assigned
    )
    return frozenset(held[:1])


def _first_view(side: Side, step: steps.Beat) -> MemberView:
    """The view of a new member: empty, or that of the classic client that goes on under its
    own id.
    """
    clients = side.crowds[step.group].clients.values() if step.group in side.crowds else ()
    owned = next(
        (client.owned for client in clients if client.label == step.member_id), frozenset()
    )
    return MemberView(side.ids.get(step.member_id or "", step.member), assigned=owned, owned=owned)


def _beat(side: Side, step: steps.Beat) -> Plain:
    key = (step.group, step.member)
    view = side.views.get(key) or _first_view(side, step)
    member_id = (
        view.member_id if step.member_id is None else side.ids.get(step.member_id, step.member_id)
    )
    answer = side.call(
        request(
            "ConsumerGroupHeartbeat",
            group_id=step.group,
            member_id=member_id,
            member_epoch=step.epoch,
            instance_id=step.instance,
            rack_id=step.rack,
            rebalance_timeout_ms=step.rebalance_ms,
            subscribed_topic_names=step.topics,
            subscribed_topic_regex=step.regex,
            server_assignor=step.assignor,
            topic_partitions=_owned(side, step, view),
        ),
        step.version,
    )
    assignment = (
        None
        if answer.assignment is None
        else side.partitions_in(answer.assignment.topic_partitions)
    )
    if answer.error_code == 0:
        if step.epoch == 0:
            view = MemberView(member_id if member_id else answer.member_id, instance=step.instance)
        view.epoch = answer.member_epoch
        if step.owned in (steps.TOLD, steps.TWICE):
            view.owned = view.assigned
        if assignment is not None:
            view.assigned = assignment
        side.views[key] = view
    return {
        "code": answer.error_code,
        "has message": answer.error_message is not None,
        "member": side.who(answer.member_id),
        "epoch": answer.member_epoch,
        "interval": answer.heartbeat_interval_ms,
        "assignment": None if assignment is None else grouped(assignment),
    }


def _describe(side: Side, step: steps.Describe) -> Plain:
    operations = {"include_authorized_operations": step.operations}
    asked = request("ConsumerGroupDescribe", group_ids=step.groups, **operations)
    return {
        group.group_id: described(side, group) for group in side.call(asked, step.version).groups
    }


def _list(side: Side, step: steps.ListGroups) -> Plain:
    asked = request("ListGroups", states_filter=step.states, types_filter=step.types)
    answer = side.call(asked, step.version)
    ours = {group for group, _ in side.views if not group.startswith(steps.LONELY)}
    groups = {
        group.group_id: (group.protocol_type, group.group_state, group.group_type)
        for group in answer.groups
        if group.group_id in ours
    }
    return {"code": answer.error_code, "groups": groups}


def _delete(side: Side, step: steps.DeleteGroups) -> Plain:
    answer = side.call(request("DeleteGroups", groups_names=step.groups), step.version)
    return gathered((result.group_id, result.error_code) for result in answer.results)


def _settle(side: Side, step: steps.Settle) -> Plain:
    """Sizes when nothing moves any more, and how many partitions went from one member that stayed
    to another.
    """
    members = sorted(
        letter
        for group, letter in side.views
        if group == step.group and side.views[group, letter].epoch > 0
    )
    before = {
        partition: letter
        for letter in members
        for partition in side.views[step.group, letter].owned
    }
    for _ in range(50):
        is_quiet = True
        for letter in members:
            view = side.views[step.group, letter]
            was = (view.epoch, view.assigned, view.owned)
            answer = _beat(
                side,
                steps.Beat(
                    step.group, letter, view.epoch, owned=steps.TOLD, instance=view.instance
                ),
            )
            if answer["code"]:
                return {"stopped by": letter, "code": answer["code"]}
            is_quiet = is_quiet and was == (view.epoch, view.assigned, view.owned)
        if is_quiet:
            break
    after = {
        partition: letter
        for letter in members
        for partition in side.views[step.group, letter].owned
    }
    moved = sum(1 for partition, letter in before.items() if after.get(partition, letter) != letter)
    return {
        "epochs": {letter: side.views[step.group, letter].epoch for letter in members},
        "sizes": tuple(sorted(len(side.views[step.group, letter].owned) for letter in members)),
        "owned": tuple(sorted(after)),
        # Between two assignors it depends on who had what, which is each broker's own affair.
        "moved": None if step.votes else moved,
        "is quiet": is_quiet,
    }


PLAYS: dict[type[Step], Callable[[Side, Any], Plain]] = {
    steps.Beat: _beat,
    steps.Commit: stored.commit,
    steps.Fetch: stored.fetch,
    steps.Forget: stored.forget,
    steps.Describe: _describe,
    steps.ListGroups: _list,
    steps.DeleteGroups: _delete,
    steps.MakeTopic: make,
    steps.Grow: grow,
    steps.DropTopic: drop,
    steps.Settle: _settle,
    classic_steps.Join: classic_side.join,
    classic_steps.Sync: classic_side.sync,
    classic_steps.Pulse: classic_side.pulse,
    classic_steps.Leave: classic_side.leave,
    classic_steps.DescribeClassic: classic_side.describe,
    classic_steps.Arrive: classic_clients.arrive,
    classic_steps.Knock: classic_clients.knock,
    classic_steps.Rest: classic_clients.rest,
}

ANSWERED: dict[type[Step], Callable[[Side, Any], Plain]] = {
    classic_steps.Join: classic_side.joined,
    classic_steps.Sync: classic_side.synced,
}
"""What may be answered late, and how an answer is read then."""
