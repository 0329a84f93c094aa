"""`apportion topics list` and `describe`: topics as tables."""

from collections.abc import Iterable

from apportion.cli.asked import Asked, Report
from apportion.cli.cluster_reports import print_report
from apportion.cli.cluster_settings import print_settings, read_settings, setting_rows
from apportion.cli.failures import NoSuchTopic
from apportion.cli.lines import print_sentence, row_console
from apportion.cli.tables import Column, Kind, print_table
from apportion.cli.topics.report import read_topics
from apportion.client.cluster import Cluster
from apportion.member.cluster_queries.topic_descriptions import TopicReplicas
from apportion.readable import readable
from apportion.wire.messages.describe_configs import TOPIC
from apportion.wire.uuids import uuid_text

LIST_COLUMNS = {
    "topic": Column("TOPIC", Kind.NAME),
    "partitions": Column("PARTITIONS", Kind.NUMBER),
    "replication_factor": Column("REPLICATION", Kind.NUMBER),
}
PARTITION_COLUMNS = {
    "partition": Column("PARTITION", Kind.NUMBER),
    "leader": Column("LEADER", Kind.NUMBER),
    "replicas": Column("REPLICAS", Kind.LIST),
    "isr": Column("ISR", Kind.LIST),
}
NO_TOPICS = "There are no topics."


def list_topics(asked: Asked, exclude_internal: bool) -> int:
    """Print the topics of the cluster; return the exit code."""

    def read(cluster: Cluster) -> list[Report]:
        return [
            {
                "topic": topic.name,
                "partitions": len(topic.partitions),
                "replication_factor": topic.replication_factor,
                "internal": topic.is_internal,
            }
            for topic in read_topics(cluster, None)
            if not (exclude_internal and topic.is_internal)
        ]

    return print_report(asked, read, _show_list)


def _show_list(topics: list[Report]) -> None:
    if not topics:
        print_sentence(row_console(), NO_TOPICS)
        return
    print_table(LIST_COLUMNS, topics)


def describe_topics(asked: Asked, names: Iterable[str], with_configs: bool) -> int:
    """Print the partitions of the topics, or of every topic; return the exit code.

    with_configs: print every setting instead.
    """
    named = tuple(dict.fromkeys(names))

    def read(cluster: Cluster) -> list[Report]:
        found = read_topics(cluster, named or None)
        existing = [topic.name for topic in found]
        for name in named:
            if name not in existing:
                raise NoSuchTopic(name, asked.at)
        return [_report(cluster, topic, with_configs) for topic in found]

    if asked.as_json and len(named) == 1:
        return print_report(asked, lambda cluster: read(cluster)[0], lambda _: None)
    return print_report(asked, read, _show)


def _report(cluster: Cluster, topic: TopicReplicas, with_configs: bool) -> Report:
    """Return the report on one topic, with the settings that were given for it, or all."""
    settings = read_settings(cluster, TOPIC, topic.name)
    return {
        "topic": topic.name,
        "id": uuid_text(topic.id),
        "internal": topic.is_internal,
        "replication_factor": topic.replication_factor,
        "config": {name: each.value for name, each in settings.items() if each.is_own},
        **({"configs": setting_rows(settings)} if with_configs else {}),
        "partitions": [
            {
                "partition": each.partition,
                "leader": each.leader,
                "replicas": [*each.replicas],
                "isr": [*each.in_sync],
            }
            for each in topic.partitions
        ],
    }


def _show(topics: list[Report]) -> None:
    console = row_console()
    if not topics:
        print_sentence(console, NO_TOPICS)
    for number, topic in enumerate(topics):
        if number:
            console.print()
        print_sentence(console, readable(_title(topic)))
        if "configs" in topic:
            print_settings(topic["configs"])
        else:
            print_table(PARTITION_COLUMNS, map(_partition_row, topic["partitions"]))


def _title(topic: Report) -> str:
    """Return a sentence on a topic: its counts, its id and its settings."""
    count = len(topic["partitions"])
    parts = [
        f"{count} partition{'' if count == 1 else 's'}",
        f"replication factor {topic['replication_factor']}",
        f"id {topic['id']}",
        *(["internal"] if topic["internal"] else []),
        *(f"{name}={value}" for name, value in topic["config"].items()),
    ]
    return f"{topic['topic']}: {', '.join(parts)}"


def _partition_row(partition: Report) -> Report:
    """Return the cells of one partition."""
    return partition | {name: ",".join(map(str, partition[name])) for name in ("replicas", "isr")}
