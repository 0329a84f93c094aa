"""The commands of `apportion topics`: options and help."""

from typing import Annotated

import typer

from apportion.cli.arguments import (
    DEFAULT_BOOTSTRAP,
    DEFAULT_TIMEOUT_MS,
    DELETE_CONFIG_HELP,
    NUMBER,
    AsJson,
    Bootstrap,
    CommandConfig,
    DryRun,
    Execute,
    OnlyCheck,
    Timeout,
    is_executed,
    names_to_delete,
    one_named,
    topic_assignments,
    topic_names,
    topic_setting_names,
    whole_number_or_none,
)
from apportion.cli.asked import Asked, checked
from apportion.cli.command_group import Commands

COMMAND = "topics"
topics = typer.Typer(
    cls=Commands,
    help="Show and change the topics of a cluster, ours or Apache Kafka's.",
    no_args_is_help=True,
)

TOPIC_HELP = "The topic, as Kafka's tools take it."
NewTopicArgument = Annotated[
    str | None, typer.Argument(metavar="TOPIC", help="The topic's name.", show_default=False)
]
NewTopicOption = Annotated[str | None, typer.Option("--topic", metavar="TOPIC", help=TOPIC_HELP)]
TopicArgument = Annotated[
    str | None,
    typer.Argument(
        metavar="TOPIC", help="The topic's name.", show_default=False, autocompletion=topic_names
    ),
]
TopicOption = Annotated[
    str | None,
    typer.Option("--topic", metavar="TOPIC", help=TOPIC_HELP, autocompletion=topic_names),
]
TopicArguments = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="TOPIC", help="Names of topics.", show_default=False, autocompletion=topic_names
    ),
]
TopicOptions = Annotated[
    list[str] | None,
    typer.Option(
        "--topic",
        metavar="TOPIC",
        help=f"{TOPIC_HELP} May be given more than once.",
        autocompletion=topic_names,
    ),
]
ConfigOptions = Annotated[
    list[str] | None,
    typer.Option(
        "--config",
        metavar="NAME=VALUE",
        help="A setting of the topic; may be given more than once.",
        autocompletion=topic_assignments,
    ),
]
DeletedConfigOptions = Annotated[
    list[str] | None,
    typer.Option(
        "--delete-config",
        metavar="NAME",
        help=DELETE_CONFIG_HELP,
        autocompletion=topic_setting_names,
    ),
]
IfExists = Annotated[
    bool, typer.Option("--if-exists", help="A topic that does not exist is no error.")
]


@topics.command("list")
def list_command(
    exclude_internal: Annotated[
        bool,
        typer.Option("--exclude-internal", help="Leave topics such as __consumer_offsets out."),
    ] = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    command_config: CommandConfig = None,
    timeout_ms: Timeout = DEFAULT_TIMEOUT_MS,
    as_json: AsJson = False,
) -> None:
    """List the topics of the cluster, with their partitions and replication factor."""
    from apportion.cli.topics.describing import list_topics

    asked = Asked(COMMAND, bootstrap, timeout_ms, as_json, command_config)
    raise typer.Exit(list_topics(asked, exclude_internal))


@topics.command("describe")
def describe_command(
    names: TopicArguments = None,
    topic: TopicOptions = None,
    configs: Annotated[
        bool, typer.Option("--configs", help="Show every setting, and where its value is from.")
    ] = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    command_config: CommandConfig = None,
    timeout_ms: Timeout = DEFAULT_TIMEOUT_MS,
    as_json: AsJson = False,
) -> None:
    """Show partitions, leaders, replicas and settings of topics, or of every topic.

    With --json one topic is an object, and several are a list.

    \b
    apportion topics describe flights
    apportion topics describe flights --configs
    apportion topics describe flights --json | jq .config
    """
    from apportion.cli.topics.describing import describe_topics

    asked = Asked(COMMAND, bootstrap, timeout_ms, as_json, command_config)
    raise typer.Exit(describe_topics(asked, (*(names or ()), *(topic or ())), configs))


