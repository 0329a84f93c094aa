"""`apportion topics create`, `alter` and `delete`."""

from collections.abc import Iterable
from typing import NamedTuple

from apportion.cli.asked import Asked, Report
from apportion.cli.cluster_reports import ReportedChange, print_change, print_report
from apportion.cli.cluster_settings import (
    DRY,
    Changes,
    alter_settings,
    change_rows,
    print_changes,
    read_settings,
    require_known,
)
from apportion.cli.failures import Advised, NoSuchTopic, WrongArguments
from apportion.cli.lines import print_sentence, row_console
from apportion.cli.topics.report import read_topics
from apportion.client.cluster import Cluster
from apportion.errors import UNKNOWN_TOPIC, Code, Refused
from apportion.member.cluster_queries.retries import send_until_accepted
from apportion.member.cluster_queries.topic_changes import (
    CreatePartitionsQuery,
    DeleteTopicsQuery,
    NewTopic,
)
from apportion.readable import readable
from apportion.wire.messages.describe_configs import TOPIC

BROKER_DEFAULT = -1
"""The number of partitions or replicas in CreateTopics that leaves it to the broker."""


NEEDED = "say what to alter: --partitions, --config or --delete-config"


class TopicAlteration(NamedTuple):
    """The changes of one topic. partitions: the new number; None leaves it as it is."""

    partitions: int | None
    changes: Changes
    dry_run: bool
    if_exists: bool


def create_topic(asked: Asked, topic: NewTopic, if_not_exists: bool) -> int:
    """Create the topic, and wait until it can be used; return the exit code."""

    def change(cluster: Cluster) -> Report:
        try:
            cluster.create_topic(*topic)
        except Refused as refused:
            if refused.code is not Code.TOPIC_ALREADY_EXISTS:
                raise
            if not if_not_exists:
                raise Advised(
                    refused.code,
                    f"topic {topic.name!r} exists already: `apportion topics describe {topic.name} "
                    f"{asked.at}` shows it, and with --if-not-exists this is no error",
                ) from None
            return {"topic": topic.name, "created": False}
        (made,) = read_topics(cluster, [topic.name])
        return {
            "topic": topic.name,
            "created": True,
            "partitions": len(made.partitions),
            "replication_factor": made.replication_factor,
        }

    return print_report(asked, change, _show_created)


def _show_created(report: Report) -> None:
    if not report["created"]:
        print_sentence(row_console(), f"{report['topic']} exists already.")
        return
    print_sentence(
        row_console(),
        f"{report['topic']} is created: {_partitions(report['partitions'])}, replication factor "
        f"{report['replication_factor']}.",
    )


def alter_topic(asked: Asked, name: str, alteration: TopicAlteration) -> int:
    """Give the topic more partitions and other settings; return the exit code."""
    if alteration.partitions is None and not alteration.changes:
        raise WrongArguments(NEEDED)

    def change(cluster: Cluster) -> Report:
        try:
            return _altered(asked, cluster, name, alteration)
        except Refused as refused:
            if refused.code not in UNKNOWN_TOPIC:
                raise
            if not alteration.if_exists:
                raise NoSuchTopic(name, asked.at) from None
            return {"topic": name, "altered": False}

    def show(report: Report) -> None:
        _show_altered(report, alteration)

    return print_report(asked, change, show)


def _altered(asked: Asked, cluster: Cluster, name: str, alteration: TopicAlteration) -> Report:
    """Alter the topic, unless it is a dry run; return the report."""
    partitions, changes, dry_run, _ = alteration
    report: Report = {"topic": name, "altered": not dry_run}
    if changes:
        settings = read_settings(cluster, TOPIC, name)
        require_known(asked, TOPIC, name, settings, changes)
        # Checked before there are more partitions, so that a wrong setting changes nothing.
        alter_settings(cluster, TOPIC, name, changes, validate_only=True)
        report["configs"] = change_rows(settings, changes)
    if partitions is not None:
        query = CreatePartitionsQuery(name, partitions, asked.timeout_ms, dry_run)
        cluster.run(send_until_accepted(query))
        report["partitions"] = partitions
    if changes and not dry_run:
        alter_settings(cluster, TOPIC, name, changes, validate_only=False)
    return report


def _show_altered(report: Report, alteration: TopicAlteration) -> None:
    console, name = row_console(), readable(report["topic"])
    partitions = report.get("partitions")
    if "configs" not in report and partitions is None:
        print_sentence(console, f"{name} does not exist.")
        return
    if "configs" in report:
        print_changes(report["configs"])
    if alteration.dry_run:
        more = "" if partitions is None else f"{name} would have {_partitions(partitions)}. "
        print_sentence(console, f"{more}{DRY}")
    elif partitions is None:
        print_sentence(console, f"{name} is altered.")
    else:
        print_sentence(console, f"{name} has {_partitions(partitions)} now.")


def delete_topics(asked: Asked, names: Iterable[str], if_exists: bool) -> int:
    """Delete the topics, each by itself; return the exit code."""

    def change(cluster: Cluster) -> ReportedChange[list[Report]]:
        deleted: list[Report] = []
        failures: list[Exception] = []
        for name in dict.fromkeys(names):
            try:
                cluster.run(send_until_accepted(DeleteTopicsQuery(name, asked.timeout_ms)))
            except Refused as refused:
                if refused.code not in UNKNOWN_TOPIC:
                    failures.append(refused)
                elif if_exists:
                    deleted.append({"topic": name, "deleted": False})
                else:
                    failures.append(NoSuchTopic(name, asked.at))
            else:
                deleted.append({"topic": name, "deleted": True})
        return ReportedChange(deleted, failures)

    return print_change(asked, change, _show_deleted)


def _show_deleted(topics: list[Report]) -> None:
    for topic in topics:
        state = "is deleted" if topic["deleted"] else "does not exist"
        print_sentence(row_console(), f"{readable(topic['topic'])} {state}.")


def _partitions(count: int | None) -> str:
    return f"{count} partition{'' if count == 1 else 's'}"
