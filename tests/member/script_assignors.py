"""The client-side assignors of the scripts, which answer and reply what a script says."""

from collections.abc import Mapping
from typing import Any

from apportion.assign.by_name import Given, Subscription, TopicShape, by_topic
from apportion.errors import Unanswerable
from apportion.member.assignors.interface import Assignor, FollowUp, MemberFailure, Rebalance


class CountingAssignor(Assignor):
    """Answers what it is told to; its user data count how often they were asked for.

    given: its answer; an exception is raised instead. reply: of `on_assignment`, likewise.
    fails: to encode its user data.
    """

    name = "counting"
    fails = False

    def __init__(
        self, given: Any = None, reply: FollowUp | MemberFailure | Exception | None = None
    ) -> None:
        self.given: Any = {} if given is None else given
        self.reply = reply
        self.encoded = 0
        self.told: list[tuple[Given, int]] = []

    def user_data(self, topics: tuple[str, ...]) -> bytes | None:
        if self.fails:
            raise KeyError("nothing")
        self.encoded += 1
        return f"{','.join(topics)} {self.encoded}".encode()

    def assign(self, cluster: Mapping[str, TopicShape], members: Mapping[str, Subscription]) -> Any:
        if isinstance(self.given, Exception):
            raise self.given
        return self.given

    def on_assignment(self, given: Given, generation: int) -> FollowUp | MemberFailure | None:
        self.told.append((given, generation))
        if isinstance(self.reply, Exception):
            raise self.reply
        return self.reply


class AgingAssignor(CountingAssignor):
    """An assignor whose user data have versions 2 to 5."""

    name = "aging"
    minimum_version = 2
    maximum_version = 5

    def versioned_user_data(self, topics: tuple[str, ...], version: int) -> bytes | None:
        return f"in {version}".encode()


class ComingAssignor(CountingAssignor):
    """A cooperative assignor without user data."""

    name = "coming"
    rebalances = (Rebalance.COOPERATIVE,)

    def user_data(self, topics: tuple[str, ...]) -> bytes | None:
        return None


class AskingAssignor(CountingAssignor):
    """Gives everything to the member that the cluster names, and tells it of a topic that it makes.

    Where nobody names one, m is told why.
    """

    name = "asking"

    def user_data(self, topics: tuple[str, ...]) -> bytes | None:
        return None

    def assign(self, cluster: Mapping[str, TopicShape], members: Mapping[str, Subscription]) -> Any:
        if not cluster:
            return {}
        return self.ask(cluster)

    def ask(self, cluster: Mapping[str, TopicShape]) -> Any:
        """The queries, and the answer."""
        try:
            who = yield "who?"
        except Unanswerable as problem:
            return {"m": Given(user_data=str(problem).encode())}
        if who == "nonsense":
            return {"stranger": Given()}
        made = yield "make u"
        parts = by_topic([("t", number) for number in range(cluster["t"].partitions)])
        return {who: Given(parts, user_data=repr(made).encode())}


class InsistingAssignor(AskingAssignor):
    """Asks until it is answered."""

    name = "insisting"

    def ask(self, cluster: Mapping[str, TopicShape]) -> Any:
        while True:
            try:
                yield "who?"
            except Unanswerable:
                continue
            return {}


SCRIPTED = (CountingAssignor, AgingAssignor, ComingAssignor, AskingAssignor, InsistingAssignor)
