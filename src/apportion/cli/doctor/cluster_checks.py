"""The checks of a cluster: its brokers and the login, the group, the topics.

Nothing is changed: no member joins, and no offset is committed.
"""

import shlex
from collections.abc import Callable, Iterator
from functools import partial

from apportion.cli.asked import Asked
from apportion.cli.cluster_reports import next_step, with_cluster
from apportion.cli.command_config import command_security
from apportion.cli.doctor.finding import Finding, failed, ok, skipped, warning
from apportion.cli.doctor.path_checks import explain_missing_records
from apportion.cli.doctor.subjects import Subjects
from apportion.cli.failures import WrongArguments
from apportion.cli.groups.report import read_group
from apportion.client.bootstrap import require_known_host
from apportion.client.cluster import Cluster
from apportion.client.connection import Disconnected
from apportion.errors import Code, Refused
from apportion.member.cluster_queries.groups import ConsumerGroupDescribeQuery
from apportion.member.cluster_queries.records import refusals
from apportion.member.group_claims import (
    claimed_sinks,
    claims_without,
    sink_names,
    unclaimed_offsets,
)
from apportion.topics import Topic, partitions_of
from apportion.wire.messages.list_offsets import EARLIEST, LATEST

NO_KIP_848 = (
    'give every query of the group .option("kafka.group.protocol", "classic"), or use brokers '
    "with KIP-848: Apache Kafka from 4.0 on, or apportion serve"
)
OF_GROUPS = ("group", "KIP-848", "sink")
"""The checks that need the name of a group."""


def check_cluster(asked: Asked, subjects: Subjects) -> Iterator[Finding]:
    """Yield the findings on the cluster, the group and each topic."""
    try:
        security = command_security(asked.command_config)
        require_known_host(asked.bootstrap)
        cluster = Cluster(asked.bootstrap, timeout_ms=asked.timeout_ms, security=security)
    except (ValueError, WrongArguments, Disconnected) as error:
        remedy = next_step(error, asked) or "see `apportion doctor --help`"
        yield failed("cluster", str(error), remedy)
        yield from _not_reached(subjects)
        return
    try:
        yield from _check_reached(cluster, asked, subjects)
    finally:
        cluster.close()


def _check_reached(cluster: Cluster, asked: Asked, subjects: Subjects) -> Iterator[Finding]:
    try:
        brokers = cluster.nodes()
    except (Disconnected, Refused) as error:
        yield failed("cluster", str(error), next_step(error, asked))
        yield from _not_reached(subjects)
        return
    count = len(brokers)
    config = asked.command_config
    how = "plain, without a login" if config is None else f"reached as {config} says"
    yield ok("cluster", f"{asked.bootstrap}: {count} broker{'' if count == 1 else 's'}, {how}")
    topics: list[Topic] = []
    for name in subjects.topics:
        yield _guarded(f"topic {name}", asked, partial(_topic, cluster, name, asked.at, topics))
    if subjects.group is None:
        yield from (skipped(check, "--group is not given") for check in OF_GROUPS)
        return
    group = subjects.group
    check = f"group {group}"
    yield _guarded("KIP-848", asked, lambda: _protocol(cluster, group))
    yield _guarded(check, asked, lambda: _group(cluster, group, check, asked.at))
    if not topics:
        yield skipped("sink", "no topic was found" if subjects.topics else "--topic is not given")
    else:
        yield _guarded("sink", asked, lambda: _sink(cluster, group, topics, subjects))


def _not_reached(subjects: Subjects) -> Iterator[Finding]:
    why = "the cluster was not reached"
    yield from (skipped(f"topic {name}", why) for name in subjects.topics)
    group, *others = OF_GROUPS
    yield skipped(group if subjects.group is None else f"group {subjects.group}", why)
    yield from (skipped(check, why) for check in others)


def _guarded(check: str, asked: Asked, run: Callable[[], Finding]) -> Finding:
    """Return what a check has found, or the error with which it ended."""
    try:
        return run()
    except Refused as refused:
        return failed(check, str(with_cluster(refused, asked)), next_step(refused, asked))
    except Disconnected as error:
        return failed(check, str(error), next_step(error, asked))


