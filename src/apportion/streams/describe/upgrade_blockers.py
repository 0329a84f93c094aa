"""The processes that keep a Streams group from a newer metadata version, with advice for the
operator.

Decided from the two version numbers of each process alone.
"""

from collections.abc import Mapping
from typing import NamedTuple

from apportion.streams.metadata.model import EARLIEST_PROBEABLE, LATEST
from apportion.streams.metadata.probing import MetadataVersions
from apportion.streams.metadata.releases import RELEASES, SIMULATED_VERSION


class UpgradeBlocker(NamedTuple):
    """The metadata versions of a group and the processes that block an upgrade.

    used: the oldest version that somebody speaks. understood: the newest that everybody says to
    understand. possible: the newest that somebody does. holders: the processes that understand no
    more than `understood`, while somebody does; in order of name.
    advice: sentences for whoever runs the application, one at least.
    """

    used: int
    understood: int
    newest_understood: int
    processes: tuple[str, ...]
    advice: tuple[str, ...]


def find_upgrade_blocker(said: Mapping[str, MetadataVersions]) -> UpgradeBlocker | None:
    """What keeps these processes, by name, from a newer version; None of nobody."""
    if not said:
        return None
    used = min(spoken.used for spoken in said.values())
    understood = min(spoken.understood for spoken in said.values())
    possible = max(spoken.understood for spoken in said.values())
    if understood == possible:
        return UpgradeBlocker(
            used, understood, possible, (), (_advice_without_blocker(said, used, understood),)
        )
    holders = tuple(name for name in sorted(said) if said[name].understood == understood)
    alike: dict[MetadataVersions, list[str]] = {}
    for name in holders:
        alike.setdefault(said[name], []).append(name)
    return UpgradeBlocker(
        used,
        understood,
        possible,
        holders,
        tuple(_advice(alike[spoken], spoken) for spoken in sorted(alike)),
    )


def releases_with_version(version: int) -> str:
    """The releases of Kafka Streams whose newest metadata version that is, such as "2.1 to 2.3"; ""
    if there is none.
    """
    names = [
        name
        for name, release in RELEASES.items()
        if release.newest_version == version != SIMULATED_VERSION
    ]
    if not names or version == LATEST:
        return f"{names[0]} or newer" if names else ""
    return names[0] if len(names) == 1 else f"{names[0]} to {names[-1]}"


def _advice_without_blocker(
    said: Mapping[str, MetadataVersions], used: int, understood: int
) -> str:
    if used == understood and used < EARLIEST_PROBEABLE:
        then = "once all run a newer release, bounce them one by one without upgrade.from"
        return f"All speak version {used}, in which nobody can say to support more: {then}."
    if used == understood:
        return f"All speak version {used} and nobody supports more."
    behind = [name for name in sorted(said) if said[name].used < understood]
    verb, who = ("speaks", "it steps") if len(behind) == 1 else ("speak", "they step")
    return (
        f"All support version {understood}. {_listed(behind)} still {verb} {used}: {who} up "
        "in a next rebalance, with no bounce."
    )


def _advice(names: list[str], spoken: MetadataVersions) -> str:
    """What these processes say, which release that makes them, and what to do."""
    alone = len(names) == 1
    who = f"{_listed(names)} {'speaks' if alone else 'speak'} version {spoken.used}"
    releases = releases_with_version(spoken.understood)
    it, is_ = ("it", "is") if alone else ("they", "are")
    of = f"of Kafka Streams {releases}" if releases else "of no release that is known here"
    bounce = f"bounce {'it' if alone else 'them one by one'} next"
    if spoken.used < EARLIEST_PROBEABLE:
        has = "has" if alone else "have"
        return (
            f"{who}, in which nobody can say to support more: {it} {is_} {of}, or {has} "
            f"upgrade.from set; {bounce}, "
            "with a newer release or without upgrade.from."
        )
    more = "" if spoken.used == spoken.understood else f" than {spoken.understood}"
    return (
        f"{who} and {'supports' if alone else 'support'} no more{more}: {it} {is_} {of}; "
        f"{bounce}, with a newer release."
    )


def _listed(names: list[str]) -> str:
    """The names as a sentence begins with them."""
    if len(names) == 1:
        return f"Process {names[0]}"
    return f"Processes {', '.join(names[:-1])} and {names[-1]}"
