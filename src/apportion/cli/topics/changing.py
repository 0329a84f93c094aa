"""`apportion topics create`, `alter` and `delete`."""

from collections.abc import Iterable
from contextlib import suppress
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
from apportion.cli.lines import print_dry_run, print_sentence, row_console
from apportion.cli.topics.report import read_topics
from apportion.client.cluster import Cluster
from apportion.client.connection import Disconnected
from apportion.errors import UNKNOWN_TOPIC, Code, Refused
from apportion.member.cluster_queries.retries import send_until_accepted
from apportion.member.cluster_queries.topic_changes import (
    CreatePartitionsQuery,
    DeleteTopicsQuery,
    NewTopic,
)
from apportion.readable import readable
from apportion.topics import partitions_of
from apportion.wire.messages.describe_configs import TOPIC
from apportion.wire.messages.list_offsets import EARLIEST, LATEST

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
            return {"topic": name, "altered": False, "exists": False}

    return print_report(asked, change, _show_altered)


def _altered(asked: Asked, cluster: Cluster, name: str, alteration: TopicAlteration) -> Report:
    """Alter the topic, unless it is a dry run; return the report."""
    partitions, changes, dry_run, _ = alteration
    report: Report = {"topic": name, "altered": not dry_run, "exists": True}
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


def _show_altered(report: Report) -> None:
    console, name = row_console(), readable(report["topic"])
    partitions = report.get("partitions")
    if not report["exists"]:
        print_sentence(console, f"{name} does not exist.")
        return
    if "configs" in report:
        print_changes(report["configs"])
    if not report["altered"]:
        more = "" if partitions is None else f"{name} would have {_partitions(partitions)}. "
        print_sentence(console, f"{more}{DRY}")
    elif partitions is None:
        print_sentence(console, f"{name} is altered.")
    else:
        print_sentence(console, f"{name} has {_partitions(partitions)} now.")


def delete_topics(asked: Asked, names: Iterable[str], *, if_exists: bool, execute: bool) -> int:
    """Show the topics, or delete them, each by itself; return the exit code."""

    def change(cluster: Cluster) -> ReportedChange[list[Report]]:
        deleted: list[Report] = []
        failures: list[Exception] = []
        for name in dict.fromkeys(names):
            try:
                if execute:
                    cluster.run(send_until_accepted(DeleteTopicsQuery(name, asked.timeout_ms)))
                    deleted.append({"topic": name, "deleted": True, "exists": False})
                else:
                    deleted.append(_topic_to_delete(cluster, name))
            except Refused as refused:
                if refused.code not in UNKNOWN_TOPIC:
                    failures.append(refused)
                elif if_exists:
                    deleted.append({"topic": name, "deleted": False, "exists": False})
                else:
                    failures.append(NoSuchTopic(name, asked.at))
        return ReportedChange(deleted, failures)

    return print_change(asked, change, _show_deleted)


def _topic_to_delete(cluster: Cluster, name: str) -> Report:
    """Return what the deletion of a topic would remove. Raises Refused if there is no such topic.

    offsets: None where the leaders do not answer, since it can be deleted all the same.
    """
    topic = cluster.topics([name], fresh=True).named(name)
    if topic is None:
        raise Refused(Code.UNKNOWN_TOPIC_OR_PARTITION, name)
    partitions = partitions_of(topic)
    held = None
    with suppress(Refused, Disconnected):
        starts = cluster.list_offsets(partitions, EARLIEST)
        held = sum(cluster.list_offsets(partitions, LATEST).values()) - sum(starts.values())
    would_go = {"partitions": len(partitions), "offsets": held}
    return {"topic": name, "deleted": False, "exists": True, **would_go}


def _show_deleted(topics: list[Report]) -> None:
    for topic in topics:
        if topic["exists"]:
            held = "an unknown number of" if topic["offsets"] is None else topic["offsets"]
            state = (
                f"would be deleted: {_partitions(topic['partitions'])}, {held} offsets from their "
                "beginning to their end"
            )
        else:
            state = "is deleted" if topic["deleted"] else "does not exist"
        print_sentence(row_console(), f"{readable(topic['topic'])} {state}.")
    if any(topic["exists"] for topic in topics):
        print_dry_run("delete them")


def _partitions(count: int | None) -> str:
    return f"{count} partition{'' if count == 1 else 's'}"
