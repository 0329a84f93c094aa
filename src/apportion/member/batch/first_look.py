"""The first look of a Spark query at its cluster: brokers, the login, rights on topics and group.

It is taken in `load()`, the last place where Spark lets a source speak before the query runs: an
error there comes without lines of Java. What may pass is waited for, as long as by a query that
begins (`retry_limits.py`); what only the query can judge, such as a topic that does not exist yet,
is left to it. Nothing is changed: no member joins, and no offset is committed.

The rule knows no member. It reads the time (monotonic ms) by `ReadClock`.
"""

from typing import NamedTuple

from apportion.errors import Refused, Unanswerable
from apportion.machine import Note
from apportion.member.batch.membership import MembershipFailed
from apportion.member.batch.retry_limits import remedy, retry_limit_s, waiting_text
from apportion.member.batch.topic_choice import AssignedPartitions, TopicChoice
from apportion.member.cluster_queries.records import PartitionFetch, refusals
from apportion.member.queries import NO_MEMBER_INCARNATION, FetchCommitted, ListOffsets
from apportion.member.reactions import is_authentication_failure, is_permanent
from apportion.member.records.queries import FetchRecords
from apportion.member.time_limits import Pause, ReadClock
from apportion.readable import readable
from apportion.rules import Rule
from apportion.topics import TopicIdPartition, TopicPartition
from apportion.wire.messages.list_offsets import LATEST

PAUSE_MS = 500  # between two attempts


class FirstLook(NamedTuple):
    """The group of a query that begins, its brokers as the user gave them, and its topics.

    assigned: the partitions of the option assign; None: all of the topics.
    """

    group_id: str
    servers: str
    topics: TopicChoice
    assigned: AssignedPartitions | None = None


def look_at_cluster(look: FirstLook) -> Rule[None]:
    """Return once a query may begin; raise MembershipFailed if none can.

    A warning says what is waited for, once for each reason.
    """
    began_ms: int = yield ReadClock()
    logged = ""
    while (failure := (yield from _failure_or_none(look))) is not None:
        now_ms: int = yield ReadClock()
        limit_s = retry_limit_s(failure, has_assignment=False, must_end=False)
        is_over = limit_s is not None and now_ms - began_ms >= limit_s * 1000
        if is_over or is_authentication_failure(failure):
            raise MembershipFailed(
                f"group {readable(look.group_id)} at {look.servers}: {failure}{remedy(failure)}"
            ) from failure
        text = waiting_text(failure, limit_s)
        if text != logged:
            logged = text
            yield Note("warning", text)
        yield Pause(PAUSE_MS)


def missing_partition(topic: str, number: int) -> MembershipFailed:
    """Return the error for a partition of the option assign that does not exist."""
    return MembershipFailed(
        f"option assign names {topic}-{number}, which does not exist: create the partition, or "
        "correct the option"
    )


def _failure_or_none(look: FirstLook) -> Rule[Exception | None]:
    """Return the error of one attempt, if a query that begins would end with it."""
    try:
        yield from _ask(look)
    except Unanswerable as outage:
        return outage
    except Refused as refused:
        # Any other may pass while the query runs, which waits by rules of its own.
        return refused if is_permanent(refused) else None
    return None


def _ask(look: FirstLook) -> Rule[None]:
    """Ask the cluster what the query will ask, once.

    Raises Refused, Unanswerable, and MembershipFailed for a partition that does not exist.
    """
    partitions = yield from look.topics.find_partitions(look.assigned)
    existing = dict.fromkeys(partition.topic_partition for partition in partitions)
    for topic, number in look.assigned or ():
        if TopicPartition(topic, number) not in existing:
            raise missing_partition(topic, number)
    ends: dict[TopicIdPartition, int] = yield ListOffsets(partitions, LATEST)
    # A Fetch at the end returns no record, and needs Read as every batch does.
    fetched: dict[TopicIdPartition, PartitionFetch] = yield FetchRecords(ends, max_wait_ms=0)
    for refused in refusals(fetched).values():
        raise refused
    yield FetchCommitted(partitions, NO_MEMBER_INCARNATION)
