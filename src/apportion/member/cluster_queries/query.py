"""A query to a broker as a value: its request, and how to read the response.

A query knows neither sockets nor retries. `client.network_client` sends it to a real cluster, the
simulator over its network; both retry by the rule of `retries.py`.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Generic, TypeVar

from apportion.errors import Code, Refused
from apportion.member.permissions import denial_or_none
from apportion.topics import TopicIdPartition

V = TypeVar("V")


@dataclass(frozen=True, slots=True)
class BrokerQuery(Generic[V]):
    """A query that any broker, or each broker for itself, can answer.

    api: Kafka's name, as in `member/reactions.py`. version: the newest of the request that
    will do, on brokers that have it; None for their newest.
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

    def names_of(self, _code: Code) -> tuple[str, ...]:
        """Return the names of what the query asks about that an error may be about."""
        return ()

    def refused(self, error_code: int, topic: str = "") -> Refused:
        """Return the error of a response. topic: the one that it is about."""
        code = Code.of(error_code)
        why = self._denial_or_none(code, topic, "")
        return Refused(code, why or f"{self.subject}: {code.sentence}")

    def refuse_errors(self, codes: Iterable[int]) -> None:
        """Raise Refused for the first of a response's error codes that is not NONE."""
        for number in codes:
            if number != Code.NONE:
                raise self.refused(number)

    def refuse_error(self, error_code: int, said: str | None, topic: str = "") -> None:
        """Raise Refused for an error in a response that has words for it; accept NONE."""
        if error_code != Code.NONE:
            code = Code.of(error_code)
            raise Refused(code, self._denial_or_none(code, topic, said or "") or said or "")

    def _denial_or_none(self, code: Code, topic: str, said: str) -> str | None:
        is_of_topic = topic and code is Code.TOPIC_AUTHORIZATION_FAILED
        names = (topic,) if is_of_topic else self.names_of(code)
        return denial_or_none(self.api, code, names, said)

    def refusal(self, error_code: int, partition: TopicIdPartition) -> Refused:
        """Return the error that a response has for one partition."""
        code = Code.of(error_code)
        why = denial_or_none(self.api, code, (partition.topic,)) or code.sentence
        return Refused(code, f"{self.api} of {partition}: {why}")


@dataclass(frozen=True, slots=True)
class LeaderQuery(BrokerQuery[V]):
    """A query to the leader of partitions, which answers for each of them."""

    def results(self, response: Any) -> Any:
        """Return what `parse` returns, but where the error of a partition is its result.

        By default `parse` raises none of these errors.
        """
        return self.parse(response)


@dataclass(frozen=True, slots=True)
class OffsetQuery(LeaderQuery[dict[TopicIdPartition, int]]):
    """A query to the leader of partitions, which answers for each with an offset or an error."""

    def results(self, response: Any) -> dict[TopicIdPartition, int | Refused]:
        """Return the offset or the error of each partition of the query."""
        raise NotImplementedError

    def parse(self, response: Any) -> dict[TopicIdPartition, int]:
        """Return each partition's offset; raise Refused if any has an error."""
        offsets = {}
        for partition, result in self.results(response).items():
            if isinstance(result, Refused):
                raise result
            offsets[partition] = result
        return offsets

    def read_results(
        self,
        answers: Mapping[tuple[str | bytes, int], tuple[int, int]],
        partitions: Iterable[TopicIdPartition],
    ) -> dict[TopicIdPartition, int | Refused]:
        """Return the offset or the error of each of the partitions.

        A partition that the response leaves out has UNKNOWN_SERVER_ERROR.
        answers: error code and offset, by `result_key`.
        """
        results: dict[TopicIdPartition, int | Refused] = {
            partition: Refused(
                Code.UNKNOWN_SERVER_ERROR, f"{self.api} of {partition}: the response leaves it out"
            )
            for partition in partitions
        }
        for partition, (error_code, offset) in by_partition(answers, results).items():
            failed = error_code != Code.NONE
            results[partition] = self.refusal(error_code, partition) if failed else offset
        return results


@dataclass(frozen=True, slots=True)
class GroupQuery(BrokerQuery[V]):
    """A query that only the group's coordinator answers."""

    group_id: str

    @property
    def subject(self) -> str:
        """The query's name in the texts of its errors."""
        return f"{self.api} of group {self.group_id!r}"

    def names_of(self, code: Code) -> tuple[str, ...]:
        """Return the group, if the error may be about it."""
        return (self.group_id,) if code is Code.GROUP_AUTHORIZATION_FAILED else ()


def result_key(name: str, topic_id: bytes, number: int) -> tuple[str | bytes, int]:
    """Return the key of a partition in a response, by its topic's name or else by its id."""
    return name or bytes(topic_id), number


def by_partition(
    results: Mapping[tuple[str | bytes, int], V], partitions: Iterable[TopicIdPartition]
) -> dict[TopicIdPartition, V]:
    """Return the results of these partitions in a response, whose topics have names or ids.

    results: by `result_key`. A partition that the response leaves out is left out.
    """
    found = {}
    for partition in partitions:
        # By name or by id is a matter of the version (KIP-516, KIP-848).
        for topic in (partition.topic, partition.topic_id):
            if (topic, partition.partition) in results:
                found[partition] = results[topic, partition.partition]
                break
    return found
