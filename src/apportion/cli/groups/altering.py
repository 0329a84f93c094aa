"""`apportion groups alter`, and the settings in `apportion groups describe --configs`."""

from collections.abc import Mapping
from typing import NamedTuple

from apportion.cli.asked import Asked, Report
from apportion.cli.cluster_reports import print_report
from apportion.cli.cluster_settings import (
    DRY,
    Changes,
    alter_settings,
    change_rows,
    print_changes,
    read_settings,
    require_known,
    setting_rows,
)
from apportion.cli.failures import NoSuchGroup, WrongArguments
from apportion.cli.groups.report import read_members
from apportion.cli.lines import print_sentence, row_console
from apportion.client.cluster import Cluster
from apportion.member.cluster_queries.configs import DescribedSetting
from apportion.readable import readable
from apportion.wire.messages.describe_configs import GROUP

NOT_YET: Report = {"type": None, "state": None, "members": []}
"""The report on a group that does not exist, or not yet, but has settings."""
CLASSIC = "It is a classic group: the settings hold once its members use the consumer protocol."


class GroupAlteration(NamedTuple):
    """The changes of one group. new_group: it need not exist."""

    changes: Changes
    dry_run: bool
    new_group: bool


def alter_group(asked: Asked, group_id: str, alteration: GroupAlteration) -> int:
    """Alter settings of the group; return the exit code."""
    changes, dry_run, new_group = alteration
    if not changes:
        raise WrongArguments("say what to alter: --config or --delete-config")

    def change(cluster: Cluster) -> Report:
        settings = read_settings(cluster, GROUP, group_id)
        require_known(asked, GROUP, group_id, settings, changes)
        try:
            group = _members(cluster, group_id, asked.at, settings)
        except NoSuchGroup:
            if not new_group:
                raise NoSuchGroup(
                    group_id,
                    asked.at,
                    also="; --new-group gives settings to a group before it has members",
                ) from None
            group = NOT_YET
        alter_settings(cluster, GROUP, group_id, changes, validate_only=dry_run)
        return {
            "group": group_id,
            "type": group["type"],
            "altered": not dry_run,
            "configs": change_rows(settings, changes),
        }

    return print_report(asked, change, _show)


def _show(report: Report) -> None:
    print_changes(report["configs"])
    console = row_console()
    print_sentence(
        console, readable(f"{report['group']} is altered.") if report["altered"] else DRY
    )
    if report["type"] == "classic":
        print_sentence(console, CLASSIC)


def read_group_settings(cluster: Cluster, group_id: str, at: str) -> Report:
    """Return the report on a group with its settings in place of its offsets."""
    settings = read_settings(cluster, GROUP, group_id)
    group = _members(cluster, group_id, at, settings)
    return group | {"configs": setting_rows(settings)}


def _members(
    cluster: Cluster, group_id: str, at: str, settings: Mapping[str, DescribedSetting]
) -> Report:
    """Return the report on a group without offsets.

    One that does not exist may have settings of its own; without them it is NoSuchGroup.
    """
    try:
        return read_members(cluster, group_id, at)
    except NoSuchGroup:
        if not any(each.is_own for each in settings.values()):
            raise
        return {"group": group_id, **NOT_YET}
