"""Groups by seed: topics, racks, and members that come, go, fall behind and change their minds."""

from dataclasses import dataclass, field, replace
from random import Random

from apportion.assign.by_name import Given, Subscription, TopicShape
from apportion.member.assignors.builtin import CLIENT_ASSIGNORS
from apportion.member.assignors.interface import Assignor
from apportion.member.assignors.serde import encode_subscription

RACKS = ("r1", "r2", "r3")
# Java orders the last but two by UTF-16
NAMES = ("m-a", "m-B", "m-c", "m-\u00e9", "m-\uffee", "m-\U0001f600", "z", "A")
STATIC = ("10", "9", "i-2", None, None, None, None, None)


def any_cluster(random: Random, *, racks: bool = False) -> dict[str, TopicShape]:
    """Up to six topics of up to nine partitions, often of the same size, each with up to three
    replicas in racks.
    """
    sizes = [random.randint(0, 9), random.randint(1, 6)]
    return {
        f"t{number}": any_shape(random, random.choice(sizes), racks)
        for number in range(random.randint(1, 6))
    }


def any_shape(random: Random, partitions: int, racks: bool) -> TopicShape:
    """A topic; where it has racks, some partitions may be in none."""
    if not racks or random.random() < 0.1:
        return TopicShape(partitions)
    most = random.choice((1, 2, 3))
    return TopicShape(
        partitions,
        tuple(
            tuple(random.sample(RACKS, random.randint(most > 1, most))) for _ in range(partitions)
        ),
    )


def any_members(
    random: Random, cluster: dict[str, TopicShape], *, racks: bool = False
) -> dict[str, Subscription]:
    """Up to eight members that want all the same topics or not, some of which may not exist."""
    names = [*cluster, "gone"]
    all_alike = random.random() < 0.4
    liked = random.sample(names, random.randint(1, len(names)))
    where = (
        [*RACKS[: random.randint(1, 3)], *random.choice([(), (None,), ("elsewhere", "")])]
        if racks
        else [None]
    )
    members: dict[str, Subscription] = {}
    for name, instance_id in zip(NAMES, random.sample(STATIC, len(STATIC)), strict=True):
        if random.random() < 0.6 or not members:
            topics = (
                liked
                if all_alike or random.random() < 0.4
                else random.sample(names, random.randint(0, len(names)))
            )
            members[name] = Subscription(
                tuple(topics), rack_id=random.choice(where), instance_id=instance_id
            )
    return members


def blobs(members: dict[str, Subscription]) -> dict[str, tuple[bytes, str | None]]:
    """What the members send."""
    return {
        name: (encode_subscription(subscription), subscription.instance_id)
        for name, subscription in members.items()
    }


@dataclass
class Member:
    """A member with an assignor of its own, what it was given last and when."""

    assignor: Assignor
    topics: tuple[str, ...]
    given: Given = field(default_factory=Given)
    generation: int = -1

    def says(self) -> Subscription:
        """Its subscription now, with all that any assignor may want to know."""
        return Subscription(
            self.topics,
            self.assignor.user_data(self.topics),
            self.given.partitions,
            self.generation,
        )

    def adopts(self, given: Given, generation: int) -> None:
        """It has this from now on."""
        self.given, self.generation = given, generation
        self.assignor.on_assignment(given, generation)


class History:
    """A group from generation to generation. Who leads it, and by whose assignor, is the caller's
    matter.
    """

    def __init__(self, name: str, random: Random, *, alike: bool) -> None:
        self._kind, self._random, self._alike = CLIENT_ASSIGNORS[name], random, alike
        self.cluster = {
            f"t{number}": TopicShape(random.randint(1, 7)) for number in range(random.randint(1, 5))
        }
        self._born = 0
        self.members: dict[str, Member] = {}
        self.absent: dict[str, Member] = {}
        for _ in range(random.randint(1, 6)):
            self._join()

    def change(self) -> None:
        """Something happened: a member came, left, was cut off or is back with what it remembers;
        or a topic grew.
        """
        random, present = self._random, sorted(self.members)
        what = random.choice(
            ("join", "join", "leave", "cut off", "back", "grow", "another mind", "nothing")
        )
        if what == "join" and len(self.members) < 9:
            self._join()
        elif what == "leave" and len(present) > 1:
            del self.members[random.choice(present)]
        elif what == "cut off" and len(present) > 1:
            name = random.choice(present)
            self.absent[name] = self.members.pop(name)
        elif what == "back" and self.absent:
            name = random.choice(sorted(self.absent))
            self.members[name] = self.absent.pop(name)
            if self._alike:
                self.members[name].topics = self.members[next(iter(self.members))].topics
        elif what == "grow":
            topic = random.choice(sorted(self.cluster))
            self.cluster[topic] = TopicShape(self.cluster[topic].partitions + random.randint(1, 3))
        elif what == "another mind":
            chosen = present if self._alike else [random.choice(present)]
            topics = self._topics()
            for name in chosen:
                self.members[name].topics = topics

    def says(self) -> dict[str, Subscription]:
        """What everybody who is there says. Partitions of topics that a member no longer wants it
        has given up before.
        """
        subscriptions = {name: member.says() for name, member in self.members.items()}
        return {
            name: replace(
                each, owned=tuple(part for part in each.owned if part.topic in each.topics)
            )
            for name, each in subscriptions.items()
        }

    def adopts(self, given: dict[str, Given], generation: int) -> None:
        """Everybody who is there has been given this."""
        for name, member in self.members.items():
            member.adopts(given[name], generation)

    def _join(self) -> None:
        self._born += 1
        first = next(iter(self.members.values()), None)
        topics = first.topics if self._alike and first else self._topics()
        self.members[f"m{self._born}"] = Member(self._kind(), topics)

    def _topics(self) -> tuple[str, ...]:
        names = sorted(self.cluster)
        return tuple(sorted(self._random.sample(names, self._random.randint(1, len(names)))))
