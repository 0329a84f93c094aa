"""The commands of `apportion acls`: options and help."""

from typing import Annotated, Any

import typer

from apportion.cli.arguments import (
    DEFAULT_BOOTSTRAP,
    DEFAULT_TIMEOUT_MS,
    AsJson,
    Bootstrap,
    CommandConfig,
    DryRun,
    Execute,
    Timeout,
    group_names,
    is_executed,
    one_of_any_case,
    principal_names,
    topic_names,
)
from apportion.cli.asked import Asked, checked
from apportion.cli.command_group import Commands

COMMAND = "acls"
acls = typer.Typer(
    cls=Commands,
    help="Show and change who may do what in a cluster, ours or Apache Kafka's.",
    no_args_is_help=True,
)

RESOURCES = "On what"
WHO = "Who, and what"
LITERAL = "literal"
OPERATIONS = (
    *("Read", "Write", "Create", "Delete", "Alter", "Describe", "ClusterAction"),
    *("DescribeConfigs", "AlterConfigs", "IdempotentWrite", "CreateTokens", "DescribeTokens"),
    *("TwoPhaseCommit", "All"),
)
MORE = "May be given more than once."


def _resource(name: str, metavar: str, help_text: str, **further: Any) -> Any:
    return typer.Option(name, metavar=metavar, help=help_text, rich_help_panel=RESOURCES, **further)


def _entry(name: str, metavar: str, help_text: str, **further: Any) -> Any:
    return typer.Option(name, metavar=metavar, help=help_text, rich_help_panel=WHO, **further)


def _flag(name: str, help_text: str, panel: str) -> Any:
    return typer.Option(name, help=help_text, rich_help_panel=panel)


TopicsOption = Annotated[
    list[str] | None,
    _resource("--topic", "TOPIC", f"A topic; '*' is every one. {MORE}", autocompletion=topic_names),
]
GroupsOption = Annotated[
    list[str] | None,
    _resource("--group", "GROUP", f"A group; '*' is every one. {MORE}", autocompletion=group_names),
]
TransactionalIdsOption = Annotated[
    list[str] | None, _resource("--transactional-id", "ID", f"A transactional id. {MORE}")
]
ClusterOption = Annotated[bool, _flag("--cluster", "The cluster itself.", RESOURCES)]
DelegationTokensOption = Annotated[
    list[str] | None,
    _resource("--delegation-token", "TOKEN", "A delegation token, which Apache Kafka alone has."),
]
UserPrincipalsOption = Annotated[
    list[str] | None,
    _resource("--user-principal", "PRINCIPAL", "A user whose tokens are meant; likewise."),
]
OwnPattern = Annotated[
    str,
    _resource(
        "--resource-pattern-type",
        "TYPE",
        "literal: just these names; prefixed: all names that begin so.",
        autocompletion=one_of_any_case(LITERAL, "prefixed"),
    ),
]
AnyPattern = Annotated[
    str,
    _resource(
        "--resource-pattern-type",
        "TYPE",
        "literal or prefixed: ACLs of that type with just this name; any: of both types; match: "
        "every ACL that holds for it.",
        autocompletion=one_of_any_case(LITERAL, "prefixed", "match", "any"),
    ),
]
AllowedOption = Annotated[
    list[str] | None,
    _entry(
        *("--allow-principal", "PRINCIPAL", f"Who may, as User:alice; User:* is everybody. {MORE}"),
        autocompletion=principal_names,
    ),
]
AllowedHostsOption = Annotated[
    list[str] | None,
    _entry("--allow-host", "HOST", f"From which address; every one if left out. {MORE}"),
]
DeniedOption = Annotated[
    list[str] | None,
    _entry(
        *("--deny-principal", "PRINCIPAL", f"Who may not, whatever else allows it. {MORE}"),
        autocompletion=principal_names,
    ),
]
DeniedHostsOption = Annotated[
    list[str] | None,
    _entry("--deny-host", "HOST", f"From which address; every one if left out. {MORE}"),
]
OperationsOption = Annotated[
    list[str] | None,
    _entry(
        *("--operation", "OPERATION", f"{', '.join(OPERATIONS)}, which is the default. {MORE}"),
        autocompletion=one_of_any_case(*OPERATIONS),
    ),
]
ProducerOption = Annotated[
    bool, _flag("--producer", "What a producer needs on --topic and --transactional-id.", WHO)
]
ConsumerOption = Annotated[
    bool, _flag("--consumer", "What a consumer needs on --topic and --group.", WHO)
]
IdempotentOption = Annotated[
    bool, _flag("--idempotent", "With --producer: IdempotentWrite on the cluster, too.", WHO)
]
PrincipalsOption = Annotated[
    list[str] | None,
    typer.Option(
        "--principal",
        metavar="PRINCIPAL",
        help=f"Those of this principal, as User:alice. {MORE}",
        autocompletion=principal_names,
    ),
]


