"""Classic clients that mind their own business on one broker: they join, sync, adopt and beat until
nothing changes any more.

Which partitions go where is up to the broker and to the leader that it chose; so two brokers are
alike in where a crowd comes to
rest: generations, sizes, whether everything is owned, and how much has moved. Members of the other
protocol have turns, too.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from apportion.wire.records.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
    ConsumerProtocolTopicPartition,
)
from apportion.wire.records.consumer_serde import decode, encode
from tests.kafka.differential.classic_author import GONE, Phase
from tests.kafka.differential.classic_steps import (
    FOREVER_MS,
    RANGE,
    Arrive,
    Join,
    Knock,
    Pulse,
    Rest,
    Sync,
)
from tests.kafka.differential.connections import gather
from tests.kafka.differential.plain_values import Plain, TopicIndex, grouped
from tests.kafka.differential.steps import TOLD, Beat

if TYPE_CHECKING:
    from tests.kafka.differential.side import Side

ROUNDS = 60
REFUSED = (23, 81, 82)
"""INCONSISTENT_GROUP_PROTOCOL, GROUP_MAX_SIZE_REACHED and FENCED_INSTANCE_ID: the client has no
place here and goes, as Java's clients do. Two clients of one instance that came back when they are
fenced would fence each other as long as both join.
"""
ALONE_S = 0.5
"""So long an answer is waited for that nobody else can hold up, as far as the clients know."""


@dataclass(slots=True)
class Client:
    """A classic client as it knows itself. An eager one gives up everything before it joins and
    says that it owns nothing.
    """

    letter: str
    version: int
    instance: str | None
    topics: tuple[str, ...]
    is_eager: bool
    blob_version: int = 1
    phase: Phase = Phase.OUT
    generation: int = -1
    owned: frozenset[TopicIndex] = frozenset()
    label: str = ""
    first_id: str = ""
    """What it says as its id when it begins: one that it had in the other protocol, or nothing."""
    given: tuple[str, ...] = ()
    """Whom it has to give partitions: not empty if it leads."""

    def subscription(self) -> bytes:
        """What it says when it joins."""
        return subscription(self.topics, self.owned, self.blob_version)


@dataclass(slots=True)
class ClassicClients:
    """The classic clients of one group on one broker."""

    side: Side
    group: str
    clients: dict[str, Client] = field(default_factory=dict)
    gone: dict[str, int] = field(default_factory=dict)
    """The error code that each client without a membership has received, by its letter."""

    def waits(self, letter: str) -> bool:
        """Whether the client has asked something that was not answered yet."""
        line = self.side.lines.get(letter)
        return line is not None and line.asked is not None

    def join(self, client: Client, **said: object) -> Join:
        """The JoinGroup of a client as it is."""
        if client.is_eager:
            client.owned = frozenset()
        facts: dict[str, object] = {
            "protocols": ((RANGE, client.subscription()),),
            "version": client.version,
            "member_id": client.first_id if client.phase is Phase.OUT else None,
            "instance": client.instance,
            "session_ms": FOREVER_MS,
        }
        return Join(self.group, client.letter, **facts | said)  # type: ignore[arg-type]

    def sync(self, client: Client) -> Sync:
        """The SyncGroup of a client as it is."""
        version = min(client.version, 5)
        return Sync(
            self.group,
            client.letter,
            client.generation,
            self.shares(client),
            version,
            instance=client.instance if version >= 3 else None,
            kind="consumer",
            protocol=RANGE,
        )

    def pulse(self, client: Client) -> Pulse:
        """The Heartbeat of a client as it is."""
        version = min(client.version, 4)
        return Pulse(
            self.group,
            client.letter,
            client.generation,
            version,
            instance=client.instance if version >= 3 else None,
        )

    def shares(self, leader: Client) -> tuple[tuple[str, bytes], ...]:
        """What a leader gives everybody: by turns, to the members by label, of the topics that each
        of them wants.
        """
        wants = {client.label: client.topics for client in self.clients.values()}
        shares: dict[str, set[TopicIndex]] = {label: set() for label in sorted(leader.given)}
        turn = 0
        for topic in sorted({topic for topics in wants.values() for topic in topics}):
            takers = [label for label in shares if topic in wants.get(label, (topic,))]
            for index in range(self.side.partitions[topic] if takers else 0):
                shares[takers[turn % len(takers)]].add((topic, index))
                turn += 1
        return tuple((label, assignment(frozenset(given))) for label, given in shares.items())

    def hear(self, letter: str, answer: Plain) -> None:
        """The client knows what it was answered to a JoinGroup or a SyncGroup."""
        client = self.clients.get(letter)
        if client is None:
            return
        client.first_id = ""
        if answer != "closed" and answer["code"] in REFUSED:
            self.gone[letter] = answer["code"]
            del self.clients[letter]
            self.side.views.pop((self.group, letter), None)
        elif answer == "closed" or answer["code"] in GONE:
            client.phase, client.owned, client.label = Phase.OUT, frozenset(), ""
        elif answer["code"] == 79:
            client.phase, client.label = Phase.PENDING, answer["member"]
        elif answer["code"]:
            client.phase = Phase.TOLD
            client.owned = frozenset() if answer["code"] == 22 else client.owned
        elif "leader" in answer:
            client.phase, client.generation, client.label = (
                Phase.JOINED,
                answer["generation"],
                answer["member"],
            )
            client.given = tuple(answer["members"])
        else:
            client.phase, client.owned = Phase.STABLE, places_of(answer["assignment"])

    def say(self, step: Join | Sync) -> None:
        """The step is asked, and what is answered soon is known; who is alone has nobody to wait
        for.
        """
        self.side.play(step)
        self.listen()
        give_up = time.monotonic() + ALONE_S
        others = [each for each in self.clients.values() if each.letter != step.member]
        is_alone = not self.moderns() and all(
            each.phase in (Phase.OUT, Phase.PENDING) for each in others
        )
        while is_alone and self.waits(step.member) and time.monotonic() < give_up:
            self.listen()

    def listen(self) -> None:
        """What has come is known to the clients."""
        gather((self.side,))
        for letter, answer in self.side.answered().items():
            self.hear(letter, answer)

    def rest(self) -> Plain:
        """Where all come to rest; or who was stopped on the way, and by what."""
        before = self.owners()
        self.gone = {}
        for _ in range(ROUNDS):
            moved = self.round()
            if not moved:
                break
        after = self.owners()
        stayed = self.shared()
        return {
            "is quiet": not moved,
            "gone": self.gone,
            "generations": {client.letter: client.generation for client in self.clients.values()},
            "epochs": {letter: view.epoch for letter, view in self.moderns().items()},
            "sizes": tuple(sorted(len(partitions) for partitions in self.shared().values())),
            "owned": len(after),
            "owned twice": len(after)
            < sum(len(partitions) for partitions in self.shared().values()),
            "moved": sum(
                1
                for partition, letter in before.items()
                if letter in stayed and after.get(partition, letter) != letter
            ),
        }

    def round(self) -> bool:
        """Whether anything has changed when everybody had a turn."""
        moved = False
        for client in list(self.clients.values()):
            if self.waits(client.letter):
                moved = True
            elif client.phase in (Phase.OUT, Phase.PENDING, Phase.TOLD):
                self.say(self.join(client))
                moved = True
            elif client.phase is Phase.JOINED:
                self.say(self.sync(client))
                moved = True
            else:
                code = self.side.play(self.pulse(client))["code"]
                if code in (22, 27):
                    client.phase, moved = Phase.TOLD, True
                    client.owned = client.owned if code == 27 else frozenset()
                elif code:
                    self.gone[client.letter] = code
                    del self.clients[client.letter]
                    self.side.views.pop((self.group, client.letter), None)
        for letter, view in self.moderns().items():
            was = (view.epoch, view.assigned, view.owned)
            answer = self.side.play(
                Beat(self.group, letter, view.epoch, owned=TOLD, instance=view.instance)
            )
            if answer["code"]:
                self.gone[letter] = answer["code"]
                del self.side.views[self.group, letter]
            moved = moved or was != (view.epoch, view.assigned, view.owned)
        self.listen()
        return moved

    def moderns(self) -> dict[str, Any]:
        """The views of members of the consumer protocol, by letter."""
        return {
            letter: view
            for (group, letter), view in sorted(self.side.views.items())
            if group == self.group and letter not in self.clients and view.epoch > 0
        }

    def shared(self) -> dict[str, frozenset[TopicIndex]]:
        """What each member owns."""
        return {each.letter: each.owned for each in self.clients.values()} | {
            letter: view.owned for letter, view in self.moderns().items()
        }

    def owners(self) -> dict[TopicIndex, str]:
        """Who owns each partition."""
        return {
            partition: letter
            for letter, partitions in self.shared().items()
            for partition in partitions
        }


def arrive(side: Side, step: Arrive) -> Plain:
    """The client is one of the crowd."""
    crowd = side.crowds.setdefault(step.group, ClassicClients(side, step.group))
    client = Client(
        step.member, step.version, step.instance, step.topics, step.is_eager, step.blob_version
    )
    crowd.clients[step.member] = client
    if step.member_id and (view := side.views.pop((step.group, step.member_id), None)) is not None:
        client.first_id, client.owned = view.member_id, view.owned
    return "here"


def knock(side: Side, step: Knock) -> None:
    """The client's JoinGroup is on its way."""
    crowd = side.crowds[step.group]
    client = crowd.clients[step.member]
    client.blob_version = step.blob_version
    side.play(crowd.join(client))


