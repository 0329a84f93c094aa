"""Finds the processes that keep a Streams group from a newer metadata version, for operators.

Decided from the two version numbers of each process alone (KIP-268).
"""

from collections.abc import Mapping
from typing import NamedTuple

from apportion.streams.metadata.model import EARLIEST_PROBEABLE, LATEST
from apportion.streams.metadata.probing import MetadataVersions
from apportion.streams.metadata.releases import RELEASES, SIMULATED_VERSION


class UpgradeBlocker(NamedTuple):
    """The metadata versions of a group and the processes that block an upgrade.

    used: the lowest version that a process uses. understood: the newest that all support.
    newest_understood: the newest that any supports. processes: those that support no more than
    `understood`, where another supports more; by name. advice: at least one sentence for the
    operator.
    """

    used: int
    understood: int
    newest_understood: int
    processes: tuple[str, ...]
    advice: tuple[str, ...]


def find_upgrade_blocker(
    versions_by_process: Mapping[str, MetadataVersions],
) -> UpgradeBlocker | None:
    """Return the processes that hold a Streams group at a metadata version, and advice.

    None if there are no processes. For `apportion streams describe`. The processes are given by
    name.
    """
    if not versions_by_process:
        return None
    used = min(versions.used for versions in versions_by_process.values())
    understood = min(versions.understood for versions in versions_by_process.values())
    newest_understood = max(versions.understood for versions in versions_by_process.values())
    # A group uses the newest version that all members support.
    if understood == newest_understood:
        return UpgradeBlocker(
            used,
            understood,
            newest_understood,
            (),
            (_advice_without_blocker(versions_by_process, used, understood),),
        )
    blockers = tuple(
        name
        for name in sorted(versions_by_process)
        if versions_by_process[name].understood == understood
    )
    by_versions: dict[MetadataVersions, list[str]] = {}
    for name in blockers:
        by_versions.setdefault(versions_by_process[name], []).append(name)
    return UpgradeBlocker(
        used,
        understood,
        newest_understood,
        blockers,
        tuple(_advice(by_versions[versions], versions) for versions in sorted(by_versions)),
    )


def releases_with_version(version: int) -> str:
    """Return the Streams releases whose newest metadata version this is: "2.1 to 2.3", or ""."""
    names = [
        name
        for name, release in RELEASES.items()
        if release.newest_version == version != SIMULATED_VERSION
    ]
    if not names or version == LATEST:
        return f"{names[0]} or newer" if names else ""
    return names[0] if len(names) == 1 else f"{names[0]} to {names[-1]}"


def _advice_without_blocker(
    versions_by_process: Mapping[str, MetadataVersions], used: int, understood: int
) -> str:
    """Return a sentence of advice where all Streams processes support the same metadata version."""
    # Versions 1 and 2 do not name a newer one: a newer release with upgrade.from looks like an old
    # one.
    if used == understood and used < EARLIEST_PROBEABLE:
        advice = "once all run a newer release, bounce them one by one without upgrade.from"
        return f"All speak version {used}, which does not name a newer supported one: {advice}."
    if used == understood:
        return f"All speak version {used} and nobody supports more."
    behind = [
        name for name in sorted(versions_by_process) if versions_by_process[name].used < understood
    ]
    verb, who = ("speaks", "it steps") if len(behind) == 1 else ("speak", "they step")
    return (
        f"All support version {understood}. {_listed(behind)} still {verb} {used}: {who} up "
        "in a next rebalance, with no bounce."
    )


def _advice(names: list[str], versions: MetadataVersions) -> str:
    """Return a text: the version that these Streams processes use, their releases, and advice."""
    alone = len(names) == 1
    subject = f"{_listed(names)} {'speaks' if alone else 'speak'} version {versions.used}"
    releases = releases_with_version(versions.understood)
    it, is_ = ("it", "is") if alone else ("they", "are")
    origin = f"of Kafka Streams {releases}" if releases else "of no release that is known here"
    bounce = f"bounce {'it' if alone else 'them one by one'} next"
    if versions.used < EARLIEST_PROBEABLE:
        has = "has" if alone else "have"
        return (
            f"{subject}, which does not name a newer supported one: {it} {is_} {origin}, or {has} "
            f"upgrade.from set; {bounce}, "
            "with a newer release or without upgrade.from."
        )
    more = "" if versions.used == versions.understood else f" than {versions.understood}"
    return (
        f"{subject} and {'supports' if alone else 'support'} no more{more}: {it} {is_} {origin}; "
        f"{bounce}, with a newer release."
    )


def _listed(names: list[str]) -> str:
    """Return the names of Streams processes as the beginning of a sentence."""
    if len(names) == 1:
        return f"Process {names[0]}"
    return f"Processes {', '.join(names[:-1])} and {names[-1]}"
