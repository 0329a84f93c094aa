"""A member's look-ups in the cluster: one at a time, beside its requests to the coordinator."""

from typing import Any, NamedTuple

from apportion.errors import Code, Refused, Unanswerable
from apportion.machine import Instant
from apportion.member.cluster_queries.topics import TopicDescription
from apportion.member.membership import (
    Lookup,
    MetadataFetched,
    QueryAnswered,
    QueryCluster,
    Unanswered,
)
from apportion.topics import TopicId

LookupEvent = MetadataFetched | QueryAnswered | Unanswered


class NeededTopics(NamedTuple):
    """The topics whose metadata a member needs, by name or by id."""

    names: tuple[str, ...] = ()
    ids: tuple[TopicId, ...] = ()


class FetchedTopics(NamedTuple):
    """The topics that exist of those whose metadata were requested.

    requested: their names; () where they were requested by id.
    """

    requested: tuple[str, ...]
    topics: tuple[TopicDescription, ...]


class Lookups:
    """The one metadata request or assignor's query that may be in flight.

    An answer to any other request is stale.
    """

    def __init__(self) -> None:
        self._in_flight: Lookup | None = None
        self._not_before_ms = 0

    def due_at(self) -> int | None:
        """Return when the next one may be sent (monotonic ms); None while one is in flight."""
        return self._not_before_ms if self._in_flight is None else None

    def take_answered(self, request_id: int) -> Lookup | None:
        """Return the request with this id, which is answered then; None if it is not in flight."""
        lookup = self._in_flight
        if lookup is None or request_id != lookup.request_id:
            return None
        self._in_flight = None
        return lookup

    def schedule(self, now: Instant, wait_ms: int) -> None:
        """Ignore the answer to the request in flight, and send none for `wait_ms`."""
        self._in_flight, self._not_before_ms = None, now.mono_ms + wait_ms

    def give_up(self, query: Any) -> None:
        """Ignore the answer to an assignor's query if it is in flight: nobody needs it any more."""
        lookup = self._in_flight
        if isinstance(lookup, QueryCluster) and lookup.query is query:
            self._in_flight = None

    def start(self, lookup: Lookup) -> Lookup:
        """Return the next request, which is in flight then."""
        self._in_flight = lookup
        return lookup


def answer_of(event: LookupEvent) -> Any:
    """Return the answer to an assignor's query; an exception, to be thrown, if it has none.

    That is Refused for an error that no repetition can change, else Unanswerable.
    """
    match event:
        case QueryAnswered(_, answer):
            return answer
        case MetadataFetched(_, topics):
            return {topic.name: topic.partitions for topic in topics}
        case Unanswered(_, why, code):
            is_final = code is not Code.NONE and not code.retriable
            return Refused(code, why) if is_final else Unanswerable(why)
