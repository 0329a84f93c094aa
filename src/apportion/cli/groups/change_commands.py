"""The commands of `apportion groups` that change a group: options and help."""

from pathlib import Path
from typing import Annotated, Any

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
    group_assignments,
    group_setting_names,
    is_executed,
    names_to_delete,
    one_named,
    whole_number_or_none,
)
from apportion.cli.asked import Asked, checked
from apportion.cli.groups.commands import (
    COMMAND,
    GroupArgument,
    GroupArguments,
    GroupOption,
    GroupOptions,
    PartitionOptions,
    groups,
)

changes = typer.Typer()

TARGETS = "Where to"


def _target(help_text: str, *names: str, **further: Any) -> Any:
    return typer.Option(*names, help=help_text, rich_help_panel=TARGETS, **further)


@changes.command("reset-offsets")
def reset_offsets_command(
    name: GroupArgument = None,
    group: GroupOption = None,
    topics: PartitionOptions = None,
    all_topics: Annotated[
        bool,
        typer.Option("--all-topics", help="Every topic in which the group has offsets."),
    ] = False,
    to_earliest: Annotated[bool, _target("The first record.", "--to-earliest")] = False,
    to_latest: Annotated[bool, _target("The end.", "--to-latest")] = False,
    to_current: Annotated[
        bool, _target("The committed offset, or the end where there is none.", "--to-current")
    ] = False,
    to_offset: Annotated[int | None, _target("An offset.", "--to-offset", **NUMBER)] = None,
    to_datetime: Annotated[
        str | None,
        _target("The first record at or after this time.", "--to-datetime", metavar="TIME"),
    ] = None,
    by_duration: Annotated[
        str | None,
        _target("The same, so long ago, such as P7D, PT1H30M.", "--by-duration", metavar="P..."),
    ] = None,
    shift_by: Annotated[
        int | None,
        _target("So many records on, or back if negative.", "--shift-by", **NUMBER),
    ] = None,
    from_file: Annotated[
        Path | None,
        _target("A file of lines TOPIC,PARTITION,OFFSET.", "--from-file", metavar="FILE"),
    ] = None,
    dry_run: DryRun = False,
    execute: Execute = False,
    new_group: Annotated[
        bool, typer.Option("--new-group", help="The group does not exist yet: make it.")
    ] = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    command_config: CommandConfig = None,
    timeout_ms: Timeout = DEFAULT_TIMEOUT_MS,
    as_json: AsJson = False,
) -> None:
    """Show other offsets for a group, and commit them with --execute.

    The group must have no members. An offset outside of the log becomes the
    nearest one in it.

    \b
    apportion groups reset-offsets etl --topic flights --to-earliest
    apportion groups reset-offsets etl --topic flights:0,1 --shift-by -9 --execute
    apportion groups reset-offsets etl --all-topics --to-datetime 2026-07-01T08:30
    """
    from apportion.cli.groups.partitions import parse_partitions
    from apportion.cli.groups.reset_targets import TargetOptions
    from apportion.cli.groups.resetting import parse_plan, reset_offsets

    asked = Asked(COMMAND, bootstrap, timeout_ms, as_json, command_config)

    def run() -> int:
        options = TargetOptions(
            to_earliest,
            to_latest,
            to_current,
            whole_number_or_none("--to-offset", to_offset),
            whole_number_or_none("--shift-by", shift_by),
            to_datetime,
            by_duration,
        )
        plan = parse_plan(
            one_named("group", name, group),
            parse_partitions(topics or ()),
            options,
            from_file,
            all_topics=all_topics,
            execute=is_executed(dry_run, execute),
            new_group=new_group,
        )
        return reset_offsets(asked, plan)

    raise typer.Exit(checked(asked, run))


