"""The driver of the first look at a stream's cluster: it answers the queries of the rule.

`member/batch/first_look.py` decides what is asked, what is waited for, and what `load()` says.
"""

import logging

from apportion.client import cluster_answers
from apportion.client.cluster_answers import ClusterAnswers
from apportion.drive.notes import log_note
from apportion.machine import Note
from apportion.member.batch import first_look
from apportion.member.batch.first_look import FirstLook
from apportion.member.records.queries import FetchRecords
from apportion.member.time_limits import Pause, ReadClock
from apportion.rules import run_rule
from apportion.spark.connections.clusters import cluster_of, refuse_unknown_hosts
from apportion.spark.options.stream import SourceOptions

log = logging.getLogger("apportion.spark")


def look_at_cluster(options: SourceOptions) -> None:
    """Raise MembershipFailed, or OptionError, if no query with these options can begin."""
    refuse_unknown_hosts(options)
    cluster = cluster_of(options)
    look = FirstLook(
        options.group,
        options.bootstrap,
        options.topics,
        options.assigned,
    )
    try:
        run_rule(
            first_look.look_at_cluster(look),
            lambda query: ANSWERS[type(query)](cluster, options.group, query),
        )
    finally:
        cluster.close()


ANSWERS: ClusterAnswers = {
    **cluster_answers.ANSWERS,
    Note: lambda _cluster, group, note: log_note(log, note, group),
    ReadClock: lambda cluster, _group, query: cluster.answer(query),
    Pause: lambda cluster, _group, query: cluster.answer(query),
    FetchRecords: lambda cluster, _group, query: cluster.fetch(
        query.positions, max_wait_ms=query.max_wait_ms
    ),
}