@acls.command("list")
def list_command(
    principals: PrincipalsOption = None,
    topics: TopicsOption = None,
    groups: GroupsOption = None,
    transactional_ids: TransactionalIdsOption = None,
    cluster: ClusterOption = False,
    delegation_tokens: DelegationTokensOption = None,
    user_principals: UserPrincipalsOption = None,
    pattern: AnyPattern = LITERAL,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    command_config: CommandConfig = None,
    timeout_ms: Timeout = DEFAULT_TIMEOUT_MS,
    as_json: AsJson = False,
) -> None:
    """List the ACLs of the cluster, or of some resources and principals.

    \b
    apportion acls list
    apportion acls list --principal User:alice
    apportion acls list --topic flights --resource-pattern-type match
    """
    from apportion.cli.acls.listing import list_acls
    from apportion.cli.acls.resources import TypedResources

    asked = Asked(COMMAND, bootstrap, timeout_ms, as_json, command_config)

    def run() -> int:
        resources = TypedResources(
            topics,
            groups,
            transactional_ids,
            delegation_tokens,
            user_principals,
            cluster,
            pattern,
        )
        return list_acls(asked, resources, principals or ())

    raise typer.Exit(checked(asked, run))


@acls.command("add", no_args_is_help=True)
def add_command(
    allow_principals: AllowedOption = None,
    allow_hosts: AllowedHostsOption = None,
    deny_principals: DeniedOption = None,
    deny_hosts: DeniedHostsOption = None,
    operations: OperationsOption = None,
    producer: ProducerOption = False,
    consumer: ConsumerOption = False,
    idempotent: IdempotentOption = False,
    topics: TopicsOption = None,
    groups: GroupsOption = None,
    transactional_ids: TransactionalIdsOption = None,
    cluster: ClusterOption = False,
    delegation_tokens: DelegationTokensOption = None,
    user_principals: UserPrincipalsOption = None,
    pattern: OwnPattern = LITERAL,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only show what would be added.")
    ] = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    command_config: CommandConfig = None,
    timeout_ms: Timeout = DEFAULT_TIMEOUT_MS,
    as_json: AsJson = False,
) -> None:
    """Allow or deny principals operations on resources.

    \b
    apportion acls add --allow-principal User:etl --consumer --topic flights --group etl
    apportion acls add --allow-principal User:app --producer --topic flights
    apportion acls add --deny-principal User:bob --operation Write --topic f \\
        --resource-pattern-type prefixed
    """
    from apportion.cli.acls.changing import add_acls
    from apportion.cli.acls.entries import TypedEntries
    from apportion.cli.acls.resources import TypedResources

    asked = Asked(COMMAND, bootstrap, timeout_ms, as_json, command_config)

    def run() -> int:
        resources = TypedResources(
            topics,
            groups,
            transactional_ids,
            delegation_tokens,
            user_principals,
            cluster,
            pattern,
        )
        entries = TypedEntries(
            allow_principals,
            allow_hosts,
            deny_principals,
            deny_hosts,
            operations,
            producer,
            consumer,
            idempotent,
        )
        return add_acls(asked, resources, entries, dry_run)

    raise typer.Exit(checked(asked, run))


@acls.command("remove", no_args_is_help=True)
def remove_command(
    principals: PrincipalsOption = None,
    allow_principals: AllowedOption = None,
    allow_hosts: AllowedHostsOption = None,
    deny_principals: DeniedOption = None,
    deny_hosts: DeniedHostsOption = None,
    operations: OperationsOption = None,
    producer: ProducerOption = False,
    consumer: ConsumerOption = False,
    idempotent: IdempotentOption = False,
    topics: TopicsOption = None,
    groups: GroupsOption = None,
    transactional_ids: TransactionalIdsOption = None,
    cluster: ClusterOption = False,
    delegation_tokens: DelegationTokensOption = None,
    user_principals: UserPrincipalsOption = None,
    pattern: AnyPattern = LITERAL,
    dry_run: DryRun = False,
    execute: Execute = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    command_config: CommandConfig = None,
    timeout_ms: Timeout = DEFAULT_TIMEOUT_MS,
    as_json: AsJson = False,
) -> None:
    """Show the ACLs to remove, and remove them with --execute.

    A resource alone stands for all of its ACLs, --principal for all of a principal's.

    \b
    apportion acls remove --topic flights
    apportion acls remove --principal User:etl --execute
    apportion acls remove --allow-principal User:app --producer --topic flights --execute
    """
    from apportion.cli.acls.changing import remove_acls
    from apportion.cli.acls.entries import TypedEntries
    from apportion.cli.acls.resources import TypedResources

    asked = Asked(COMMAND, bootstrap, timeout_ms, as_json, command_config)

    def run() -> int:
        resources = TypedResources(
            topics,
            groups,
            transactional_ids,
            delegation_tokens,
            user_principals,
            cluster,
            pattern,
        )
        entries = TypedEntries(
            allow_principals,
            allow_hosts,
            deny_principals,
            deny_hosts,
            operations,
            producer,
            consumer,
            idempotent,
        )
        executed = is_executed(dry_run, execute)
        return remove_acls(asked, resources, entries, principals or (), execute=executed)

    raise typer.Exit(checked(asked, run))