@changes.command("alter")
def alter_command(
    name: GroupArgument = None,
    group: GroupOption = None,
    config: Annotated[
        list[str] | None,
        typer.Option(
            "--config",
            metavar="NAME=VALUE",
            help="A setting of the group; may be given more than once.",
            autocompletion=group_assignments,
        ),
    ] = None,
    delete_config: Annotated[
        list[str] | None,
        typer.Option(
            "--delete-config",
            metavar="NAME",
            help=DELETE_CONFIG_HELP,
            autocompletion=group_setting_names,
        ),
    ] = None,
    dry_run: OnlyCheck = False,
    new_group: Annotated[
        bool, typer.Option("--new-group", help="The group does not exist yet: it is about to.")
    ] = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    command_config: CommandConfig = None,
    timeout_ms: Timeout = DEFAULT_TIMEOUT_MS,
    as_json: AsJson = False,
) -> None:
    """Alter the settings that a group has of its own, while its members work.

    \b
    apportion groups alter etl --config consumer.session.timeout.ms=50000
    apportion groups alter etl --delete-config consumer.session.timeout.ms
    apportion groups describe etl --configs
    """
    from apportion.cli.cluster_settings import parse_changes
    from apportion.cli.groups.altering import GroupAlteration, alter_group

    asked = Asked(COMMAND, bootstrap, timeout_ms, as_json, command_config)

    def run() -> int:
        changes = parse_changes(config or (), delete_config or ())
        return alter_group(
            asked, one_named("group", name, group), GroupAlteration(changes, dry_run, new_group)
        )

    raise typer.Exit(checked(asked, run))


@changes.command("delete")
def delete_command(
    names: GroupArguments = None,
    group: GroupOptions = None,
    dry_run: DryRun = False,
    execute: Execute = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    command_config: CommandConfig = None,
    timeout_ms: Timeout = DEFAULT_TIMEOUT_MS,
    as_json: AsJson = False,
) -> None:
    """Show groups without members and their offsets, and delete them with --execute.

    \b
    apportion groups delete flights-old
    apportion groups delete flights-old --execute
    """
    from apportion.cli.groups.deleting import delete_groups

    asked = Asked(COMMAND, bootstrap, timeout_ms, as_json, command_config)

    def run() -> int:
        named = names_to_delete("group", names, group)
        return delete_groups(asked, named, execute=is_executed(dry_run, execute))

    raise typer.Exit(checked(asked, run))


@changes.command("delete-offsets")
def delete_offsets_command(
    name: GroupArgument = None,
    group: GroupOption = None,
    topics: PartitionOptions = None,
    dry_run: DryRun = False,
    execute: Execute = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    command_config: CommandConfig = None,
    timeout_ms: Timeout = DEFAULT_TIMEOUT_MS,
    as_json: AsJson = False,
) -> None:
    """Show committed offsets of a group, and delete them with --execute.

    No member may be subscribed to their topics.

    \b
    apportion groups delete-offsets etl --topic flights-old --topic airports:0,1
    apportion groups delete-offsets etl --topic flights-old --execute
    """
    from apportion.cli.groups.deleting import delete_offsets
    from apportion.cli.groups.partitions import parse_partitions

    asked = Asked(COMMAND, bootstrap, timeout_ms, as_json, command_config)
    raise typer.Exit(
        checked(
            asked,
            lambda: delete_offsets(
                asked,
                one_named("group", name, group),
                parse_partitions(topics or ()),
                execute=is_executed(dry_run, execute),
            ),
        )
    )


@changes.command("remove-members")
def remove_members_command(
    name: GroupArgument = None,
    group: GroupOption = None,
    members: Annotated[
        list[str] | None,
        typer.Option(
            "--member", metavar="MEMBER", help="A member id; may be given more than once."
        ),
    ] = None,
    instances: Annotated[
        list[str] | None,
        typer.Option(
            "--instance",
            metavar="INSTANCE",
            help="The group.instance.id of a static member; may be given more than once.",
        ),
    ] = None,
    all_members: Annotated[bool, typer.Option("--all", help="Every member of the group.")] = False,
    dry_run: DryRun = False,
    execute: Execute = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    command_config: CommandConfig = None,
    timeout_ms: Timeout = DEFAULT_TIMEOUT_MS,
    as_json: AsJson = False,
) -> None:
    """Show members whose process is gone, and remove them with --execute.

    They are gone before the end of their session. A member that still runs joins
    again by itself.

    \b
    apportion groups remove-members flights-etl --all
    apportion groups remove-members flights-etl --instance worker-7 --execute
    """
    from apportion.cli.groups.removing import parse_members, remove_members

    asked = Asked(COMMAND, bootstrap, timeout_ms, as_json, command_config)
    raise typer.Exit(
        checked(
            asked,
            lambda: remove_members(
                asked,
                one_named("group", name, group),
                parse_members(members or (), instances or (), all_members),
                execute=is_executed(dry_run, execute),
            ),
        )
    )


groups.add_typer(changes)
