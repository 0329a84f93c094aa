"""The first look at the cluster of a stream: its brokers, the login, rights on topics and group.

`load()` is the last place where Spark lets a source speak before the query runs, and an error there
comes without lines of Java. What may pass is waited for, as long as by a query that begins
(`member/batch/retry_limits.py`); what only the query can judge, such as a topic that does not exist
yet, is left to it. Nothing is changed: no member joins, and no offset is committed.
"""

import logging
import time

from apportion.client.cluster import Cluster
from apportion.errors import Refused, Unanswerable
from apportion.member.batch.membership import MembershipFailed
from apportion.member.batch.retry_limits import remedy, retry_limit_s, waiting_text
from apportion.member.batch.topic_choice import TopicChoice
from apportion.member.cluster_queries.records import refusals
from apportion.member.reactions import is_authentication_failure, is_permanent
from apportion.readable import readable
from apportion.spark.membership.fixed_assignment import missing_partition
from apportion.spark.options.chosen_topics import chosen_partitions
from apportion.spark.options.stream import SourceOptions
from apportion.topics import TopicPartition
from apportion.wire.messages.list_offsets import LATEST

PAUSE_S = 0.5  # between two attempts

log = logging.getLogger("apportion.spark")


def look_at_cluster(options: SourceOptions) -> None:
    """Raise MembershipFailed if no query with these options can begin."""
    cluster = Cluster(
        options.bootstrap,
        client_id=options.client_id,
        timeout_ms=options.request_timeout_ms,
        security=options.security,
    )
    began_s, logged = time.monotonic(), ""
    try:
        while (failure := _failure_or_none(cluster, options)) is not None:
            limit_s = retry_limit_s(failure, has_assignment=False, must_end=False)
            is_over = limit_s is not None and time.monotonic() - began_s >= limit_s
            if is_over or is_authentication_failure(failure):
                raise MembershipFailed(
                    f"group {readable(options.group)} at {options.bootstrap}: "
                    f"{failure}{remedy(failure)}"
                )
            text = waiting_text(failure, limit_s)
            if text != logged:
                logged = text
                log.warning("group %s: %s", readable(options.group), readable(text))
            time.sleep(PAUSE_S)
    finally:
        cluster.close()


def _failure_or_none(cluster: Cluster, options: SourceOptions) -> Exception | None:
    """Return the error of one attempt, if a query that begins would end with it."""
    try:
        _ask(cluster, options)
    except Unanswerable as outage:
        return outage
    except Refused as refused:
        return refused if is_permanent(refused) else None
    return None


def _ask(cluster: Cluster, options: SourceOptions) -> None:
    """Ask the cluster what the query will ask, once.

    Raises Refused, Unanswerable, and MembershipFailed for a partition that does not exist.
    """
    choice = TopicChoice(options.topics, options.expression)
    partitions = chosen_partitions(cluster, choice, options.assigned)
    existing = dict.fromkeys(partition.topic_partition for partition in partitions)
    for topic, number in options.assigned or ():
        if TopicPartition(topic, number) not in existing:
            raise missing_partition(topic, number)
    ends = cluster.list_offsets(partitions, LATEST)
    # A Fetch at the end returns no record, and needs Read as every batch does.
    for refused in refusals(cluster.fetch(ends, max_wait_ms=0)).values():
        raise refused
    cluster.committed_offsets(options.group, partitions)