@topics.command("create")
def create_command(
    name: NewTopicArgument = None,
    topic: NewTopicOption = None,
    partitions: Annotated[
        int | None, typer.Option("--partitions", help="The broker's default if left out.", **NUMBER)
    ] = None,
    replication_factor: Annotated[
        int | None,
        typer.Option("--replication-factor", help="The broker's default if left out.", **NUMBER),
    ] = None,
    config: ConfigOptions = None,
    if_not_exists: Annotated[
        bool, typer.Option("--if-not-exists", help="A topic that exists already is no error.")
    ] = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    command_config: CommandConfig = None,
    timeout_ms: Timeout = DEFAULT_TIMEOUT_MS,
    as_json: AsJson = False,
) -> None:
    """Create a topic, and wait until it can be used.

    \b
    apportion topics create flights --partitions 12 --config retention.ms=86400000
    """
    from apportion.cli.cluster_settings import parse_config
    from apportion.cli.topics.changing import BROKER_DEFAULT, create_topic
    from apportion.member.cluster_queries.topic_changes import NewTopic

    asked = Asked(COMMAND, bootstrap, timeout_ms, as_json, command_config)

    def run() -> int:
        count = whole_number_or_none("--partitions", partitions)
        factor = whole_number_or_none("--replication-factor", replication_factor)
        new = NewTopic(
            one_named("topic", name, topic),
            BROKER_DEFAULT if count is None else count,
            BROKER_DEFAULT if factor is None else factor,
            parse_config(config or ()),
        )
        return create_topic(asked, new, if_not_exists)

    raise typer.Exit(checked(asked, run))


@topics.command("alter")
def alter_command(
    name: TopicArgument = None,
    topic: TopicOption = None,
    partitions: Annotated[
        int | None, typer.Option("--partitions", help="The new number, greater than now.", **NUMBER)
    ] = None,
    config: ConfigOptions = None,
    delete_config: DeletedConfigOptions = None,
    dry_run: OnlyCheck = False,
    if_exists: IfExists = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    command_config: CommandConfig = None,
    timeout_ms: Timeout = DEFAULT_TIMEOUT_MS,
    as_json: AsJson = False,
) -> None:
    """Alter the settings of a topic, or give it more partitions.

    Keys go to other partitions if there are more.

    \b
    apportion topics alter flights --config retention.ms=86400000
    apportion topics alter flights --delete-config retention.ms --dry-run
    apportion topics alter flights --partitions 24
    """
    from apportion.cli.cluster_settings import parse_changes
    from apportion.cli.topics.changing import TopicAlteration, alter_topic

    asked = Asked(COMMAND, bootstrap, timeout_ms, as_json, command_config)

    def run() -> int:
        alteration = TopicAlteration(
            whole_number_or_none("--partitions", partitions),
            parse_changes(config or (), delete_config or ()),
            dry_run,
            if_exists,
        )
        return alter_topic(asked, one_named("topic", name, topic), alteration)

    raise typer.Exit(checked(asked, run))


@topics.command("delete")
def delete_command(
    names: TopicArguments = None,
    topic: TopicOptions = None,
    if_exists: IfExists = False,
    dry_run: DryRun = False,
    execute: Execute = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    command_config: CommandConfig = None,
    timeout_ms: Timeout = DEFAULT_TIMEOUT_MS,
    as_json: AsJson = False,
) -> None:
    """Show topics, and delete them with all their records with --execute.

    \b
    apportion topics delete flights-old
    apportion topics delete flights-old --execute
    """
    from apportion.cli.topics.changing import delete_topics

    asked = Asked(COMMAND, bootstrap, timeout_ms, as_json, command_config)

    def run() -> int:
        named = names_to_delete("topic", names, topic)
        executed = is_executed(dry_run, execute)
        return delete_topics(asked, named, if_exists=if_exists, execute=executed)

    raise typer.Exit(checked(asked, run))
