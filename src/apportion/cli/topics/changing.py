"""`apportion topics create`, `alter` and `delete`."""

from collections.abc import Iterable

from apportion.cli.cluster_reports import Asked, Report, ReportedChange, print_change, print_report
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

BROKER_DEFAULT = -1
"""The number of partitions or replicas in CreateTopics that leaves it to the broker."""


def parse_config(pairs: Iterable[str]) -> dict[str, str]:
    """Return the settings that were typed as `--config NAME=VALUE`. Raises WrongArguments."""
    found = {}
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not equals or not name.strip():
            raise WrongArguments(f"--config must be NAME=VALUE, not {pair!r}")
        found[name.strip()] = value.strip()
    return found


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
                    f"--bootstrap {asked.bootstrap}` shows it, and with --if-not-exists this is no "
                    "error",
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


def alter_topic(asked: Asked, name: str, partitions: int | None, if_exists: bool) -> int:
    """Give the topic more partitions; return the exit code."""
    if partitions is None:
        raise WrongArguments("say what to alter: --partitions, the new number of partitions")

    def change(cluster: Cluster) -> Report:
        query = CreatePartitionsQuery(name, partitions, asked.timeout_ms)
        try:
            cluster.run(send_until_accepted(query))
        except Refused as refused:
            if refused.code not in UNKNOWN_TOPIC:
                raise
            if not if_exists:
                raise NoSuchTopic(name, asked.bootstrap) from None
            return {"topic": name, "altered": False}
        return {"topic": name, "altered": True, "partitions": partitions}

    def show(report: Report) -> None:
        is_altered = report["altered"]
        state = f"has {_partitions(partitions)} now" if is_altered else "does not exist"
        print_sentence(row_console(), f"{readable(name)} {state}.")

    return print_report(asked, change, show)


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
                    failures.append(NoSuchTopic(name, asked.bootstrap))
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