def rest(side: Side, step: Rest) -> Plain:
    """Where the group came to rest."""
    return side.crowds.setdefault(step.group, ClassicClients(side, step.group)).rest()


def subscription(
    topics: tuple[str, ...], owned: frozenset[TopicIndex] = frozenset(), version: int = 3
) -> bytes:
    """A subscription as Java's clients write it."""
    parts = tuple(
        ConsumerProtocolTopicPartition(topic=name, partitions=indexes)
        for name, indexes in grouped(owned).items()
    )
    return encode(ConsumerProtocolSubscription(topics=topics, owned_partitions=parts), version)


def assignment(partitions: frozenset[TopicIndex]) -> bytes:
    """An assignment as Java's clients write it."""
    parts = tuple(
        ConsumerProtocolTopicPartition(topic=name, partitions=indexes)
        for name, indexes in grouped(partitions).items()
    )
    return encode(ConsumerProtocolAssignment(assigned_partitions=parts), 1)


def places_of(blob: bytes) -> frozenset[TopicIndex]:
    """The partitions in an assignment; none in one that is empty."""
    if not blob:
        return frozenset()
    parts = decode(ConsumerProtocolAssignment, blob)[1].assigned_partitions
    return frozenset((part.topic, index) for part in parts for index in part.partitions)