def _topic(cluster: Cluster, name: str, at: str, found: list[Topic]) -> Finding:
    """Return whether a topic can be read; add it to `found` if there is one."""
    check = f"topic {name}"
    topic = cluster.topics([name], fresh=True).named(name)
    if topic is None:
        return warning(
            check,
            "does not exist: a query waits for it, and reads it from its beginning",
            f"see that the name is right, or create it: apportion topics create {name} {at}",
        )
    found.append(topic)
    partitions = partitions_of(topic)
    ends = cluster.list_offsets(partitions, LATEST)
    # A Fetch at the end returns no record, and needs Read as every batch does.
    for refused in refusals(cluster.fetch(ends, max_wait_ms=0)).values():
        raise refused
    starts, count = cluster.list_offsets(partitions, EARLIEST), len(partitions)
    held = sum(ends.values()) - sum(starts.values())
    return ok(
        check,
        f"{count} partition{'' if count == 1 else 's'}, {held} offsets from their beginning to "
        "their end",
    )


def _protocol(cluster: Cluster, group: str) -> Finding:
    """Return whether the brokers have consumer groups (KIP-848)."""
    try:
        cluster.ask_coordinator(ConsumerGroupDescribeQuery(group))
    except Refused as refused:
        if refused.code is Code.UNSUPPORTED_VERSION:
            return warning("KIP-848", "these brokers do not have consumer groups", NO_KIP_848)
        if refused.code is not Code.GROUP_ID_NOT_FOUND:
            raise
    return ok("KIP-848", "the brokers have consumer groups")


def _group(cluster: Cluster, group: str, check: str, at: str) -> Finding:
    """Return the state of the group that the query would join."""
    try:
        report = read_group(cluster, group, at)
    except Refused as refused:
        if refused.code is Code.GROUP_ID_NOT_FOUND:
            return ok(check, "does not exist yet: the first query creates it")
        raise
    count = len(report["members"])
    found = (
        f"{report['type']}, {report['state']}, {count} member{'' if count == 1 else 's'}, "
        f"lag {'unknown' if report['lag'] is None else report['lag']}"
    )
    if report["type"] not in ("consumer", "classic"):
        return failed(check, found, "give the query a group of its own (kafka.group.id)")
    if report["type"] == "classic" and count:
        return warning(
            check,
            found,
            'a query joins it with .option("kafka.group.protocol", "classic"); without that, it '
            "migrates the group to KIP-848 if the brokers' group.consumer.migration.policy allows",
        )
    lost = report["out_of_range"]
    if lost:
        return warning(
            check,
            f"{found}, {lost} offset{'' if lost == 1 else 's'} out of range",
            "a query ends there, or steps over what is gone with failOnDataLoss=false: `apportion "
            f"groups describe {shlex.quote(group)} {at}` shows where",
        )
    return ok(check, found)


def _sink(cluster: Cluster, group: str, topics: list[Topic], subjects: Subjects) -> Finding:
    """Return whether the group's offsets belong to the query's table, and it has their records."""
    mine = subjects.sink
    partitions = [partition for topic in topics for partition in partitions_of(topic)]
    committed = cluster.committed_offsets(group, partitions)
    if mine is not None and (others := claims_without(mine, committed)):
        return failed(
            "sink",
            f"the group belongs to {sink_names(min(others.values()))}, as its committed offsets "
            "say",
            "give this query a group of its own (kafka.group.id), or the group's table",
        )
    if lacking := explain_missing_records(
        subjects, group, committed, lambda each: cluster.list_offsets([each], EARLIEST)[each]
    ):
        return failed("sink", lacking, "")
    if claims := claimed_sinks(committed):
        return ok("sink", f"the group belongs to {sink_names(next(iter(claims.values())))}")
    unclaimed = unclaimed_offsets(committed)
    if unclaimed and mine is not None:
        return warning(
            "sink",
            "the group has committed offsets that did not come from a table",
            "a new table would lack the records below them: give this query a group of its own "
            "(kafka.group.id), or delta.Writer(..., adopt=True) to begin at them",
        )
    return ok("sink", "the group belongs to no table yet")
