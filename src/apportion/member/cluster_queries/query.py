"""A query to a broker as a value: its request, and how to read the response.

A query knows neither sockets nor retries. `client.cluster.Cluster` sends it to a real cluster, the
simulator over its network; both retry by `member/reactions.py`.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, ClassVar, Generic, TypeVar

from apportion.errors import Code, Refused

V = TypeVar("V")


@dataclass(frozen=True, slots=True)
class BrokerQuery(Generic[V]):
    """A query that any broker, or each broker for itself, can answer.

    api: Kafka's name, as in `member/reactions.py`. version: of the request, where only this one
    will do; None for the newest.
    """

    api: ClassVar[str]
    version: ClassVar[int | None] = None

    def request(self) -> Any:
        """Return the request."""
        raise NotImplementedError

    def parse(self, response: Any) -> V:
        """Return the result in a response to the request; raise Refused for an error in it."""
        raise NotImplementedError

    @property
    def subject(self) -> str:
        """The query's name in the texts of its errors."""
        return self.api

    def refuse_errors(self, codes: Iterable[int]) -> None:
        """Raise Refused for the first of a response's error codes that is not NONE."""
        for number in codes:
            if number != Code.NONE:
                code = Code.of(number)
                raise Refused(code, f"{self.subject}: {code.sentence}")


@dataclass(frozen=True, slots=True)
class GroupQuery(BrokerQuery[V]):
    """A query that only the group's coordinator answers."""

    group_id: str

    @property
    def subject(self) -> str:
        """The query's name in the texts of its errors."""
        return f"{self.api} of group {self.group_id!r}"
