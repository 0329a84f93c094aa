"""The commands of `apportion groups` that only read: options and help."""

from typing import Annotated

import typer

from apportion.cli.arguments import (
    DEFAULT_BOOTSTRAP,
    DEFAULT_TIMEOUT_MS,
    AsJson,
    Bootstrap,
    CommandConfig,
    Timeout,
    group_names,
    one_named,
    one_of,
    topic_names,
)
from apportion.cli.asked import Asked, checked
from apportion.cli.command_group import Commands
from apportion.cli.failures import WrongArguments
from apportion.cli.groups.filters import TYPES
from apportion.cli.groups.views import GroupForm, GroupView, Sort, parse_sort
from apportion.wire.group_states import GroupState

COMMAND = "groups"

groups = typer.Typer(
    cls=Commands,
    help="Show and change the consumer groups of a cluster, ours or Apache Kafka's.",
    no_args_is_help=True,
)

GroupArgument = Annotated[
    str | None,
    typer.Argument(
        metavar="GROUP", help="The group's id.", show_default=False, autocompletion=group_names
    ),
]
GroupOption = Annotated[
    str | None,
    typer.Option(
        "--group",
        metavar="GROUP",
        help="The group's id, as Kafka's tools take it.",
        autocompletion=group_names,
    ),
]
GroupArguments = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="GROUP", help="Ids of groups.", show_default=False, autocompletion=group_names
    ),
]
GroupOptions = Annotated[
    list[str] | None,
    typer.Option(
        "--group",
        metavar="GROUP",
        help="The id of a group, as Kafka's tools take it; may be given more than once.",
        autocompletion=group_names,
    ),
]
AllGroups = Annotated[bool, typer.Option("--all-groups", help="Every group of the cluster.")]
PartitionOptions = Annotated[
    list[str] | None,
    typer.Option(
        "--topic",
        metavar="TOPIC[:0,1,4-7]",
        help="A topic, or some of its partitions; may be given more than once.",
        autocompletion=topic_names,
    ),
]
SORTS = [each.value for each in Sort]
SortOption = Annotated[
    str,
    typer.Option(
        "--sort",
        metavar="|".join(SORTS),
        help="The order of the partitions; by lag: the largest first.",
        autocompletion=one_of(*SORTS),
    ),
]


@groups.command("list")
def list_command(
    states: Annotated[
        list[str] | None,
        typer.Option(
            "--state",
            metavar="STATE[,STATE]",
            help="Only groups in one of these states, such as stable,empty.",
            autocompletion=one_of(*map(str.lower, GroupState)),
        ),
    ] = None,
    types: Annotated[
        list[str] | None,
        typer.Option(
            "--type",
            metavar="TYPE[,TYPE]",
            help="Only groups of one of these types: classic, consumer, share, streams.",
            autocompletion=one_of(*TYPES),
        ),
    ] = None,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    command_config: CommandConfig = None,
    timeout_ms: Timeout = DEFAULT_TIMEOUT_MS,
    as_json: AsJson = False,
) -> None:
    """List the groups of the cluster, with type, state, number of members and lag.

    \b
    apportion groups list --bootstrap-server broker:9092
    apportion groups list --state stable --type consumer,classic
    """
    from apportion.cli.groups.listing import list_groups

    asked = Asked(COMMAND, bootstrap, timeout_ms, as_json, command_config)
    raise typer.Exit(list_groups(asked, states or (), types or ()))


@groups.command("describe")
def describe_command(
    names: GroupArguments = None,
    group: GroupOptions = None,
    all_groups: AllGroups = False,
    members: Annotated[
        bool, typer.Option("--members", help="Show the members, with what each owns.")
    ] = False,
    offsets: Annotated[
        bool, typer.Option("--offsets", help="Show each partition; this is the default.")
    ] = False,
    state: Annotated[bool, typer.Option("--state", help="Show one line for each group.")] = False,
    configs: Annotated[
        bool, typer.Option("--configs", help="Show the settings, and where each value is from.")
    ] = False,
    verbose: Annotated[
        bool,
        typer.Option(
            "--verbose",
            help="Show the partitions, and then the members; of the group and of each member also "
            "what is seldom needed.",
        ),
    ] = False,
    sort: SortOption = SORTS[0],
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    command_config: CommandConfig = None,
    timeout_ms: Timeout = DEFAULT_TIMEOUT_MS,
    as_json: AsJson = False,
) -> None:
    """Show the partitions of a group with offset, lag and owner, and the group's total lag.

    With --json one group is an object, and several are a list; it has all of
    the group, whatever would be shown as text, and with --configs the settings.

    \b
    apportion groups describe flights-etl --bootstrap-server broker:9092
    apportion groups describe --all-groups --state
    apportion groups describe flights-etl --sort lag
    apportion groups describe flights-etl --configs
    apportion groups describe flights-etl --json | jq .lag
    """
    from apportion.cli.groups.describing import GroupChoice, describe

    asked = Asked(COMMAND, bootstrap, timeout_ms, as_json, command_config)

    def run() -> int:
        views = {
            GroupView.MEMBERS: members,
            GroupView.OFFSETS: offsets,
            GroupView.STATE: state,
            GroupView.CONFIGS: configs,
        }
        given = [view for view, is_given in views.items() if is_given]
        if len(given) > 1:
            raise WrongArguments("give one of --members, --offsets, --state and --configs")
        choice = GroupChoice((*(names or ()), *(group or ())), all_groups)
        usual = GroupView.ALL if verbose else GroupView.OFFSETS
        form = GroupForm(given[0] if given else usual, parse_sort(sort), verbose)
        return describe(asked, choice, form)

    raise typer.Exit(checked(asked, run))


@groups.command("members")
def members_command(
    name: GroupArgument = None,
    group: GroupOption = None,
    verbose: Annotated[
        bool,
        typer.Option(
            "--verbose",
            help="Also what each is to own, the topics and the regular expression to which it is "
            "subscribed, and its rack.",
        ),
    ] = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    command_config: CommandConfig = None,
    timeout_ms: Timeout = DEFAULT_TIMEOUT_MS,
    as_json: AsJson = False,
) -> None:
    """Show the members of a group, with client, host, epoch and what each owns.

    \b
    apportion groups members flights-etl --verbose
    apportion groups members flights-etl --json | jq -r .members[].member
    """
    from apportion.cli.groups.describing import show_members

    asked = Asked(COMMAND, bootstrap, timeout_ms, as_json, command_config)
    raise typer.Exit(
        checked(asked, lambda: show_members(asked, one_named("group", name, group), verbose))
    )


@groups.command("offsets")
def offsets_command(
    name: GroupArgument = None,
    group: GroupOption = None,
    topics: PartitionOptions = None,
    sort: SortOption = SORTS[0],
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    command_config: CommandConfig = None,
    timeout_ms: Timeout = DEFAULT_TIMEOUT_MS,
    as_json: AsJson = False,
) -> None:
    """Show the committed offsets of a group with lag and owner, of all topics or of some.

    \b
    apportion groups offsets flights-etl --topic flights:0-3
    apportion groups offsets flights-etl --sort lag
    """
    from apportion.cli.groups.describing import show_offsets
    from apportion.cli.groups.partitions import parse_partitions

    asked = Asked(COMMAND, bootstrap, timeout_ms, as_json, command_config)
    raise typer.Exit(
        checked(
            asked,
            lambda: show_offsets(
                asked,
                one_named("group", name, group),
                parse_partitions(topics or ()),
                parse_sort(sort),
            ),
        )
    )
