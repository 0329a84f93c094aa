"""The part of a member's state machine that serves its assignors, under either group protocol.

An assignor needs what the cluster knows: the answer to its own query, or the metadata of topics.
The member looks that up beside its requests to the coordinator, the query first. And an assignor
may ask for a rebalance later (`FollowUp`). What the answers and that rebalance change is the
protocol's: `consumer/machine.py` and `classic/machine.py` say it.
"""

from abc import abstractmethod
from typing import Any, ClassVar

from apportion.member.follow_up import FollowUpDeadline
from apportion.member.lookups import FetchedTopics, LookupEvent, Lookups, NeededTopics
from apportion.member.machine import MemberMachine, S
from apportion.member.membership import (
    Event,
    FetchMetadata,
    Lookup,
    MembershipState,
    MetadataFetched,
    QueryAnswered,
    QueryCluster,
    Unanswered,
)
from apportion.member.step import Step


class AssigningMember(MemberMachine[S]):
    """The look-ups of one member, and the deadline of the rebalance that an assignor asked for."""

    admitted_states: ClassVar[tuple[MembershipState, ...]]
    """the states in which the coordinator has the member in the group"""
    lookup_words: ClassVar[str]
    """what the member looks up, as log lines name it"""

    def __init__(self, settings: S, *, member_id: str = "", interval_ms: int = 0) -> None:
        super().__init__(settings, member_id=member_id, interval_ms=interval_ms)
        self._lookups = Lookups()

    def _due_times(self) -> list[int | None]:
        return [*super()._due_times(), self._lookup_at_ms(), self._follow_up_at_ms()]

    def _apply_event(self, step: Step, event: Event) -> None:
        super()._apply_event(step, event)
        match event:
            case MetadataFetched() | QueryAnswered() | Unanswered():
                self._apply_lookup(step, event)

    # what assignors ask for

    @property
    @abstractmethod
    def _query(self) -> Any:
        """The query that an assignor of the member has to the cluster; None if it has none."""

    @abstractmethod
    def _needed_topics(self) -> NeededTopics:
        """Return the topics whose metadata the member needs."""

    @property
    @abstractmethod
    def _follow_up(self) -> FollowUpDeadline:
        """The deadline of the rebalance for which an assignor has asked."""

    def _follow_up_at_ms(self) -> int | None:
        """Return when that rebalance is due; None without one, and outside the group."""
        return self._follow_up.at_ms if self.state in self.admitted_states else None

    # look-ups

    def _lookup_at_ms(self) -> int | None:
        """Return when the next look-up is due; None if there is none to send."""
        if self.state not in self.admitted_states:
            return None
        has_lookup = self._query is not None or any(self._needed_topics())
        return self._lookups.due_at() if has_lookup else None

    def _start_lookup(self) -> Lookup:
        """Start the look-up that is due: the assignor's query, else for the metadata of topics."""
        request_id = self._link.next_request_id()
        # The query goes first, since the group waits for it.
        if (query := self._query) is not None:
            return self._lookups.start(QueryCluster(request_id, query))
        return self._lookups.start(FetchMetadata(request_id, *self._needed_topics()))

    def _apply_lookup(self, step: Step, event: LookupEvent) -> None:
        """Apply the answer to the look-up in flight; ignore one to any other request."""
        lookup = self._lookups.take_answered(event.request_id)
        if lookup is None:
            return
        if isinstance(event, Unanswered):
            step.warn(f"{self._label} cannot look up {self.lookup_words}: {event.why}")
        if isinstance(lookup, QueryCluster):
            # The answer to a query that was given up since is of no use.
            if lookup.query is self._query:
                self._apply_query_answer(step, event)
        elif isinstance(event, MetadataFetched):
            self._apply_metadata(step, FetchedTopics(lookup.names, event.topics))
        if isinstance(event, Unanswered):
            self._lookups.schedule(step.now, self.settings.backoff_limit_ms)

    @abstractmethod
    def _apply_query_answer(self, step: Step, event: LookupEvent) -> None:
        """Resume the assignor whose query was answered, or cannot be."""

    @abstractmethod
    def _apply_metadata(self, step: Step, fetched: FetchedTopics) -> None:
        """Apply the metadata of topics that the member needed."""
