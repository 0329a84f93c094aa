"""The matrix: every case in every way that its user may be given what it needs."""

from collections.abc import Iterable
from typing import NamedTuple

from tests.kafka.acl_matrix.side import SUPER, AclSide, Plain, Users
from tests.kafka.acl_matrix.values import HERE, OTHER, Case, Need, ways


class Try(NamedTuple):
    """One case as one user."""

    case: Case
    way: str
    user: str
    token: str
    topics: tuple[str, ...]

    def line(self) -> str:
        """For a reader."""
        return f"{self.case.name}, version {self.case.version}, {self.way}"


def tries(cases: Iterable[Case], users: Users) -> list[Try]:
    """Each case in each way, with the user who has just that."""
    made = []
    for number, case in enumerate(cases):
        for index, (way, _) in enumerate(ways(case.needs)):
            token = f"{number}.{index}"
            needs = tuple(fill(need, token) for need in case.needs)
            grants = dict(ways(needs))[way]
            topics = tuple(name.format(token=token) for name in case.topics)
            made.append(Try(case, way, users.having(grants), token, topics))
        token = f"{number}.super"
        topics = tuple(name.format(token=token) for name in case.topics)
        made.append(Try(case, "of a super user", SUPER, token, topics))
    return made


def fill(need: Need, token: str) -> Need:
    """The need with the case's own name."""
    return need._replace(name=need.name.format(token=token))


def prepare(side: AclSide, users: Users) -> None:
    """The lasting topics are there, and all users have what they are to have."""
    side.wait_for_coordinator()
    side.wait_for_producer_ids()
    side.note_strangers()
    side.make_topics((HERE, OTHER))
    side.make_groups()
    side.grant(users)


def play(side: AclSide, each: Try) -> Plain:
    """What the user is answered."""
    side.token = each.token
    if each.topics:
        side.make_topics(each.topics, partitions=1)
    return side.play(each.case, each.user)
