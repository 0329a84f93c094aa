"""Answers to the queries that the rules of all members ask, through the simulated broker.

As `client.member_answers` over sockets. Each kind of application has a table of its own for further
queries.
"""

from collections.abc import Callable
from typing import Any

from apportion.machine import Note
from apportion.member.partition_leaders import list_offsets
from apportion.member.queries import (
    CommitOffsets,
    ExistingTopics,
    FetchCommitted,
    ListOffsets,
    ReadMembership,
    ResolveTopicNames,
)
from apportion.sim.actors.requests import request_offsets, run_requests
from apportion.sim.kernel.clock import Script


def at_once(answer: Any) -> Script:
    """Return the answer without an effect."""
    yield from ()
    return answer


def _trace(application: Any, note: Note) -> Script:
    application.simulation.write_trace(application.name, note.text)
    return at_once(None)


# By the kind of query; each is called with the application and the query.
ANSWERS: dict[type, Callable[[Any, Any], Script]] = {
    ReadMembership: lambda application, _query: at_once(application.snapshot()),
    ExistingTopics: lambda application, query: run_requests(
        application, application.metadata.topics(query.names, fresh=True)
    ),
    ResolveTopicNames: lambda application, query: run_requests(
        application, application.metadata.resolve_names(query.partitions)
    ),
    FetchCommitted: request_offsets,
    CommitOffsets: request_offsets,
    ListOffsets: lambda application, query: run_requests(
        application, list_offsets(application.metadata, query.partitions, query.timestamp)
    ),
    Note: _trace,
}
