"""Settings of topics and groups: how commands read, check, alter and show them."""

import shlex
from collections.abc import Iterable, Mapping

from apportion.cli.asked import Asked, Report
from apportion.cli.failures import Advised, WrongArguments
from apportion.cli.tables import Column, Kind, print_table
from apportion.client.cluster import Cluster
from apportion.errors import Code, Refused
from apportion.member.cluster_queries.configs import (
    SOURCES,
    AlterConfigsQuery,
    DescribeConfigsQuery,
    DescribedSetting,
)
from apportion.member.cluster_queries.retries import send_until_accepted
from apportion.settings import nearest_or_none
from apportion.wire.messages.describe_configs import GROUP, TOPIC

Changes = Mapping[str, str | None]
"""The new value of each setting; None returns it to its default."""
DRY = "Nothing was changed: leave --dry-run out to alter it."
KINDS = {TOPIC: "topic", GROUP: "group"}
OLD_BROKERS = (
    "this cluster has no settings of single groups, as Apache Kafka has since 4.0: those of its "
    "brokers, such as group.consumer.session.timeout.ms, hold for every group"
)
CHANGE_COLUMNS = {
    "name": Column("SETTING"),
    "before": Column("BEFORE", Kind.LIST),
    "new": Column("NEW", Kind.LIST),
}
SETTING_COLUMNS = {
    "name": Column("SETTING"),
    "value": Column("VALUE", Kind.LIST),
    "source": Column("FROM"),
}


def parse_config(pairs: Iterable[str]) -> dict[str, str]:
    """Return the settings that were typed as `--config NAME=VALUE`. Raises WrongArguments."""
    found = {}
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not equals or not name.strip():
            raise WrongArguments(f"--config must be NAME=VALUE, not {pair!r}")
        if name.strip() in found:
            raise WrongArguments(f"--config gives {name.strip()} twice: give it once")
        found[name.strip()] = value.strip()
    return found


def parse_changes(pairs: Iterable[str], deleted: Iterable[str]) -> dict[str, str | None]:
    """Return what was typed as `--config` and as `--delete-config`. Raises WrongArguments."""
    changes: dict[str, str | None] = {**parse_config(pairs)}
    for typed in deleted:
        name = typed.strip()
        if not name or "=" in name:
            raise WrongArguments(f"--delete-config must be the NAME of a setting, not {typed!r}")
        if changes.get(name) is not None:
            raise WrongArguments(f"{name} cannot be set and deleted: give one of the two")
        changes[name] = None
    return changes


def read_settings(cluster: Cluster, kind: int, name: str) -> dict[str, DescribedSetting]:
    """Return all settings of a topic or a group, in order of name.

    Raises Advised where the cluster has no settings of groups.
    """
    try:
        settings = cluster.run(send_until_accepted(DescribeConfigsQuery(kind, name)))
    except Refused as refused:
        # An older broker does not know the kind; every broker refuses an empty name.
        if kind == GROUP and name and refused.code is Code.INVALID_REQUEST:
            raise Advised(refused.code, OLD_BROKERS) from None
        raise
    if kind == GROUP and not settings:
        raise Advised(Code.INVALID_REQUEST, OLD_BROKERS)
    return settings


def require_known(
    asked: Asked, kind: int, name: str, settings: Iterable[str], changes: Changes
) -> None:
    """Raise Advised if a changed setting is not among those that the cluster has.

    A broker may accept that a setting is deleted which it does not know.
    """
    known = [*settings]
    for setting in changes:
        if setting not in known:
            near = nearest_or_none(setting, known)
            command = f"apportion {KINDS[kind]}s describe {shlex.quote(name)} --configs {asked.at}"
            hint = f"did you mean {near}?" if near else f"`{command}` shows all"
            raise Advised(
                Code.INVALID_CONFIG, f"a {KINDS[kind]} has no setting {setting!r}: {hint}"
            )


def alter_settings(
    cluster: Cluster, kind: int, name: str, changes: Changes, *, validate_only: bool
) -> None:
    """Alter settings of a topic or a group, or only check whether the broker accepts that."""
    query = AlterConfigsQuery(kind, name, changes, validate_only)
    cluster.run(send_until_accepted(query))


def change_rows(settings: Mapping[str, DescribedSetting], changes: Changes) -> list[Report]:
    """Return the report on changes: of each setting the name, the value before, and the new one."""
    return [
        {
            "name": name,
            "before": settings[name].value,
            "new": settings[name].inherited if value is None else value,
        }
        for name, value in changes.items()
    ]


def setting_rows(settings: Mapping[str, DescribedSetting]) -> list[Report]:
    """Return the report on settings: of each the name, the value, and where that comes from."""
    return [
        {"name": name, "value": each.value, "source": SOURCES.get(each.source)}
        for name, each in settings.items()
    ]


def print_changes(rows: Iterable[Report]) -> None:
    """Print a row for each changed setting."""
    print_table(CHANGE_COLUMNS, rows)


def print_settings(rows: Iterable[Report]) -> None:
    """Print a row for each setting."""
    print_table(SETTING_COLUMNS, rows)
